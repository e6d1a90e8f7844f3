"""What a picture of some rows is drawn from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .density import LongestBlocks
from .rows import BoolArray, IntArray, RowIndex
from .wide import WideSlices


class DrawnIndex(NamedTuple):
    """A RowIndex with what finds its widest and its longest slices."""

    rows: RowIndex
    wide: WideSlices
    blocks: LongestBlocks

    @classmethod
    def of(cls, rows: RowIndex) -> DrawnIndex:
        """Build what belongs to a RowIndex."""
        return cls(rows, WideSlices(rows), LongestBlocks(rows))


class EarlyIndex:
    """An index of some rows only: it is there long before that of all.

    Of its rows it tells what an index of all slices would: the same slices, busy times and counts. Rows that
    it does not hold look empty in it, so `holds` must be asked first.

    Parameters
    ----------
    ts, dur : ndarray of int64, shape (n,)
    row : ndarray of int, shape (n,)
    held : ndarray of bool, shape (n_rows,)
        Rows to index.
    slices : ndarray of int64, optional
        Those of `held`, ascending, if they are known.

    Examples
    --------
    >>> early = EarlyIndex(np.array([0, 3]), np.array([5, 1]), np.array([0, 1]), np.array([False, True]))
    >>> early.holds(np.array([1])), early.holds(np.array([0, 1])), early.drawn.rows.order.tolist()
    (True, False, [1])
    """

    def __init__(
        self,
        ts: IntArray,
        dur: IntArray,
        row: npt.NDArray[np.integer],
        held: BoolArray,
        slices: IntArray | None = None,
    ) -> None:
        self._held = held
        slices = np.flatnonzero(held[row]) if slices is None else slices
        rows = RowIndex(ts[slices], dur[slices], row[slices], len(held))
        rows.order = slices[rows.order].astype(rows.order.dtype)
        self.drawn = DrawnIndex.of(rows)

    def holds(self, rows: IntArray) -> bool:
        """Whether all these rows are here."""
        return bool(self._held[rows].all())
