"""Who owns each instant of a track: the latest-started slice that is open. Pure numpy."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ...trace.arrays import BoolArray, IntArray
from ...trace.nesting import parents

FAR: Final = int(np.iinfo(np.int64).max // 4)
"""ns; further away than any instant of a recording."""


class Segments(NamedTuple):
    """A track cut where its owner changes: segment *k* is ``[at[k], at[k + 1])``.

    Attributes
    ----------
    at : ndarray of int64
        ns, ascending; the first is before everything.
    owner : ndarray of int64
        Row of the slice that owns the segment; -1 where none is open.
    """

    at: IntArray
    owner: IntArray

    def until(self) -> IntArray:
        """Return the end of each segment."""
        return np.append(self.at[1:], FAR)


def segments(rows: IntArray, start: IntArray, end: IntArray, parent: IntArray | None = None) -> Segments:
    """Cut a track into segments of one owner each; slices may overlap in any way.

    Parameters
    ----------
    rows : ndarray of int64, shape (n,)
        What owners are called.
    start, end : ndarray of int64, shape (n,)
        ns; by start, then longest first; none is empty.
    parent : ndarray of int64, shape (n,), optional
        Position of the latest-started earlier slice that is open at the start; -1 without one.

    Returns
    -------
    Segments

    Notes
    -----
    What starts last owns. When it ends, time falls to the latest-started slice that is still open: all
    slices that are open at an end are ancestors of what ends, so the heir is the nearest ancestor with a
    later end. A slice that a descendant outlasts makes no boundary where it ends.

    Examples
    --------
    >>> at, owner = segments(np.array([7, 8]), np.array([0, 2]), np.array([10, 5]))
    >>> at[1:].tolist(), owner.tolist()
    ([0, 2, 5, 10], [-1, 7, 8, 7, -1])
    """
    n = len(rows)
    if not n:
        return Segments(np.array([-FAR]), np.array([-1]))
    above = parents(np.zeros(n, np.int8), start, end) if parent is None else parent
    heir, outlasted = _heirs(start, end, above)
    at = np.concatenate([start, end[~outlasted]])
    who = np.concatenate([np.arange(n), heir[~outlasted]])
    # at one instant starts come after ends, and the later start last
    rank = np.concatenate([np.arange(n) + n, who[n:]])
    order = np.argsort(at, kind="stable")
    tie = at[order][1:] == at[order][:-1]
    if tie.any():
        equal = np.flatnonzero(np.append(tie, False) | np.append(False, tie))
        places = order[equal]
        order[equal] = places[np.lexsort((rank[places], at[places]))]
    at, who = at[order], who[order]
    last = np.append(at[1:] != at[:-1], True)
    at, who = at[last], who[last]
    owner = np.where(who >= 0, rows[who], -1)
    return Segments(np.concatenate([[-FAR], at]), np.concatenate([[-1], owner]))


def _heirs(start: IntArray, end: IntArray, parent: IntArray) -> tuple[IntArray, BoolArray]:
    """Return who owns the instant at which each slice ends, and which slices a descendant outlasts."""
    outlasted = np.zeros(len(start), bool)
    heir = parent.copy()
    todo = np.flatnonzero(heir >= 0)
    while len(todo):
        above = heir[todo]
        closed = end[above] <= end[todo]
        outlasted[above[end[above] < end[todo]]] = True
        # of equal ends, the younger makes the boundary
        todo = todo[closed]
        heir[todo] = parent[heir[todo]]
        todo = todo[heir[todo] >= 0]
    if outlasted.any():  # not by those descendants of descendants that started after its end
        last = np.searchsorted(start, end, side="left") - 1
        check = np.flatnonzero(outlasted)
        who = last[check]
        while len(check):
            open_ = end[who] > end[check]
            own = who <= check
            outlasted[check[own]] = False
            check, who = check[~(own | open_)], parent[who[~(own | open_)]]
    return heir, outlasted
