"""Our native format, written by `notebook_prof.writers.native`."""

from .reader import NativeReader

__all__ = ["NativeReader"]
