"""py-spy, attached to this process by itself: stacks as they are seen from outside."""
