"""Records CuPy: allocations of its memory pool."""

from .collector import CupyCollector

__all__ = ["CupyCollector"]
