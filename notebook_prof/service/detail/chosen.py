"""A selection as stretches of positions, never as a mask of all slices."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace.arrays import IntArray
from .rows import RowIndex, grouped_order, running_sum, spread

RowPositions = npt.NDArray[np.integer]


class Chosen:
    """Selected stretches ``first:stop`` of a RowIndex: ascending, disjoint, none empty."""

    # A name has as many stretches as slices; a step or a track has a few per row. No slice outside the
    # stretches is read, so the cost of a view depends only on what is selected in its rows.
    def __init__(self, index: RowIndex, first: RowPositions, stop: RowPositions) -> None:
        self._index = index
        self.first, self.stop = first, stop

    def __len__(self) -> int:
        return len(self.first)

    @property
    def count(self) -> int:
        """The number of selected slices."""
        return int((self.stop.astype(np.int64) - self.first).sum())

    @property
    def nbytes(self) -> int:
        """Memory in bytes, including both running sums."""
        return int(self.first.nbytes + self.stop.nbytes) + 16 * (len(self) + 1)

    @cached_property
    def _counts(self) -> IntArray:
        """The number of selected slices before each stretch, and the total."""
        return running_sum(self.stop.astype(np.int64) - self.first)

    def before(self, at: IntArray) -> IntArray:
        """Return how many selected slices precede some positions."""
        if not len(self):
            return np.zeros(at.shape, np.int64)
        k = np.searchsorted(self.first, at.astype(self.first.dtype), "left")
        over = np.where(k > 0, np.maximum(self.stop[np.maximum(k - 1, 0)] - at, 0), 0)
        return np.asarray(self._counts[k] - over, np.int64)

    def nth(self, numbers: IntArray) -> IntArray:
        """Return the positions of the selected slices with these numbers, counted from 0."""
        k = np.searchsorted(self._counts, numbers, "right") - 1
        return np.asarray(self.first[k] + (numbers - self._counts[k]), np.int64)

    def positions(self) -> IntArray:
        """Return every selected position, ascending."""
        return spread(self.first, self.stop)

    @cached_property
    def _busy(self) -> IntArray:
        """The selected ns before each stretch, and the total."""
        busy = self._index.busy_before
        return running_sum(busy(self.stop) - busy(self.first))

    def busy_until(self, stops: IntArray, open_ns: IntArray) -> IntArray:
        """Return selected ns before the edges of bins, over all rows; differences within a row are exact."""
        if not len(self):
            return np.zeros(stops.shape, np.int64)
        busy = self._index.busy_before
        k = np.searchsorted(self.first, stops.astype(self.first.dtype), "left")
        end = self.stop[np.maximum(k - 1, 0)]
        over = np.where((k > 0) & (end > stops), busy(end) - busy(stops), 0)
        return self._busy[k] - over - np.where((k > 0) & (end >= stops), open_ns, 0)

    def __and__(self, other: Chosen) -> Chosen:
        few, many = (self, other) if len(self) <= len(other) else (other, self)
        kind = many.first.dtype
        a = np.searchsorted(many.stop, few.first.astype(kind), "right")
        b = np.searchsorted(many.first, few.stop.astype(kind), "left")
        at = spread(a, b)
        count = np.maximum(b - a, 0)
        first = np.maximum(many.first[at], np.repeat(few.first, count))
        stop = np.minimum(many.stop[at], np.repeat(few.stop, count))
        return Chosen(self._index, first, stop)


class ValueRuns:
    """Stretches of positions with the same value of a column, by value: 8 bytes each."""

    # A step has a few in each row, a name about one for each of its slices.
    def __init__(self, index: RowIndex, value: npt.NDArray[np.integer]) -> None:
        turns = np.flatnonzero(value[1:] != value[:-1]) + 1
        heads = np.concatenate([[0] if len(value) else [], turns, [len(value)]]).astype(index.order.dtype)
        code, values = pd.factorize(value[heads[:-1]])
        order = grouped_order(code, len(values))
        self._index, self._first, self._stop = index, heads[:-1][order], heads[1:][order]
        self._pointer = running_sum(np.bincount(code, minlength=len(values)))
        self._code = {value: code for code, value in enumerate(values.tolist())}

    def chosen(self, values: Iterable[int]) -> Chosen:
        """Return the slices that have one of some values."""
        codes = [self._code[value] for value in values if value in self._code]
        parts = [slice(self._pointer[code], self._pointer[code + 1]) for code in codes]
        # sorted apart, since the stretches are disjoint
        first, stop = (
            np.sort(np.concatenate([ends[part] for part in parts] or [ends[:0]]))
            for ends in (self._first, self._stop)
        )
        return Chosen(self._index, first, stop)
