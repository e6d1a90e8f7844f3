"""Time by source: lines of the user's code, their calls, and stacks."""
