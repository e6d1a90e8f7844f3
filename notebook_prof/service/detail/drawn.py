"""Pictures of rows: the slices wide enough to be drawn one by one, and the most recent pictures."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...trace.arrays import BoolArray, IntArray
from .density import Density, LongestBlocks
from .rows import RowIndex, grouped_order, running_sum, spread


class WideSlices:
    """Positions of a RowIndex grouped by the power of two of their length."""

    # A row holds at most ``window / length`` slices of a class, so a search from the longest class down to
    # two pixels reads few slices, however many there are.
    def __init__(self, index: RowIndex) -> None:
        self._index = index
        exponent = np.frexp(index.all_lengths())[1].astype(np.uint8)
        self._order = grouped_order(exponent, 256)
        self._pointer = running_sum(np.bincount(exponent, minlength=256))

    def find(self, first: IntArray, stop: IntArray, minimum_ns: float, limit: int) -> IntArray:
        """Return the positions of the `limit` longest slices in the stretches ``first:stop``, ascending."""
        lowest = int(np.frexp(float(max(minimum_ns, 0)))[1])
        parts: list[IntArray] = []
        count = 0
        for exponent in range(64, lowest - 1, -1):
            members = self._order[self._pointer[exponent] : self._pointer[exponent + 1]]
            if not len(members):
                continue
            a = np.searchsorted(members, first.astype(members.dtype))  # of one dtype: no copy of the members
            b = np.searchsorted(members, stop.astype(members.dtype))
            part = members[spread(a, b)].astype(np.int64)
            parts.append(part)
            count += len(part)
            if count > limit:
                break
        at = np.concatenate(parts) if parts else np.empty(0, np.int64)
        length = self._index.lengths(at)
        at, length = at[length >= minimum_ns], length[length >= minimum_ns]
        if len(at) > limit:
            at = at[np.argpartition(-length, limit)[:limit]]
        return np.sort(at)


_REMEMBERED: Final = 6


@dataclass(frozen=True, slots=True)
class RowPicture:
    """Some rows in a window, independent of any selection."""

    index: RowIndex
    total: int
    # Positions of slices that are drawn one by one, ascending.
    at: IntArray
    # Density of all slices, unless each is drawn by itself.
    density: Density | None


class PictureCache:
    """A cache of six pictures, by place."""

    def __init__(self) -> None:
        self._cache: OrderedDict[Hashable, tuple[int, RowPicture]] = OrderedDict()
        self._made = 0
        self._lock = threading.Lock()

    def get(self, where: Hashable, index: RowIndex, make: Callable[[], RowPicture]) -> tuple[int, RowPicture]:
        """Return the picture of a place and its number; a new index gives a new picture and number."""
        with self._lock:
            entry = self._cache.get(where)
            if entry is None or entry[1].index is not index:
                self._made += 1
                entry = self._cache[where] = (self._made, make())
            self._cache.move_to_end(where)
            while len(self._cache) > _REMEMBERED:
                self._cache.popitem(last=False)
            return entry


class DrawnIndex(NamedTuple):
    """A RowIndex with the indexes of its widest and of its longest slices."""

    rows: RowIndex
    wide: WideSlices
    blocks: LongestBlocks


class EarlyIndex:
    """An index of only some rows, ready long before that of all rows."""

    # For its rows it gives the same slices, busy times and counts as the full index. Other rows look empty,
    # so check `holds` first.
    def __init__(
        self,
        ts: IntArray,
        dur: IntArray,
        row: npt.NDArray[np.integer],
        indexed: BoolArray,
        slices: IntArray,
    ) -> None:
        self._indexed = indexed
        rows = RowIndex(ts[slices], dur[slices], row[slices], len(indexed))
        rows.order = slices[rows.order].astype(rows.order.dtype)
        self.drawn = DrawnIndex(rows, WideSlices(rows), LongestBlocks(rows))

    def holds(self, rows: IntArray) -> bool:
        """Return whether all these rows are here."""
        return bool(self._indexed[rows].all())
