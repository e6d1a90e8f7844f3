"""Readers: files written by other profilers, as Traces.

What opens files is resolved when it is first used (PEP 562): a collector of one library takes the columns of
that format from here, and should not import the readers of all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy
from .base import Probe as Probe
from .base import Reader as Reader

if TYPE_CHECKING:
    from .registry import list_formats as list_formats
    from .registry import read_trace as read_trace

__all__ = ["Probe", "Reader", *lazy(__name__, {"registry": "list_formats read_trace"})]
