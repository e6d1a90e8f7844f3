"""The slices that a selection keeps, found by index; a view may leave out its own dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from operator import and_
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..trace.arrays import BoolArray, IntArray
from .columns import SliceColumns
from .detail.chosen import Chosen, ValueRuns
from .detail.rows import RowIndex

Key = tuple[Any, ...]

_FILTERS = ("name", "category", "track", "step", "phase", "rank", "line")


def matching_key(state: Mapping[str, Any], without: Sequence[str] = ()) -> Key:
    """Return the clauses that make a mask, hashable; empty if nothing, or only a window, is selected."""
    # `without` has the dimensions to leave out: a view is not filtered by its own selection
    return tuple(
        (name, tuple(state[name])) for name in _FILTERS if state.get(name) is not None and name not in without
    )


def matching_mask(
    columns: SliceColumns, key: Key, slices: npt.NDArray[np.integer] | None = None
) -> BoolArray:
    """Return a mask of the slices that satisfy every clause; unknown values match nothing."""
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


_FEW: Final = 16  # up to 1 in so many slices are sorted, more are found by a look at all
_REMEMBERED: Final = 6  # clauses


class Choices:
    """Finds the slices that a key keeps."""

    def __init__(self, columns: SliceColumns, index: RowIndex) -> None:
        self._columns, self._index = columns, index
        self._runs: dict[str, ValueRuns] = {}
        self._clause = lru_cache(_REMEMBERED)(self._matching)

    def effective(self, key: Key) -> Key:
        """Return the key without clauses that keep every slice."""
        return tuple(clause for clause in key if self._clause(*clause).count < self._columns.n)

    def count(self, key: Key) -> int:
        """Return an upper bound for the slices that a key keeps: the number for its narrowest clause."""
        counts = [self._clause(*clause).count for clause in key]
        return min(counts, default=self._columns.n)

    def chosen(self, key: Key) -> Chosen | None:
        """Return the positions that an effective key keeps; None for everything."""
        parts = sorted((self._clause(*clause) for clause in key), key=len)
        return reduce(and_, parts) if parts else None

    def slices(self, key: Key) -> IntArray | None:
        """Return the rows of ``trace.slices`` that an effective key keeps, ascending; None for all."""
        if not key:
            return None
        if self.count(key) * _FEW > self._columns.n:
            return np.flatnonzero(matching_mask(self._columns, key))
        chosen = self.chosen(key)
        assert chosen is not None
        return np.sort(self._index.order[chosen.positions()]).astype(np.int64)

    def _matching(self, dimension: str, values: tuple[Any, ...]) -> Chosen:
        c = self._columns
        if dimension in ("track", "rank"):
            tracks = [track for track in c.tracks if getattr(track, dimension) in values]
            pairs = [(t.first_row, t.first_row + t.depths) for t in tracks]
            ends = self._index.pointer[np.array(pairs, np.int64).reshape(-1, 2)]
            return Chosen(self._index, *ends.astype(self._index.order.dtype).T)
        return self.runs_of(dimension).chosen(values if dimension == "step" else c.codes(dimension, values))

    def runs_of(self, dimension: str) -> ValueRuns:
        """Return the stretches of ``name``, ``step``, ``phase``, ``category`` or ``line``; cached."""
        if dimension not in self._runs:
            value = getattr(self._columns, dimension)[self._index.order]
            self._runs[dimension] = ValueRuns(self._index, value)
        return self._runs[dimension]
