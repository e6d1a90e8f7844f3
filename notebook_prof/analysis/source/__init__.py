"""Time by source: lines of the user's code, what they call, and stacks."""
