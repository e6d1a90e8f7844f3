"""A kernel for the scene of Numba, whose simulator wants it at the top of a module."""

# mypy: ignore-errors
from __future__ import annotations

from numba import cuda


@cuda.jit
def add_one(x):
    """Add one to every element."""
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1
