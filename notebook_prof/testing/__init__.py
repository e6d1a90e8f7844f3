"""For tests, ours and yours: Traces drawn as text, and a clock moved by hand."""

from __future__ import annotations

from .drawing import draw
from .fake_clock import FakeClock

__all__ = ["FakeClock", "draw"]
