"""Operators that only pass a call on to themselves."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...trace import Trace
from ..scope import Mask, ints

_CALLS: Final = ("operator", "collective")


def redispatched(trace: Trace) -> Mask:
    """Which slices are the only thing inside an operator of their own name: one call, seen twice.

    PyTorch's dispatcher runs ``aten::div_`` inside ``aten::div_`` where a key (autograd, autocast) is
    handled first; ``key_averages()`` counts both as one call, and so do we.

    Returns
    -------
    ndarray of bool, shape (slices,)

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 1], dur=[9, 5], name="aten::div_", track=b.track("main"))
    >>> redispatched(b.seal()).tolist()
    [False, True]
    """
    slices = trace.slices
    parent = ints(slices["parent"])
    kinds = np.append(slices["category"].cat.categories.isin(list(_CALLS)), False)
    found = kinds[slices["category"].cat.codes.to_numpy()] & (parent >= 0)
    rows = np.flatnonzero(found)
    name = slices["name"].cat.codes.to_numpy()
    rows = rows[name[rows] == name[parent[rows]]]
    children = np.bincount(parent[parent >= 0], minlength=len(parent))
    out = np.zeros(len(slices), dtype=bool)
    out[rows[children[parent[rows]] == 1]] = True
    return out
