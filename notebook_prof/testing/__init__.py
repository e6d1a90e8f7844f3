"""For tests, ours and yours: Traces drawn as text, Traces from hypothesis, and a clock moved by hand.

`traces` needs hypothesis, which is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .drawing import draw
from .fake_clock import FakeClock

if TYPE_CHECKING:
    from .strategies import traces

__all__ = ["FakeClock", "draw", "traces"]


def __getattr__(name: str) -> Any:
    if name == "traces":
        return importlib.import_module(f"{__name__}.strategies").traces
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
