"""For tests, ours and yours: Traces drawn as text, Traces made by hypothesis, and a clock that stands still.

`traces` needs hypothesis, which is imported when it is first asked for.
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
