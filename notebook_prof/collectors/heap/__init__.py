"""Who allocated what was on the heap at its peak, and what is kept: memray, or tracemalloc without it."""

from .collector import HeapCollector

__all__ = ["HeapCollector"]
