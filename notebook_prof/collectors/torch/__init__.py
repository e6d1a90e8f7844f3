"""The torch collector: runs PyTorch's profiler (Kineto) at little cost, without printing anything.

torch is imported when a recording starts, never before. The collector is imported lazily too, since
DataLoader workers import only `loader.fetching`.
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
