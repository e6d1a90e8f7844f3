"""The slices wide enough to draw one by one, found without a look at the others."""

from __future__ import annotations

import numpy as np

from .rows import IntArray, RowIndex, grouped_order, running_sum, spread


class WideSlices:
    """Positions of a RowIndex grouped by the power of two of their length.

    A row holds at most ``window / length`` slices of a class, so a search from the longest class down
    to the width of two pixels looks at few slices, however many there are.
    """

    def __init__(self, index: RowIndex) -> None:
        self._index = index
        exponent = np.frexp(index.all_lengths())[1].astype(np.uint8)
        self._order = grouped_order(exponent, 256)
        self._pointer = running_sum(np.bincount(exponent, minlength=256))

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return int(self._order.nbytes + self._pointer.nbytes)

    def find(self, first: IntArray, stop: IntArray, minimum_ns: float, limit: int) -> IntArray:
        """Positions in the stretches ``first:stop`` of the widest slices.

        Parameters
        ----------
        first, stop : ndarray of int64, shape (r,)
            As `RowIndex.stretch` gives them.
        minimum_ns : float
            Shorter slices are left out.
        limit : int
            At most so many; the longest win.

        Returns
        -------
        ndarray of int64
            Ascending.
        """
        lowest = int(np.frexp(float(max(minimum_ns, 0)))[1])
        found: list[IntArray] = []
        count = 0
        for exponent in range(64, lowest - 1, -1):
            members = self._order[self._pointer[exponent] : self._pointer[exponent + 1]]
            if not len(members):
                continue
            a = np.searchsorted(members, first.astype(members.dtype))  # of one dtype: no copy of the members
            b = np.searchsorted(members, stop.astype(members.dtype))
            part = members[spread(a, b)].astype(np.int64)
            found.append(part)
            count += len(part)
            if count > limit:
                break
        at = np.concatenate(found) if found else np.empty(0, np.int64)
        length = self._index.lengths(at)
        at, length = at[length >= minimum_ns], length[length >= minimum_ns]
        if len(at) > limit:
            at = at[np.argpartition(-length, limit)[:limit]]
        return np.sort(at)
