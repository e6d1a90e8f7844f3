"""Who owns each instant of a track: the latest-started slice that is open. Pure numpy."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from ...trace.nesting import depths, parents

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


def segments(rows: IntArray, start: IntArray, end: IntArray) -> Segments:
    """Cut a track into segments of one owner each; slices may overlap in any way.

    Parameters
    ----------
    rows : ndarray of int64, shape (n,)
        What owners are called.
    start, end : ndarray of int64, shape (n,)
        ns; by start, then longest first; none is empty.

    Returns
    -------
    Segments

    Notes
    -----
    What starts last owns. When it ends, time falls to the latest-started slice that is still open. A slice
    that a descendant outlasts owns nothing from its end to that of the descendant, and makes no boundary.

    Examples
    --------
    >>> at, owner = segments(np.array([7, 8]), np.array([0, 2]), np.array([10, 5]))
    >>> at[1:].tolist(), owner.tolist()
    ([0, 2, 5, 10], [-1, 7, 8, 7, -1])
    """
    n = len(rows)
    if not n:
        return Segments(np.array([-FAR]), np.array([-1]))
    parent = parents(np.zeros(n, np.int8), start, end)
    cut = nested_segments(np.arange(n), start, end, parent, depths(parent))
    assert cut is not None  # the parents are those of these slices
    return cut._replace(owner=np.append(rows, -1)[cut.owner])


def nested_segments(
    rows: IntArray, start: IntArray, end: IntArray, parent: IntArray, depth: npt.NDArray[np.integer[Any]]
) -> Segments | None:
    """Cut a track into segments by parents and depths that are there already, if they are its own.

    Parameters
    ----------
    rows : ndarray of int64, shape (k,)
        Slices of the track, by start, then longest first; at least one, and none is empty.
    start, end : ndarray of int64, shape (n,)
        ns; of all slices, as are the next two.
    parent : ndarray of int64, shape (n,)
        Row of the slice around each; -1 at the top.
    depth : ndarray of int, shape (n,)
        How many are around each.

    Returns
    -------
    Segments or None
        None where they are not.

    Notes
    -----
    Before slice *k* starts, *k* slices have started, and all of them but its ancestors have ended: of all
    starts and ends in order, its start is number ``2 k - depth``. Between it and the next start are the ends
    of the slice and of as many of its ancestors as the next is less deep. So nothing has to be sorted.

    Where slices overlap in part, one that a descendant outlasts ends with it, and a frame around the begin of
    an annotation that outlives it, and is not inside of it, ends there: it owns nothing after that.

    Examples
    --------
    >>> start, end, parent = np.array([0, 2, 3]), np.array([9, 5, 5]), np.array([-1, 0, 1])
    >>> at, owner = nested_segments(np.arange(3), start, end, parent, np.arange(3))
    >>> at[1:].tolist(), owner.tolist()
    ([0, 2, 3, 5, 9], [-1, 0, 1, 2, 0, -1])
    """
    level, above = depth[rows], parent[rows]
    closes = level + 1 - np.append(level[1:], level.dtype.type(0))
    if level[0] or closes.min() < 0:
        return None
    begin = 2 * np.arange(len(rows)) + (1 - level)
    at, owner = np.empty(2 * len(rows) + 1, np.int64), np.empty(2 * len(rows) + 1, np.int64)
    at[0], owner[0] = -FAR, -1
    at[begin], owner[begin] = start[rows], rows
    todo = np.flatnonzero(closes)
    ending, position, left = rows[todo], begin[todo], closes[todo]
    while len(ending):
        position, left = position + 1, left - 1
        at[position] = end[ending]
        owner[position] = ending = parent[ending]
        more = left > 0
        ending, position, left = ending[more], position[more], left[more]
    if (owner[begin - 1] != above).any():
        return None
    if (at[1:] < at[:-1]).any():  # some overlap in part
        next_start, next_end = (np.repeat(np.append(x[rows[1:]], FAR), closes + 1) for x in (start, end))
        over = at[1:] > next_start
        if (at[1:] > next_end)[over].any() or (end[above] <= start[rows])[above >= 0].any():
            return None
        at[1:] = np.maximum.accumulate(np.minimum(at[1:], next_start))
    last = np.append(at[1:] != at[:-1], True)
    return Segments(at[last], owner[last])
