"""Memory recordings of PyTorch: snapshots of the CUDA allocator, and memory timelines."""

from .reader import TorchMemoryReader

__all__ = ["TorchMemoryReader"]
