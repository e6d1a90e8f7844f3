"""py-spy, attached to this process: stacks as seen from outside."""
