"""Kineto: PyTorch's profiler. Its JSON files, and the columns shared with live recordings."""

from .assemble import assemble
from .columns import KinetoColumns, MemoryColumns
from .reader import KinetoReader, read_columns

__all__ = ["KinetoColumns", "KinetoReader", "MemoryColumns", "assemble", "read_columns"]
