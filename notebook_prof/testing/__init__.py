"""Helpers for tests, ours and yours: Traces drawn as text, and a clock that is advanced by hand."""

from __future__ import annotations

from .drawing import draw
from .fake_clock import FakeClock

__all__ = ["FakeClock", "draw"]
