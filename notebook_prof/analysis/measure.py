"""How much of some disjoint intervals lies in each of many stretches of time. Pure numpy."""

from __future__ import annotations

import numpy as np

from ..trace.intervals import IntArray, Intervals


def length_before(intervals: Intervals, instants: IntArray) -> IntArray:
    """Length of disjoint, sorted intervals up to each instant, in ns.

    Examples
    --------
    >>> length_before((np.array([0, 10]), np.array([4, 12])), np.array([0, 2, 7, 11, 99])).tolist()
    [0, 2, 4, 5, 6]
    """
    starts, ends = intervals
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)])
    begun = np.searchsorted(starts, instants, side="right")
    last = np.maximum(begun - 1, 0)
    over = np.zeros(len(instants), np.int64)
    if len(starts):
        over = np.where(begun > 0, np.maximum(ends[last] - instants, 0), 0)
    return np.asarray(total[begun] - over, dtype=np.int64)


def length_within(intervals: Intervals, start: IntArray, end: IntArray) -> IntArray:
    """Length of disjoint, sorted intervals inside each ``[start, end)``, in ns; shape of `start`.

    Examples
    --------
    >>> length_within((np.array([0, 10]), np.array([4, 12])), np.array([2, 5]), np.array([11, 9])).tolist()
    [3, 0]
    """
    return length_before(intervals, np.maximum(end, start)) - length_before(intervals, start)
