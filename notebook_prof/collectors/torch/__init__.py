"""The torch collector: runs PyTorch's profiler (Kineto) at little cost, without printing anything.

torch is imported when a recording starts, never before. DataLoader workers import only `loader.fetching`.
"""
