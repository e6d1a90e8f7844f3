"""Which slices the selection keeps, for views that leave out their own dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .columns import SliceColumns

BoolArray = npt.NDArray[np.bool_]
Key = tuple[Any, ...]

_FILTERS = ("name", "category", "track", "step", "phase")


def matching_key(state: Mapping[str, Any], without: Sequence[str] = ()) -> Key:
    """The clauses that make a mask, hashable; empty where nothing (but perhaps a window) is selected.

    Parameters
    ----------
    state : mapping
        As `Selection.to_state` gives it.
    without : sequence of str
        Dimensions to leave out: a view is not filtered by what it selects itself.
    """
    return tuple(
        (name, tuple(state[name])) for name in _FILTERS if state.get(name) is not None and name not in without
    )


def matching_mask(columns: SliceColumns, key: Key) -> BoolArray:
    """Slices that satisfy every clause of `matching_key`.

    Returns
    -------
    ndarray of bool, shape (n,)
        In the row order of ``trace.slices``. Values that the trace does not know match nothing.
    """
    keep = np.ones(columns.n, bool)
    for dimension, values in key:
        if dimension in ("track", "step"):
            keep &= np.isin(getattr(columns, dimension), values)
            continue
        known = {"name": columns.names, "category": columns.categories, "phase": columns.phases}[dimension]
        wanted = set(values)
        chosen = np.array([value in wanted for value in known] + [False])  # code -1 reads the False
        keep &= chosen[getattr(columns, dimension)]
    return keep
