"""The torch collector: PyTorch's profiler (Kineto), driven with little cost and without a word.

torch itself is imported when a recording starts, never before.
"""

from .collector import TorchCollector

__all__ = ["TorchCollector"]
