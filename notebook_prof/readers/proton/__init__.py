"""Proton, Triton's profiler: its tree of kernels and scopes."""

from .reader import ProtonReader

__all__ = ["ProtonReader"]
