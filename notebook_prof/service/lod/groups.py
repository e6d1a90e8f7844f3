"""Totals by group (name, shapes, module …) over any window, from running sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...trace.arrays import BoolArray, IntArray
from .launched import LaunchedIndex
from .rows import RowIndex, grouped_order, running_sum

Codes = npt.NDArray[np.integer]


def late_inside(
    codes: Codes, around: Codes, ts: IntArray, dur: IntArray, chosen: IntArray | None = None
) -> tuple[Codes, IntArray]:
    """Return slices that earlier ones of their group and track cover at first, and until when.

    Whatever is open on a track when a slice begins is among the slices around it: the parent is the
    latest-started open one, its parent the latest-started one open then, and so on. So nothing has to be
    sorted, and only nested slices are looked at, once for each slice around them.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Group of every slice; -1 for none.
    around : ndarray of int, shape (n,)
        The slice around every slice; -1 at the top.
    ts, dur : ndarray of int64, shape (n,)
    chosen : ndarray of int64, optional
        Look at these slices only; those that are not chosen cover nothing.

    Returns
    -------
    late : ndarray of int
        Slices, ascending.
    until : ndarray of int64
        When the cover of each ends, at most when it ends itself.

    Examples
    --------
    >>> ts, dur = np.array([0, 2, 4]), np.array([10, 5, 20])
    >>> late, until = late_inside(np.array([0, 1, 0]), np.array([-1, 0, 1]), ts, dur)
    >>> late.tolist(), until.tolist()
    ([2], [10])
    """
    group = codes
    if chosen is not None:
        group = np.full(len(codes), -1, codes.dtype)
        group[chosen] = codes[chosen]
    narrow = np.int32 if len(codes) < 2**31 else np.int64
    rows = np.flatnonzero((around >= 0) & (group >= 0)).astype(narrow)
    up, own = around[rows], group[rows]
    slices: list[Codes] = []
    ends: list[IntArray] = []
    while len(rows):
        same = np.flatnonzero(group[up] == own)
        inner, over = rows[same], up[same]
        until = ts[over] + dur[over]
        open_ = until > ts[inner]
        slices.append(inner[open_])
        ends.append(np.minimum(until[open_], ts[inner[open_]] + dur[inner[open_]]))
        up = around[up]
        inside = np.flatnonzero(up >= 0)
        rows, up, own = rows[inside], up[inside], own[inside]
    if not slices:
        return np.empty(0, narrow), np.empty(0, np.int64)
    late, until = np.concatenate(slices), np.concatenate(ends)
    order = np.lexsort((until, late))
    late, until = late[order], until[order]
    last = np.append(late[1:] != late[:-1], True) if len(late) else np.zeros(0, bool)  # the longest cover
    return late[last], until[last]


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
    chosen : ndarray of int64, optional
        Count these slices (ascending) only.
    around : ndarray of int, shape (n,), optional
        The slice around every slice, -1 at the top; makes the building faster where slices lie not too deep.

    Notes
    -----
    Within a group and a track, every slice adds a *fresh* stretch to the union of the earlier ones (nothing
    where it is nested in its own group). Fresh stretches are disjoint, so that the total of a window is a
    difference of two running sums, corrected by the at most one slice a row that crosses each edge. Self
    times are corrected by what is open inside the crossing slice. 24 bytes a slice.
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
        chosen: IntArray | None = None,
        around: npt.NDArray[np.integer] | None = None,
    ) -> None:
        self._index, self.n_groups = index, n_groups
        self._codes, self._ts, self._dur, self._self_ns = codes, ts, dur, self_ns
        self._launched = launched
        if chosen is None and (codes < 0).any():
            chosen = np.flatnonzero(codes >= 0)
        elif chosen is not None:
            chosen = chosen[codes[chosen] >= 0]
        self._chosen = chosen
        group_codes = codes if chosen is None else codes[chosen]
        order = grouped_order(group_codes, n_groups)
        order = order if chosen is None else chosen[order]
        count = (
            np.bincount(group_codes, minlength=n_groups) if len(group_codes) else np.zeros(n_groups, np.int64)
        )
        self._key = np.repeat(np.arange(n_groups) * index.stride - index.origin, count)
        self._key += ts[order]
        if around is None:
            lengths = dur[order]
            at, until = _overlapped(order, count, track, ts, lengths)
            late = order[at]
            lengths[at] -= until - ts[late]
            by_slice = np.argsort(late, kind="stable")
            self._overlapped, self._fresh = late[by_slice], until[by_slice]
        else:
            self._overlapped, self._fresh = late_inside(codes, around, ts, dur, chosen)
            fresh = dur.copy() if len(self._overlapped) else dur
            if len(self._overlapped):
                fresh[self._overlapped] -= self._fresh - ts[self._overlapped]
            lengths = fresh[order]
        self._total, self._self = running_sum(lengths), running_sum(self_ns[order])
        again = again[codes[again] == codes[parent]]
        self._again = again[self._keeps(again)]
        repeats = np.zeros(len(codes) if len(self._again) else 0, bool)
        repeats[self._again] = True
        self._repeats = np.flatnonzero(repeats[order]) if len(repeats) else self._again

    def _keeps(self, slices: IntArray) -> BoolArray:
        if self._chosen is None:
            return np.ones(len(slices), bool)
        at = np.searchsorted(self._chosen, slices)
        return np.asarray(np.append(self._chosen, -1)[at] == slices)

    @property
    def nbytes(self) -> int:
        """Memory in bytes, without columns that belong to the trace."""
        parts = (self._key, self._total, self._self, self._repeats, self._overlapped, self._fresh)
        return sum(part.nbytes for part in parts) + (0 if self._chosen is None else self._chosen.nbytes)

    def totals(self, start: int, end: int, row_below: IntArray) -> GroupTotals:
        """Return totals of every group in ``[start, end)``.

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
        touched = j - i
        count = touched - np.searchsorted(self._repeats, j) + np.searchsorted(self._repeats, i)
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
        np.add.at(own, codes, self._own_ns(slices, rows, row_below, start, end))

    def _leave(self, start: int, end: int, row_below: IntArray, total: IntArray, own: IntArray) -> None:
        """Take away what sticks out at the right edge of slices that start inside."""
        slices, rows = self._crossing(end)
        inside = self._ts[slices] >= start
        slices, rows = slices[inside], rows[inside]
        codes = self._codes[slices]
        np.add.at(total, codes, self._part(slices, start, end) - self._lengths(slices))
        np.add.at(own, codes, self._own_ns(slices, rows, row_below, start, end) - self._self_ns[slices])

    def _crossing(self, edge: int) -> tuple[IntArray, IntArray]:
        at = self._index.crossing(edge)
        slices = self._index.order[at].astype(np.int64)
        kept = self._keeps(slices)
        return slices[kept], self._index.row_at(at[kept])

    def _from(self, slices: IntArray) -> IntArray:
        """Return the start of the fresh stretch of some slices."""
        fresh = self._ts[slices].copy()
        if len(self._overlapped):
            at = np.minimum(np.searchsorted(self._overlapped, slices), len(self._overlapped) - 1)
            is_late = self._overlapped[at] == slices
            fresh[is_late] = self._fresh[at[is_late]]
        return fresh

    def _lengths(self, slices: IntArray) -> IntArray:
        return np.asarray(np.maximum(self._ts[slices] + self._dur[slices] - self._from(slices), 0))

    def _part(self, slices: IntArray, start: int, end: int) -> IntArray:
        right = np.minimum(self._ts[slices] + self._dur[slices], end)
        return np.asarray(np.maximum(right - np.maximum(self._from(slices), start), 0))

    def _own_ns(
        self, slices: IntArray, rows: IntArray, row_below: IntArray, start: int, end: int
    ) -> IntArray:
        left = np.maximum(self._ts[slices], start)
        right = np.minimum(self._ts[slices] + self._dur[slices], end)
        covered = self._index.covered(row_below[rows], left, right)
        return np.asarray(np.maximum(right - left - covered, 0))


def _overlapped(
    order: npt.NDArray[np.integer],
    count: IntArray,
    track: npt.NDArray[np.integer],
    ts: IntArray,
    dur: IntArray,
) -> tuple[IntArray, IntArray]:
    """Return slices that earlier ones of their group and track cover at first, and until when.

    Parameters
    ----------
    order : ndarray of int, shape (k,)
        Slices by group and start.
    count : ndarray of int64
        Slices of every group.
    dur : ndarray of int64, shape (k,)
        In the order of `order`.

    Returns
    -------
    at, until : ndarray of int64
        Where in `order`, and an instant.
    """
    if not len(order):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    tracks = int(track.max()) + 1
    group = np.repeat(np.arange(len(count), dtype=np.uint16 if len(count) < 1 << 16 else np.int32), count)
    start = ts[order]
    by_track: Any = slice(None)
    if tracks > 1:
        here = track.astype(np.uint16 if tracks < 1 << 16 else np.int32)[order]
        by_track = grouped_order(here, tracks)
        group, start, dur = group[by_track], start[by_track], dur[by_track]
        turns = np.cumsum(np.bincount(here))[:-1]
    heads = np.append(True, group[1:] != group[:-1])
    if tracks > 1:
        heads[turns[turns < len(heads)]] = True
    end = start + dur
    base = np.cumsum(heads, dtype=np.int64)
    base *= int(end.max()) - int(ts[0]) + 1
    end += base
    reach = np.maximum.accumulate(end)
    reach[1:] = reach[:-1] - base[1:]
    late = np.flatnonzero(~heads & (reach > start))
    until = np.minimum(reach[late], end[late] - base[late])
    return (late if tracks == 1 else by_track[late]), until
