"""Device time by the groups of the host slices that launched it, over any window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...analysis.grouping import nested_in_own_group
from ...trace.arrays import IntArray, sums_by_code
from ..cached import locked_cached_property
from .rows import RowIndex, grouped_order, running_sum

if TYPE_CHECKING:
    from ..columns import SliceColumns

# Slices covered by earlier ones of their group and track, so that recursion counts once.

Codes = npt.NDArray[np.integer]


def late_inside(
    codes: Codes, around: Codes, ts: IntArray, dur: IntArray, chosen: IntArray | None = None
) -> tuple[Codes, IntArray]:
    """Return slices covered at their start by one of their group and track, and until when."""
    # Whatever is open on a track when a slice begins is among the slices around it: the parent is the
    # latest-started open slice, its parent the latest-started slice open then, and so on. So nothing is
    # sorted, and only nested slices are read, once for each slice around them.
    group = codes
    if chosen is not None and not len(chosen):
        return np.empty(0, np.int64), np.empty(0, np.int64)
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


def late_when_sorted(
    order: npt.NDArray[np.integer],
    count: IntArray,
    track: npt.NDArray[np.integer],
    ts: IntArray,
    dur: IntArray,
) -> tuple[IntArray, IntArray]:
    """Return the same as `late_inside`, from slices sorted by group and start."""
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


class LaunchedIndex:
    """Pairs of group and device slice, sorted by group and start, with running sums."""

    # A device slice counts once for each group of its launcher and of everything around the launcher.
    def __init__(
        self,
        index: Callable[[], RowIndex],
        columns: SliceColumns,
        codes: npt.NDArray[np.integer],
        n_groups: int,
        launches: tuple[IntArray, IntArray],
    ) -> None:
        # `launches`: device slices, and the host slice that launched each
        self._index, self._n_groups = index, n_groups
        self._ts, self._dur = columns.ts, columns.dur
        groups, slices = _pairs(np.asarray(codes), *launches, columns.parent)
        by_slice = np.argsort(slices, kind="stable")
        self._groups, self._slices = groups[by_slice], slices[by_slice]

    @locked_cached_property
    def _sums(self) -> tuple[IntArray, IntArray]:
        """Group and start of every pair in one number, ascending, and running sums of the lengths."""
        index = self._index()
        order = grouped_order(self._groups, self._n_groups)
        at = self._slices[order]
        return index.key_of_groups(self._groups[order], self._ts[at]), running_sum(self._dur[at])

    def whole(self) -> IntArray:
        """Return the device ns of every group in the whole recording."""
        return sums_by_code(self._groups, self._n_groups, self._dur[self._slices])[1]

    def totals(self, start: int, end: int) -> IntArray:
        """Return the device ns of every group in ``[start, end)``; work is clipped at the edges."""
        index, (key, total) = self._index(), self._sums
        edges = index.edges_of_groups(key, self._n_groups, start, end)
        out: IntArray = total[edges[:, 1]] - total[edges[:, 0]]
        for edge, sign in ((start, 1), (end, -1)):
            slices = index.order[index.crossing(edge)].astype(np.int64)
            if sign < 0:
                slices = slices[self._ts[slices] >= start]
            last = self._ts[slices] + self._dur[slices]
            part = np.minimum(last, end) - start if sign > 0 else end - last
            for groups, ns in self._launched_by(slices, part):
                np.add.at(out, groups, ns)
        return out

    def _launched_by(self, slices: IntArray, ns: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        first = np.searchsorted(self._slices, slices)
        stop = np.searchsorted(self._slices, slices, side="right")
        for k in np.flatnonzero(stop > first):  # at most one a stream
            yield self._groups[first[k] : stop[k]], np.repeat(ns[k : k + 1], stop[k] - first[k])


def _pairs(
    codes: npt.NDArray[np.integer], work: IntArray, launcher: IntArray, parent: npt.NDArray[np.integer]
) -> tuple[IntArray, IntArray]:
    """Return each group around a launcher once, with its device slice."""
    groups: list[IntArray] = []
    slices: list[IntArray] = []
    device_row, row = work, np.asarray(launcher, parent.dtype)
    inner = nested_in_own_group(codes.astype(np.int64), parent.astype(np.int64), launcher)
    while len(row):
        counted = (codes[row] >= 0) & ~inner[row]
        groups.append(codes[row[counted]].astype(np.int64))
        slices.append(device_row[counted])
        row = parent[row]
        device_row, row = device_row[row >= 0], row[row >= 0]
    if not groups:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(groups), np.concatenate(slices)
