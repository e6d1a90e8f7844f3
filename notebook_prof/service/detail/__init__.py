"""Level of detail: indexes that answer any window of ten million slices in a few milliseconds."""
