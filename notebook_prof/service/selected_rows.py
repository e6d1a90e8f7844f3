"""Which slices the selection keeps, for views that leave out their own dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .columns import SliceColumns

BoolArray = npt.NDArray[np.bool_]
Key = tuple[Any, ...]

_FILTERS = ("name", "category", "track", "step", "phase", "rank")


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


def matching_mask(
    columns: SliceColumns, key: Key, slices: npt.NDArray[np.integer] | None = None
) -> BoolArray:
    """Slices that satisfy every clause of `matching_key`.

    Parameters
    ----------
    slices : ndarray of int, optional
        Look at these rows of ``trace.slices`` only.

    Returns
    -------
    ndarray of bool, shape (n,)
        In the row order of ``trace.slices``, or in that of `slices`. Values that the trace does not know
        match nothing.
    """
    some: Any = slice(None) if slices is None else slices
    keep = np.ones(columns.n if slices is None else np.shape(slices), bool)
    for dimension, values in key:
        if dimension in ("track", "step"):
            keep &= np.isin(getattr(columns, dimension)[some], values)
            continue
        if dimension == "rank":
            keep &= np.isin(columns.track[some], [t.track for t in columns.tracks if t.rank in values])
            continue
        chosen = np.zeros(len(columns.code_of[dimension]) + 1, bool)  # code -1 reads the last, which is False
        chosen[columns.codes(dimension, values)] = True
        keep &= chosen[getattr(columns, dimension)[some]]
    return keep
