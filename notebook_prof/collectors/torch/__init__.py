"""The torch collector: PyTorch's profiler (Kineto), driven with little cost and without a word.

torch itself is imported when a recording starts, never before; nor is the collector here, since workers of a
DataLoader import `loader.worker` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .collector import TorchCollector

__all__ = ["TorchCollector"]


def __getattr__(name: str) -> Any:
    if name != "TorchCollector":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .collector import TorchCollector

    return TorchCollector
