"""The display during a recorded cell."""
