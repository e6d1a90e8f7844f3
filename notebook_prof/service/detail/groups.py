"""Totals by group (name, shapes, module …) of the whole recording, or of a window from running sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ...trace.arrays import BoolArray, IntArray, sums_by_code
from ..cached import locked_cached_property
from .launched import Codes, LaunchedIndex, late_inside, late_when_sorted
from .rows import RowIndex, grouped_order, running_sum

if TYPE_CHECKING:
    from ..columns import SliceColumns


@dataclass(frozen=True, slots=True)
class GroupTotals:
    """Totals of every group inside a window; all int64, shape (groups,)."""

    # Calls that touch the window, without operators that only pass a call on to themselves.
    count: IntArray
    # Slices are clipped at the window's edges, and recursion counts once.
    total_ns: IntArray
    self_ns: IntArray
    # Device time launched by slices of the group, or by slices inside them.
    device_ns: IntArray
    # Slices that touch the window.
    touched: IntArray


T = TypeVar("T", bound=np.integer)


class _Sums(NamedTuple):
    """Slices by group and start: both in one key, and running sums."""

    key: IntArray
    total_ns: IntArray
    self_ns: IntArray
    # Slices that are counted together with the one around them.
    repeats: IntArray


_BYTES_A_SLICE: Final = 24


class GroupIndex:
    """Totals of groups of slices; agrees with ``analysis.operators``."""

    # Totals of the whole recording are plain sums. The first window builds running sums over slices sorted by
    # group and start, 24 bytes per slice.

    # Within a group and a track, every slice adds a *fresh* stretch to the union of the earlier ones (none if
    # it is nested in its own group). Fresh stretches are disjoint, so the total of a window is a difference
    # of two running sums, corrected by the slice, at most one per row, that crosses each edge. Self times are
    # corrected by what is open inside the crossing slice.
    def __init__(
        self,
        index: Callable[[], RowIndex],
        columns: SliceColumns,
        codes: npt.NDArray[np.integer],
        n_groups: int,
        *,
        again: tuple[IntArray, IntArray],
        launched: LaunchedIndex | None,
        chosen: IntArray | None,
        shallow: bool,
    ) -> None:
        self._index, self.n_groups, self._codes, self._launched = index, n_groups, codes, launched
        self._ts, self._dur, self._self_ns = columns.ts, columns.dur, columns.self_ns
        self._track, self._around = columns.track, columns.parent if shallow else None
        self._crosses_parent, self._drawn_ns = columns.crosses_parent, columns.drawn_ns
        self._row = columns.nested_row
        if chosen is None and (codes < 0).any():
            chosen = np.flatnonzero(codes >= 0)
        elif chosen is not None:
            chosen = chosen[codes[chosen] >= 0]
        self._chosen = chosen
        slices, around = again
        slices = slices[codes[slices] == codes[around]]
        self._again = slices[self._keeps(slices)]

    def _of_chosen(self, column: npt.NDArray[T]) -> npt.NDArray[T]:
        return column if self._chosen is None else column[self._chosen]

    def _by_group(self) -> tuple[Codes, IntArray]:
        """Return the slices by group and start, and the size of each group."""
        codes = self._of_chosen(self._codes)
        order = grouped_order(codes, self.n_groups)
        return order if self._chosen is None else self._chosen[order], sums_by_code(codes, self.n_groups)[0]

    @locked_cached_property
    def _late(self) -> tuple[Codes, IntArray]:
        """Slices covered at their start by earlier ones of their group and track, and until when."""
        if self._around is not None:
            return late_inside(self._codes, self._around, self._ts, self._dur, self._chosen)
        order, count = self._by_group()
        at, until = late_when_sorted(order, count, self._track, self._ts, self._dur[order])
        late = order[at]
        by_slice = np.argsort(late, kind="stable")
        return late[by_slice], until[by_slice]

    @locked_cached_property
    def _bounds(self) -> tuple[int, int]:
        """The first start and the last end of all slices."""
        if not len(self._ts):
            return 0, 0
        return int(self._ts.min()), int((self._ts + self._dur).max())

    @locked_cached_property
    def _sums(self) -> _Sums:
        """Running sums for totals of a window."""
        index, (order, count) = self._index(), self._by_group()
        key = index.key_of_groups(np.repeat(np.arange(self.n_groups), count), self._ts[order])
        late, until = self._late
        fresh = self._dur
        if len(late):
            fresh = fresh.copy()
            fresh[late] -= until - self._ts[late]
        repeats = self._again
        if len(repeats):
            is_repeat = np.zeros(len(self._codes), bool)
            is_repeat[repeats] = True
            repeats = np.flatnonzero(is_repeat[order])
        return _Sums(key, running_sum(fresh[order]), running_sum(self._self_ns[order]), repeats)

    @locked_cached_property
    def _whole(self) -> GroupTotals:
        """Return the totals of the whole recording, without sorting."""
        codes, size, (late, until) = self._of_chosen(self._codes), self.n_groups, self._late
        touched, total, own = sums_by_code(
            codes, size, self._of_chosen(self._dur), self._of_chosen(self._self_ns)
        )
        _, covered = sums_by_code(self._codes[late], size, until - self._ts[late])
        (repeated,) = sums_by_code(self._codes[self._again], size)
        device = np.zeros_like(own) if self._launched is None else self._launched.whole()
        return GroupTotals(touched - repeated, total - covered, own, device, touched)

    def _keeps(self, slices: IntArray) -> BoolArray:
        if self._chosen is None:
            return np.ones(len(slices), bool)
        at = np.searchsorted(self._chosen, slices)
        return np.asarray(np.append(self._chosen, -1)[at] == slices)

    @property
    def nbytes(self) -> int:
        """Memory in bytes, with what a window needs but without the trace's own columns."""
        chosen = 0 if self._chosen is None else self._chosen.nbytes
        slices = len(self._codes if self._chosen is None else self._chosen)
        return _BYTES_A_SLICE * slices + chosen

    def totals(self, start: int, end: int, row_below: IntArray) -> GroupTotals:
        """Return totals of every group in ``[start, end)``; `row_below` is the row of each row's children."""
        first, last = self._bounds
        if start <= first and end > last:
            return self._whole
        index, sums = self._index(), self._sums
        edges = index.edges_of_groups(sums.key, self.n_groups, start, end)
        i, j = edges[:, 0], np.maximum(edges[:, 1], edges[:, 0])
        touched = j - i
        count = touched - np.searchsorted(sums.repeats, j) + np.searchsorted(sums.repeats, i)
        total, self_ns = sums.total_ns[j] - sums.total_ns[i], sums.self_ns[j] - sums.self_ns[i]
        device = np.zeros_like(total)
        if end > start and self._launched is not None:
            device = self._launched.totals(start, end)
        totals = GroupTotals(count, total, self_ns, device, touched)
        if end > start:
            self._enter(totals, start, end, row_below)
            self._leave(totals, start, end, row_below)
        return totals

    def _enter(self, totals: GroupTotals, start: int, end: int, row_below: IntArray) -> None:
        """Add the slices that are open at the left edge, which running sums do not include."""
        slices, rows = self._crossing(start)
        codes = self._codes[slices]
        np.add.at(totals.touched, codes, 1)
        np.add.at(totals.count, codes, ~np.isin(slices, self._again))
        np.add.at(totals.total_ns, codes, self._part(slices, start, end))
        np.add.at(totals.self_ns, codes, self._own_ns(slices, rows, row_below, start, end))

    def _leave(self, totals: GroupTotals, start: int, end: int, row_below: IntArray) -> None:
        """Subtract the time beyond the right edge."""
        slices, rows = self._crossing(end)
        inside = self._ts[slices] >= start
        slices, rows = slices[inside], rows[inside]
        codes = self._codes[slices]
        length = np.maximum(self._ts[slices] + self._dur[slices] - self._from(slices), 0)
        np.add.at(totals.total_ns, codes, self._part(slices, start, end) - length)
        own_ns = self._own_ns(slices, rows, row_below, start, end)
        np.add.at(totals.self_ns, codes, own_ns - self._self_ns[slices])

    def _crossing(self, edge: int) -> tuple[IntArray, IntArray]:
        """Return the slices that are open at an edge, and their rows."""
        index = self._index()
        at = index.crossing(edge)
        more = self._crosses_parent
        drawn_before = self._ts[more] + self._drawn_ns[more] <= edge
        more = more[drawn_before & (self._ts[more] + self._dur[more] > edge)]
        slices = np.append(index.order[at].astype(np.int64), more)
        rows = np.append(index.row_at(at), self._row[more].astype(np.int64))
        kept = self._keeps(slices)
        return slices[kept], rows[kept]

    def _from(self, slices: IntArray) -> IntArray:
        """Return where the fresh stretches of some slices start."""
        fresh = self._ts[slices].copy()
        late, until = self._late
        if len(late):
            at = np.minimum(np.searchsorted(late, slices), len(late) - 1)
            is_late = late[at] == slices
            fresh[is_late] = until[at[is_late]]
        return fresh

    def _part(self, slices: IntArray, start: int, end: int) -> IntArray:
        right = np.minimum(self._ts[slices] + self._dur[slices], end)
        return np.asarray(np.maximum(right - np.maximum(self._from(slices), start), 0))

    def _own_ns(
        self, slices: IntArray, rows: IntArray, row_below: IntArray, start: int, end: int
    ) -> IntArray:
        left = np.maximum(self._ts[slices], start)
        right = np.minimum(self._ts[slices] + self._drawn_ns[slices], end)
        covered = self._index().covered(row_below[rows], left, right)
        return np.asarray(np.maximum(right - left - covered, 0))
