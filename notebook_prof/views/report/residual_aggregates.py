"""Sums of the slices that are not in a file: how busy every row is, and totals by group.

The *fine* grid has the busy time of every row and cell without the slices in the file: together with them, it
gives the exact busy time between any two edges of cells. The *coarse* grid spreads the totals of every name
over time, to estimate a table under a selection; over the whole recording its totals are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...service.detail.density import MAX_CELLS, LongestBlocks, density
from ...service.detail.groups import GroupTotals
from ...service.detail.rows import RowIndex
from ...service.store import ViewStore
from ...trace.arrays import IntArray

SIDES = ("host", "device")


def totals_left_out(store: ViewStore, keep: npt.NDArray[np.bool_], by: str, side: str) -> GroupTotals:
    """Return, for every group, the totals of the whole recording minus those of the slices in the file."""
    # Everything around a slice in the file must be in the file, too.
    span, below = store.trace.span, store.columns.row_below
    window = (int(span.start), int(span.end) + 1)
    whole = store.groups(by, (), side).totals(*window, below)
    work, launcher = store.launches
    both_kept = keep[work] & keep[launcher]
    launches = (work[both_kept], launcher[both_kept]) if side == "host" else None
    there = store.sums(by, np.flatnonzero(keep & store.side(side)), launches).totals(*window, below)
    parts = ("count", "total_ns", "self_ns", "device_ns", "touched")
    return GroupTotals(*(getattr(whole, part) - getattr(there, part) for part in parts))


_MOST_CELLS_A_ROW: Final = 1 << 15
_MOST_KINDS: Final = 20_000
_COARSE: Final = 256
_ENOUGH: Final = 32
"""With fewer coarse cells per row than this, rows are summed instead of lengthening cells."""


@dataclass(frozen=True, slots=True)
class BusyGrid:
    """Cells of the fine grid with left-out slices: one entry per row and cell, ascending."""

    # Cell ``k`` of a row is ``[origin + k * width_ns, origin + (k + 1) * width_ns)``.
    origin: int
    width_ns: int
    per_row: int
    # ``row * per_row + cell``.
    at: IntArray
    # Time inside the cell, exact, and number of slices that begin in it.
    busy_ns: IntArray
    count: IntArray
    # Row in ``trace.slices`` of the longest of them.
    longest: IntArray


@dataclass(frozen=True, slots=True)
class TotalsGrid:
    """Weights of left-out slices, by group of rows, stretch of time and kind; one entry each, ascending."""

    # Number of coarse cells of a group of rows, and of fine cells in each of them.
    per_group: int
    fine: int
    # Each row is a group or, if that were too many entries, each track or all tracks of a kind.
    group_of_row: IntArray
    # ``group * per_group + coarse cell`` in which the slices begin.
    at: IntArray
    kind: IntArray
    # Their ns, plus one per slice, so that instants count.
    weight: IntArray
    # The entry of every left-out slice, in the order of ``np.flatnonzero(~keep)``.
    of_slice: IntArray


def cells_left_out(store: ViewStore, keep: npt.NDArray[np.bool_], most: int) -> BusyGrid:
    """Return the finest grid with at most about `most` non-empty cells."""
    c, out = store.columns, np.flatnonzero(~keep)
    index = RowIndex(c.ts[out], c.drawn_ns[out], c.row[out], c.n_rows)
    span = store.trace.span
    start, end = int(span.start), int(max(span.end, span.start + 1))
    width = _cell_width(index, start, end, most)
    origin = start // width * width
    n = -(-(end - origin) // width)
    edges = origin + width * np.arange(n + 1, dtype=np.int64)
    blocks, parts = LongestBlocks(index), []
    each = max(1, MAX_CELLS // (n + 2))
    used = np.flatnonzero(np.diff(index.pointer))
    for first in range(0, len(used), each):
        rows = used[first : first + each]
        d = density(index, blocks, rows, (origin, origin + n * width), n)
        begun = np.diff(index.started_before(rows, edges), axis=1)
        k, cell = np.nonzero(d.count)
        parts.append((rows[k] * n + cell, d.busy_ns[k, cell], begun[k, cell], d.longest[k, cell]))
    at, busy, count, longest = (np.concatenate(part) for part in zip(*parts, strict=True))
    return BusyGrid(origin, width, n, at, busy, count, out[index.order[longest]])


def _cell_width(index: RowIndex, start: int, end: int, most: int) -> int:
    """Return the smallest power of two that gives few enough cells."""
    at = np.arange(len(index), dtype=np.int64)
    begin, row = index.starts(at) - start, index.row_at(at)
    final = begin + np.maximum(index.lengths(at) - 1, 0)
    width = 1 << max(0, int(np.ceil(np.log2((end - start) / _MOST_CELLS_A_ROW + 1e-9))))
    while width < end - start:
        a, b = begin // width, final // width
        fresh = np.append(True, (row[1:] != row[:-1]) | (a[1:] != b[:-1]))
        if int(fresh.sum() + (b - a).sum()) <= most:
            break
        width *= 2
    return width


def kinds_of(store: ViewStore, slices: IntArray) -> tuple[IntArray, IntArray]:
    """Return the kinds (name, category, phase, module, line) of some slices, and a slice of each kind."""
    # The module, or the line, is left out if there would be more than 20,000 kinds.
    c = store.columns
    key = c.name[slices].astype(np.int64) + 1
    for codes, values in ((c.category, c.categories), (c.phase, c.phases)):
        key = key * (len(values) + 1) + codes[slices] + 1
    kind, keys = pd.factorize(key)
    modules, _, labels = store.grouping("module")
    for finest, size in ((modules, len(labels)), (c.line, len(c.lines))):
        finer, finer_keys = pd.factorize(kind * (size + 1) + finest[slices] + 1)
        if len(finer_keys) <= _MOST_KINDS:
            kind, keys = finer, finer_keys
    first = np.full(len(keys), len(kind), np.int64)
    np.minimum.at(first, kind, np.arange(len(kind)))
    return kind.astype(np.int64), slices[first]


def totals_grid_left_out(
    store: ViewStore, keep: npt.NDArray[np.bool_], cells: BusyGrid, kind: IntArray, most: int
) -> TotalsGrid:
    """Sum the kinds of left-out slices over time, in at most about `most` entries."""
    c, out = store.columns, np.flatnonzero(~keep)
    fine = -(-cells.per_row // _COARSE)
    cell = (c.ts[out] - cells.origin) // cells.width_ns // fine
    lengths = (c.dur[out] + 1).astype(np.float64)
    every = _Entries(c.row[out].astype(np.int64), cell, kind, lengths, np.arange(len(out)))
    rows = every.merged(every.group, every.cell)
    for groups, coarsest in zip(_row_groups(store), (_ENOUGH, _ENOUGH, 1), strict=True):
        per, entries = _COARSE, rows.merged(groups[rows.group], rows.cell)
        while len(entries.kind) > most and per > coarsest:
            per, entries = per // 2, entries.merged(entries.group, entries.cell // 2)
        if len(entries.kind) <= most:
            break
    at = entries.group * per + entries.cell
    order = np.lexsort((entries.kind, at))
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    weight = np.rint(entries.weight[order]).astype(np.int64)
    return TotalsGrid(
        per, fine * (_COARSE // per), groups, at[order], entries.kind[order], weight, number[entries.of_slice]
    )


def _row_groups(store: ViewStore) -> tuple[IntArray, IntArray, IntArray]:
    """Return groupings of rows: the row itself, its track, the tracks of one kind and rank."""
    c = store.columns
    tracks = np.repeat(np.arange(len(c.tracks)), [track.depths for track in c.tracks])
    kinds = pd.factorize(pd.Series([f"{track.kind} {track.rank}" for track in c.tracks], dtype=object))[0]
    return np.arange(c.n_rows), tracks, kinds.astype(np.int64)[tracks]


@dataclass(frozen=True, slots=True)
class _Entries:
    """Weights by group of rows, coarse cell and kind; equal entries are joined."""

    group: IntArray
    cell: IntArray
    kind: IntArray
    weight: npt.NDArray[np.float64]
    # Index of each slice's entry.
    of_slice: IntArray

    def merged(self, group: IntArray, cell: IntArray) -> _Entries:
        """Return the entries with other groups and cells."""
        kinds = int(self.kind.max()) + 1
        entry, key = pd.factorize((group * _COARSE + cell) * kinds + self.kind)
        weight = np.bincount(entry, weights=self.weight).astype(np.float64)
        return _Entries(
            key // kinds // _COARSE, key // kinds % _COARSE, key % kinds, weight, entry[self.of_slice]
        )
