"""A selection as stretches of positions, never as a mask of all slices."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...trace.arrays import BoolArray, IntArray
from .rows import RowIndex, running_sum, spread

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
        """Memory in bytes, including the running sums of `before`."""
        return int(self.first.nbytes + self.stop.nbytes) + 8 * (len(self) + 1)

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

    def holds(self, at: IntArray) -> BoolArray:
        """Return which of some positions are selected."""
        if not len(self):
            return np.zeros(at.shape, bool)
        k = np.searchsorted(self.first, at.astype(self.first.dtype), "right") - 1
        return np.asarray((k >= 0) & (at < self.stop[np.maximum(k, 0)]))

    def near(self, stops: IntArray) -> Chosen:
        """Return the stretches that touch bins with these `RowIndex.started_before`, shape (rows, edges)."""
        if not len(stops):
            return self
        order = np.argsort(stops[:, 0], kind="stable")
        kind = self.first.dtype
        # one slice before: what is open at the first edge
        low, high = stops[order, 0] - 1, stops[order, -1]
        a = np.searchsorted(self.stop, low.astype(kind), "right")
        b = np.searchsorted(self.first, high.astype(kind), "left")
        a[1:] = np.maximum(a[1:], np.maximum.accumulate(b)[:-1])  # a stretch may reach over several rows
        at = spread(a, b)
        return Chosen(self._index, self.first[at], self.stop[at])

    def busy_until(self, stops: IntArray, open_ns: IntArray) -> IntArray:
        """Return selected ns before the edges of bins, over all rows; differences within a row are exact."""
        if not len(self):
            return np.zeros(stops.shape, np.int64)
        busy = self._index.busy_before
        sums = running_sum(busy(self.stop) - busy(self.first))
        k = np.searchsorted(self.first, stops.astype(self.first.dtype), "left")
        end = self.stop[np.maximum(k - 1, 0)]
        over = np.where((k > 0) & (end > stops), busy(end) - busy(stops), 0)
        return sums[k] - over - np.where((k > 0) & (end >= stops), open_ns, 0)

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


class Members:
    """Positions by value, for a column with many values that changes often (names)."""

    def __init__(self, index: RowIndex, order: RowPositions, pointer: IntArray) -> None:
        # `order`: positions sorted by value, and ascending within a value; `pointer`: where each value begins
        # in it, starting with the missing value (-1)
        self._index, self._order, self._pointer = index, order, pointer

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return int(self._order.nbytes + self._pointer.nbytes)

    def count(self, values: Iterable[int]) -> int:
        """Return how many slices have one of some values."""
        return sum(int(self._pointer[v + 2] - self._pointer[v + 1]) for v in values)

    def chosen(self, values: Iterable[int]) -> Chosen:
        """Return the slices that have one of some values (codes)."""
        parts = [self._order[self._pointer[v + 1] : self._pointer[v + 2]] for v in values]
        first = np.concatenate(parts) if parts else self._order[:0]
        if len(parts) > 1:
            first = np.sort(first)
        return Chosen(self._index, first, first + first.dtype.type(1))


class ValueRuns:
    """Runs of a column that keeps its value over many positions (step, phase, category)."""

    def __init__(self, index: RowIndex, first: RowPositions, value: npt.NDArray[np.integer]) -> None:
        self._index, self._first, self._value = index, first, value

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return int(self._first.nbytes + self._value.nbytes)

    def chosen(self, values: Iterable[int]) -> Chosen:
        """Return the slices that have one of some values."""
        keep = np.flatnonzero(np.isin(self._value, list(values)))
        return Chosen(self._index, self._first[keep], self._first[keep + 1])
