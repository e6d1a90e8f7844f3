"""Which code allocated the heap at its peak, and what is kept: by memray, or by tracemalloc without it."""

from .collector import HeapCollector

__all__ = ["HeapCollector"]
