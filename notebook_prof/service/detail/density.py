"""Slices too narrow to draw: bins of one or two pixels with busy time, count and longest slice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...trace.arrays import IntArray
from .chosen import Chosen
from .rows import RowIndex, spread

MAX_CELLS: Final = 65_536
_EXACT_SLICES: Final = 100_000
_FAN: Final = 16
_SLICES_A_BLOCK: Final = 2
_POSITION_BITS: Final = 32
_LONGEST_NS: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Density:
    """Bins of some rows; arrays have shape (rows, bins), or (rows, bins + 1) for edges."""

    # Left edge of the first bin, and width of a bin, ns. Edges are multiples of the width, so that bins do
    # not flicker while the view pans.
    start: float
    width: float
    # Exact; summed over bins, it is the busy time of the row in the window.
    busy_ns: IntArray
    # Number of slices that touch the bin.
    count: IntArray
    # Position of the longest slice that touches the bin; -1 if the bin is empty.
    longest: IntArray
    # `RowIndex.started_before` and `RowIndex.open_ns` at the edges.
    stops: IntArray
    open_ns: IntArray

    def matched(self, chosen: Chosen) -> IntArray:
        """Return the selected part of `busy_ns`: everything that a new selection changes."""
        return np.asarray(np.diff(chosen.busy_until(self.stops, self.open_ns), axis=1))


class LongestBlocks:
    """The longest slice of every block of 16, 256, 4096 … positions."""

    # If bins have many slices, a block counts for the bin in which it begins. The longest slice named for a
    # bin may thus begin half a bin away; busy time and count stay exact.
    def __init__(self, index: RowIndex) -> None:
        self._index = index
        self._levels: list[IntArray] = []
        best = _packed(index.all_lengths(), np.arange(len(index), dtype=np.int64))
        while len(best) > _FAN:
            best = np.maximum.reduceat(best, np.arange(0, len(best), _FAN))
            self._levels.append(best)

    def longest(self, first: IntArray, stop: IntArray) -> IntArray:
        """Return the position of the longest slice in every stretch ``first:stop``; -1 if it is empty."""
        lo, hi = first.ravel(), stop.ravel()
        out = np.full(len(lo), -1, np.int64)
        full = np.flatnonzero(hi > lo)
        if not len(full):
            return out.reshape(first.shape)
        lo, hi = lo[full], hi[full]
        level, total = -1, int((hi - lo).sum())
        while total > _EXACT_SLICES and level + 1 < len(self._levels):
            if total / len(full) < _SLICES_A_BLOCK * _FAN ** (level + 2):
                break
            level += 1
        if level < 0:
            best = _segment_max(lo, hi, lambda at: _packed(self._index.lengths(at), at))
        else:
            size = _FAN ** (level + 1)
            blocks = self._levels[level]
            b_lo, b_hi = lo // size, np.maximum(hi // size, lo // size + 1)
            best = _segment_max(b_lo, b_hi, lambda at: blocks[at])
        out[full] = best & ((1 << _POSITION_BITS) - 1)
        return out.reshape(first.shape)


def density(
    index: RowIndex, blocks: LongestBlocks, rows: IntArray, window: tuple[float, float], bins: int
) -> Density:
    """Divide some rows in a window into bins: at most 65,536 cells, none narrower than 1 ns."""
    start, end = window
    bin_count = max(1, min(bins, MAX_CELLS // max(len(rows), 1) - 2))
    width = max((end - start) / bin_count, 1.0)
    origin = np.floor(start / width) * width
    n = max(1, int(np.ceil((end - origin) / width)))
    edges = np.rint(origin + width * np.arange(n + 1)).astype(np.int64)
    stops = index.started_before(rows, edges)
    open_ns = index.open_ns(stops, rows, edges)
    busy = np.diff(index.busy_before(stops) - open_ns, axis=1)
    first, stop = stops[:, :-1], stops[:, 1:]
    carried = open_ns[:, :-1] > 0
    # of every bin: a slice that begins inside, or the one carried into it
    longest = blocks.longest(first, stop)
    into, inside = first[carried] - 1, longest[carried]
    longest[carried] = np.where((inside < 0) | (index.lengths(into) > index.lengths(inside)), into, inside)
    count = (stop - first) + carried
    return Density(float(origin), float(width), busy, count, longest, stops, open_ns)


def _packed(length: IntArray, at: IntArray) -> IntArray:
    """Return numbers in the order of the lengths, with the position of each."""
    best = np.minimum(length, _LONGEST_NS)
    best <<= _POSITION_BITS
    best |= at
    return best


def _segment_max(lo: IntArray, hi: IntArray, take: Callable[[IntArray], IntArray]) -> IntArray:
    heads = np.cumsum(hi - lo) - (hi - lo)
    return np.maximum.reduceat(take(spread(lo, hi)), heads)
