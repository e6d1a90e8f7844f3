"""Kineto: PyTorch's profiler. Its JSON files, and the columns shared with live recordings."""

from .assemble import assemble
from .columns import KinetoColumns, MemoryColumns
from .parser import read_columns
from .reader import KinetoReader

__all__ = ["KinetoColumns", "KinetoReader", "MemoryColumns", "assemble", "read_columns"]
