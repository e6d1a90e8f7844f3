"""Totals by group (name, shapes, module …) over any window, from running sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .launched import LaunchedIndex
from .rows import BoolArray, IntArray, RowIndex, grouped_order, running_sum


@dataclass(frozen=True, slots=True)
class GroupTotals:
    """One entry a group; all int64, shape (groups,).

    Attributes
    ----------
    count
        Calls that touch the window: without operators that only pass a call on to themselves.
    total_ns, self_ns
        Time inside the window: slices are clipped at its edges, and recursion counts once in the total.
    device_ns
        Device time inside the window that slices of the group, or what ran inside them, have launched.
    touched
        Slices that touch the window.
    """

    count: IntArray
    total_ns: IntArray
    self_ns: IntArray
    device_ns: IntArray
    touched: IntArray


class GroupIndex:
    """Slices sorted by group and start, with running sums; agrees with ``analysis.operators``.

    Parameters
    ----------
    index : RowIndex
        Of the same slices.
    codes : ndarray of int, shape (n,)
        Group of every slice (row order of ``trace.slices``, thus by start); -1 for none.
    n_groups : int
    ts, dur, self_ns : ndarray of int64, shape (n,)
    track : ndarray of int, shape (n,)
    again : ndarray of int64
        Slices that are counted with the one around them where both are of one group.
    parent : ndarray of int64
        The slice around each of `again`.
    launched : LaunchedIndex, optional
    mask : ndarray of bool, optional
        Count these slices only.

    Notes
    -----
    Within a group and a track, every slice adds a *fresh* stretch to the union of the earlier ones (nothing
    where it is nested in its own group). Fresh stretches are disjoint, so that the total of a window is a
    difference of two running sums, corrected by the at most one slice a row that crosses each edge. Self
    times are corrected by what is open inside the crossing slice. 28 bytes a slice.
    """

    def __init__(
        self,
        index: RowIndex,
        codes: npt.NDArray[np.integer],
        n_groups: int,
        *,
        ts: IntArray,
        dur: IntArray,
        self_ns: IntArray,
        track: npt.NDArray[np.integer],
        again: IntArray,
        parent: IntArray,
        launched: LaunchedIndex | None = None,
        mask: BoolArray | None = None,
    ) -> None:
        self._index, self.n_groups = index, n_groups
        self._codes, self._ts, self._dur, self._self_ns = codes, ts, dur, self_ns
        self._keep = codes >= 0 if mask is None else mask & (codes >= 0)
        self._launched = launched
        chosen = np.flatnonzero(self._keep)
        order = chosen[grouped_order(codes[chosen], n_groups)]
        self._key = codes[order].astype(np.int64) * index.stride + (ts[order] - index.origin)
        self._late, self._fresh = _late(chosen, codes, track, ts, dur)
        lengths = dur[order]
        if len(self._late):
            place = np.empty(len(codes), np.int32 if len(codes) < 2**31 else np.int64)
            place[order] = np.arange(len(order), dtype=place.dtype)
            lengths[place[self._late]] = self._lengths(self._late)
        self._total, self._self = running_sum(lengths), running_sum(self_ns[order])
        self._again = again[self._keep[again] & (codes[again] == codes[parent])]
        repeats = np.zeros(len(codes), bool)
        repeats[self._again] = True
        self._calls = np.zeros(len(order) + 1, np.int32)
        np.cumsum(~repeats[order], out=self._calls[1:])

    @property
    def nbytes(self) -> int:
        """Memory in bytes, without columns that belong to the trace."""
        parts = (self._key, self._total, self._self, self._calls, self._late, self._fresh, self._keep)
        return sum(part.nbytes for part in parts)

    def totals(self, start: int, end: int, row_below: IntArray) -> GroupTotals:
        """Totals of every group in ``[start, end)``.

        Parameters
        ----------
        start, end : int
            Nanoseconds.
        row_below : ndarray of int64, shape (n_rows,)
            Row that holds the children of a row's slices; -1 for none.

        Returns
        -------
        GroupTotals
        """
        index, stride = self._index, self._index.stride
        at = np.clip(np.array([start, end], np.int64) - index.origin, 0, stride - 1)
        base = np.arange(self.n_groups, dtype=np.int64)[:, None] * stride
        edges = np.searchsorted(self._key, (base + at[None, :]).ravel()).reshape(-1, 2)
        i, j = edges[:, 0], np.maximum(edges[:, 1], edges[:, 0])
        touched, count = j - i, (self._calls[j] - self._calls[i]).astype(np.int64)
        total, self_ns = self._total[j] - self._total[i], self._self[j] - self._self[i]
        device = np.zeros_like(total)
        if end > start:
            if self._launched is not None:
                device = self._launched.totals(start, end, self.n_groups)
            self._enter(start, end, row_below, touched, count, total, self_ns)
            self._leave(start, end, row_below, total, self_ns)
        return GroupTotals(count, total, self_ns, device, touched)

    def _enter(
        self,
        start: int,
        end: int,
        row_below: IntArray,
        touched: IntArray,
        count: IntArray,
        total: IntArray,
        own: IntArray,
    ) -> None:
        """Add the slices that are open at the left edge: nothing of them was counted so far."""
        slices, rows = self._crossing(start)
        codes = self._codes[slices]
        np.add.at(touched, codes, 1)
        np.add.at(count, codes, ~np.isin(slices, self._again))
        np.add.at(total, codes, self._part(slices, start, end))
        np.add.at(own, codes, self._own(slices, rows, row_below, start, end))

    def _leave(self, start: int, end: int, row_below: IntArray, total: IntArray, own: IntArray) -> None:
        """Take away what sticks out at the right edge of slices that start inside."""
        slices, rows = self._crossing(end)
        inside = self._ts[slices] >= start
        slices, rows = slices[inside], rows[inside]
        codes = self._codes[slices]
        np.add.at(total, codes, self._part(slices, start, end) - self._lengths(slices))
        np.add.at(own, codes, self._own(slices, rows, row_below, start, end) - self._self_ns[slices])

    def _crossing(self, edge: int) -> tuple[IntArray, IntArray]:
        at = self._index.crossing(edge)
        slices = self._index.order[at].astype(np.int64)
        kept = self._keep[slices]
        return slices[kept], self._index.row_at(at[kept])

    def _from(self, slices: IntArray) -> IntArray:
        """Start of the fresh stretch of some slices."""
        fresh = self._ts[slices].copy()
        if len(self._late):
            at = np.minimum(np.searchsorted(self._late, slices), len(self._late) - 1)
            found = self._late[at] == slices
            fresh[found] = self._fresh[at[found]]
        return fresh

    def _lengths(self, slices: IntArray) -> IntArray:
        return np.asarray(np.maximum(self._ts[slices] + self._dur[slices] - self._from(slices), 0))

    def _part(self, slices: IntArray, start: int, end: int) -> IntArray:
        right = np.minimum(self._ts[slices] + self._dur[slices], end)
        return np.asarray(np.maximum(right - np.maximum(self._from(slices), start), 0))

    def _own(self, slices: IntArray, rows: IntArray, row_below: IntArray, start: int, end: int) -> IntArray:
        left = np.maximum(self._ts[slices], start)
        right = np.minimum(self._ts[slices] + self._dur[slices], end)
        covered = self._index.covered(row_below[rows], left, right)
        return np.asarray(np.maximum(right - left - covered, 0))


def _late(
    chosen: IntArray,
    codes: npt.NDArray[np.integer],
    track: npt.NDArray[np.integer],
    ts: IntArray,
    dur: IntArray,
) -> tuple[IntArray, IntArray]:
    """Slices that earlier ones of their group and track cover at first, and until when; by slice."""
    if not len(chosen):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    tracks = int(track.max()) + 1
    order = chosen  # two stable sorts: by track, and by group within
    if tracks > 1:
        order = order[grouped_order(track[order], tracks)]
    order = order[grouped_order(codes[order], int(codes.max()) + 1)]
    home = codes[order].astype(np.int64) * tracks + track[order]
    heads = np.append(True, home[1:] != home[:-1])
    del home
    start = ts[order]
    origin = int(start.min())
    end = start + dur[order]
    base = np.cumsum(heads, dtype=np.int64) * (int(end.max()) - origin + 1) - origin
    reach = np.maximum.accumulate(end + base)
    reach[1:] = reach[:-1] - base[1:]
    late = np.flatnonzero(~heads & (reach > start))
    slices, until = order[late], np.minimum(reach[late], end[late])
    by_slice = np.argsort(slices, kind="stable")
    return slices[by_slice].astype(np.int64), until[by_slice]
