"""The owner of each instant of a track: the open slice that started last. Pure numpy."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from ...trace.nesting import depths, parents

FAR: Final = int(np.iinfo(np.int64).max // 4)
"""ns; later than any instant of a recording."""


class Segments(NamedTuple):
    """A track divided where its owner changes: segment *k* is ``[at[k], at[k + 1])``."""

    # ns, ascending; the first precedes everything.
    at: IntArray
    # Row of the slice that owns the segment; -1 if no slice is open.
    owner: IntArray

    def until(self) -> IntArray:
        """Return the end of each segment."""
        return np.append(self.at[1:], FAR)


def segments(rows: IntArray, start: IntArray, end: IntArray) -> Segments:
    """Cut a track into segments with one owner each. Slices, by start, then longest first, may overlap in any
    way.

    >>> at, owner = segments(np.array([7, 8]), np.array([0, 2]), np.array([10, 5]))
    >>> at[1:].tolist(), owner.tolist()
    ([0, 2, 5, 10], [-1, 7, 8, 7, -1])
    """
    # The open slice that started last is the owner. When it ends, the latest-started slice that is still open
    # takes over. A slice that a descendant outlasts owns nothing from its end to that of the descendant, and
    # adds no boundary.
    n = len(rows)
    if not n:
        return Segments(np.array([-FAR]), np.array([-1]))
    parent = parents(np.zeros(n, np.int8), start, end)
    cut = nested_segments(np.arange(n), start, end, parent, depths(parent))
    assert cut is not None  # the parents were computed from these slices
    return cut._replace(owner=np.append(rows, -1)[cut.owner])


def nested_segments(
    rows: IntArray, start: IntArray, end: IntArray, parent: IntArray, depth: npt.NDArray[np.integer[Any]]
) -> Segments | None:
    """Divide a track into segments by its slices' parents and depths; None if these do not fit the slices.

    `rows` are the track's slices by start, then longest first; the other arrays cover all slices.
    """
    # Before slice *k* starts, *k* slices have started, and all but its ancestors have ended, so among all
    # starts and ends in order, its start is number ``2 k - depth``. Between it and the next start are the
    # ends of the slice and of as many ancestors as the next slice is less deep. So nothing has to be sorted.
    # If slices overlap in part, a slice that a descendant outlasts ends with it. A frame in which a longer
    # annotation begins, without being its child, ends there and owns nothing after that.
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
    if (at[1:] < at[:-1]).any():  # some slices overlap in part
        next_start, next_end = (np.repeat(np.append(x[rows[1:]], FAR), closes + 1) for x in (start, end))
        over = at[1:] > next_start
        if (at[1:] > next_end)[over].any() or (end[above] <= start[rows])[above >= 0].any():
            return None
        at[1:] = np.maximum.accumulate(np.minimum(at[1:], next_start))
    last = np.append(at[1:] != at[:-1], True)
    return Segments(at[last], owner[last])
