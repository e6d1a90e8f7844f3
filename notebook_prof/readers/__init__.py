"""Readers: files written by other profilers, as Traces.

What opens files is resolved when it is first used (PEP 562): a collector of one library takes the columns of
that format from here, and should not import the readers of all others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .base import Probe, Reader

if TYPE_CHECKING:
    from .registry import list_formats, read_trace

__all__ = ["Probe", "Reader", "list_formats", "read_trace"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.registry"), name)
    return value
