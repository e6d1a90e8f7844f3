"""Files of profilers of Python: sampled stacks, call trees, statistics by function or line."""
