"""Readers turn files written by other profilers into Traces.

The functions that open files are resolved at first use (PEP 562): the collector of a library imports that
format's columns from here, and should not load the readers of all other formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy
from .base import Probe, Reader

if TYPE_CHECKING:
    from .registry import list_formats as list_formats
    from .registry import read_trace as read_trace

__all__ = ["Probe", "Reader", *lazy(__name__)]
