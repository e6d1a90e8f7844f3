"""py-spy, attached to this process: stacks sampled from outside."""
