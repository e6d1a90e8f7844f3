"""Slices sorted by drawn row (track × depth) and start.

Slices of one row never overlap (a law of `trace.nesting`), so sorting by start also sorts by end. A window of
a row is one stretch of positions, found by two binary searches; the busy time up to an instant is a running
sum minus the rest of the open slice. Density and clipped totals follow from both, and are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray, sums_by_code

_RADIX: Final = 1 << 16


class RowIndex:
    """Positions of slices by row and start; 20 bytes per slice (order, key, running sum of lengths)."""

    def __init__(
        self,
        ts: IntArray,
        dur: IntArray,
        row: npt.NDArray[np.integer],
        n_rows: int,
        extent: Callable[[], IntArray | None] | None = None,
    ) -> None:
        self.n_rows = n_rows
        self.order = grouped_order(row, n_rows)
        (count,) = sums_by_code(row, n_rows)
        self.pointer: IntArray = running_sum(count)
        ts, dur = np.asarray(ts, np.int64), np.asarray(dur, np.int64)
        final = self.order[self.pointer[1:][count > 0] - 1]  # the last of a row ends last
        self.origin = int(ts.min()) if len(ts) else 0
        last = int((ts[final] + dur[final]).max()) if len(ts) else 1
        self.stride = last - self.origin + 2
        self._key: IntArray = np.repeat(np.arange(n_rows) * self.stride - self.origin, count)
        self._key += ts[self.order]
        self._busy: IntArray = running_sum(dur[self.order])
        self._dur, self._extent_of = dur, extent

    @cached_property
    def _outlasted(self) -> tuple[IntArray, IntArray]:
        """Positions of the few slices that an inner slice outlasts, and running sums of the excess."""
        extent = self._extent_of() if self._extent_of is not None else None
        if extent is None:
            return np.empty(0, np.int64), np.zeros(1, np.int64)
        at = np.flatnonzero((extent != self._dur)[self.order])
        return at, running_sum(extent[self.order[at]] - self.lengths(at))

    def _extent_before(self, at: IntArray) -> IntArray:
        """Return the summed extents (own and inside) of all slices before some positions."""
        positions, sums = self._outlasted
        return np.asarray(self._busy[at] + sums[np.searchsorted(positions, at)])

    def __len__(self) -> int:
        return len(self.order)

    def starts(self, at: IntArray) -> IntArray:
        """Return the start of the slices at some positions, ns."""
        return np.asarray(self._key[at] % self.stride + self.origin)

    def lengths(self, at: IntArray) -> IntArray:
        """Return the length of the slices at some positions, ns."""
        return np.asarray(self._busy[at + 1] - self._busy[at])

    def all_lengths(self) -> IntArray:
        """Return the length of every slice by position, ns."""
        return np.diff(self._busy)

    def busy_before(self, at: npt.NDArray[np.integer]) -> IntArray:
        """Return the summed lengths of all slices before some positions, ns, over all rows."""
        return np.asarray(self._busy[at])

    def ends(self, at: IntArray) -> IntArray:
        """Return the end of the slices at some positions, ns."""
        return self.starts(at) + self.lengths(at)

    def started_before(self, rows: IntArray, instants: IntArray) -> IntArray:
        """Return the position of the first slice of each row at or after each instant, (rows, instants)."""
        at = np.clip(instants - self.origin, 0, self.stride - 1)
        keys = rows[:, None] * self.stride + at[None, :]
        return np.searchsorted(self._key, keys)

    def stretch(self, rows: IntArray, start: int, end: int) -> tuple[IntArray, IntArray]:
        """Return the positions ``first:stop`` of each row's slices that touch ``[start, end)``."""
        # An instant (a slice of no length) touches the window that holds its start.
        edges = self.started_before(rows, np.array([start, end], np.int64))
        first, stop = edges[:, 0], edges[:, 1]
        before = np.maximum(first - 1, 0)
        reaches = (first > self.pointer[rows]) & (self.ends(before) > start) if len(self) else first < 0
        return first - reaches, np.maximum(stop, first - reaches)

    def open_ns(self, stop: IntArray, rows: IntArray, instants: IntArray) -> IntArray:
        """Return the rest of the slice open at each instant in ns, 0 without one, (rows, instants)."""
        if not len(self):
            return np.zeros(stop.shape, np.int64)
        last = np.maximum(stop - 1, 0)
        ends = self._key[last] - (rows * self.stride - self.origin)[:, None]
        ends += self._busy[last + 1]
        ends -= self._busy[last]
        ends -= instants
        return np.where(stop > self.pointer[rows][:, None], np.maximum(ends, 0, out=ends), 0)

    def busy_until(self, rows: IntArray, instants: IntArray) -> IntArray:
        """Return the busy ns of every row up to each instant; differences of columns are exact."""
        stop = self.started_before(rows, instants)
        return self._busy[stop] - self._busy[self.pointer[rows]][:, None] - self.open_ns(stop, rows, instants)

    def covered(self, rows: IntArray, left: IntArray, right: IntArray) -> IntArray:
        """Return the time between `left` and `right` in which a row, or anything in it, is open."""
        if not len(self):
            return np.zeros(len(rows), np.int64)
        # row -1 gives 0
        row = np.maximum(rows, 0)
        sides = []
        for instants in (left, right):
            at = np.clip(instants - self.origin, 0, self.stride - 1)
            stop = np.searchsorted(self._key, row * self.stride + at, side="left")
            last = np.maximum(stop - 1, 0)
            until = self.starts(last) + self._extent_before(last + 1) - self._extent_before(last)
            open_ns = np.where(stop > self.pointer[row], np.maximum(until - instants, 0), 0)
            sides.append(self._extent_before(stop) - self._extent_before(self.pointer[row]) - open_ns)
        return np.where(rows >= 0, sides[1] - sides[0], 0)

    def crossing(self, instant: int) -> IntArray:
        """Return the positions of slices open at an instant that began before it: at most one per row."""
        if not len(self):
            return np.empty(0, np.int64)
        rows = np.arange(self.n_rows, dtype=np.int64)
        stop = self.started_before(rows, np.array([instant], np.int64))[:, 0]
        last = np.maximum(stop - 1, 0)
        return last[(stop > self.pointer[rows]) & (self.ends(last) > instant)]

    def key_of_groups(self, group: IntArray, ts: IntArray) -> IntArray:
        """Return sort keys: one number for each pair of group and start."""
        return np.asarray(group * self.stride + (ts - self.origin))

    def edges_of_groups(self, key: IntArray, n_groups: int, start: int, end: int) -> IntArray:
        """Return the positions in `key` of two instants for each group, shape (groups, 2)."""
        at = np.clip(np.array([start, end], np.int64) - self.origin, 0, self.stride - 1)
        base = np.arange(n_groups, dtype=np.int64)[:, None] * self.stride
        return np.searchsorted(key, (base + at).ravel()).reshape(-1, 2)

    def row_at(self, at: IntArray) -> IntArray:
        """Return the rows of some positions."""
        return np.asarray(self._key[at] // self.stride)


def grouped_order(group: npt.NDArray[np.integer], n_groups: int) -> npt.NDArray[np.integer]:
    """Sort by group (0 … n_groups - 1), stably: one radix sort (linear) for every 16 bits."""
    keys = np.asarray(group)
    order = np.argsort(keys.astype(np.uint16), kind="stable")  # the lower 16 bits
    narrow = np.int32 if len(order) < 2**31 else np.int64
    if n_groups > _RADIX:
        order = order[np.argsort((keys[order] >> 16).astype(np.uint16), kind="stable")]
    return np.asarray(order, narrow)


def running_sum(values: npt.NDArray[np.integer]) -> IntArray:
    """Sum the first 0, 1, … n values, shape (n + 1,)."""
    out = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=out[1:])
    return out


def spread(first: npt.NDArray[np.integer], stop: npt.NDArray[np.integer]) -> IntArray:
    """Return all positions of many stretches, one after another."""
    count = np.maximum(np.asarray(stop, np.int64) - first, 0)
    total = int(count.sum())
    shift = np.repeat(np.asarray(first, np.int64) - (np.cumsum(count) - count), count)
    return np.asarray(np.arange(total, dtype=np.int64) + shift, np.int64)
