"""Which code had allocated the heap at its peak, and what is kept: by memray or, without that, by
tracemalloc."""

from .collector import HeapCollector

__all__ = ["HeapCollector"]
