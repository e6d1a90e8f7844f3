"""Half-open intervals in integer nanoseconds: union, overlap, complement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import OptionError
from .arrays import IntArray, consecutive

Intervals: TypeAlias = tuple[IntArray, IntArray]
"""Starts and ends in int64 nanoseconds. *Disjoint* intervals are sorted and do not touch."""

NOTHING: Final[Intervals] = (np.empty(0, np.int64), np.empty(0, np.int64))


class Window(NamedTuple):
    """A half-open interval of time ``[start, end)`` in nanoseconds from the start of the trace.

    Examples
    --------
    >>> Window(3, 9).dur
    6
    """

    start: int
    end: int

    @property
    def dur(self) -> int:
        """Length in nanoseconds."""
        return self.end - self.start

    @classmethod
    def of(cls, value: Any) -> Window:
        """Make a Window from a pair of whole nanoseconds.

        Raises
        ------
        OptionError
            If it is not a pair of finite numbers with start before end.
        """
        try:
            first, last = value
            window = cls(int(first), int(last))
        except (TypeError, ValueError, OverflowError) as error:
            raise OptionError(f"{value!r} is not a window: give (start, end) in nanoseconds") from error
        if window.end < window.start:
            raise OptionError(f"the window {tuple(window)} ends before it starts")
        return window


def as_ints(values: npt.ArrayLike) -> IntArray:
    """Return `values` as an int64 array, without a copy if possible."""
    return np.asarray(values, dtype=np.int64)


def union(starts: npt.ArrayLike, ends: npt.ArrayLike) -> Intervals:
    """Return the sorted, disjoint intervals that cover the same instants."""
    # Intervals may be in any order and may overlap; empty or reversed ones cover nothing.
    a, b = as_ints(starts), as_ints(ends)
    keep = b > a
    if not keep.all():
        a, b = a[keep], b[keep]
    if len(a) == 0:
        return NOTHING
    if (np.diff(a) < 0).any():
        order = np.argsort(a, kind="stable")
        a, b = a[order], b[order]
    reach = np.maximum.accumulate(b)
    first = np.empty(len(a), bool)
    first[0] = True
    np.greater(a[1:], reach[:-1], out=first[1:])
    begins = np.flatnonzero(first)
    last = np.append(begins[1:] - 1, len(a) - 1)
    return a[begins], reach[last]


def length(intervals: Intervals) -> int:
    """Return the total nanoseconds of disjoint intervals."""
    starts, ends = intervals
    return int((ends - starts).sum())


def overlap(a: Intervals, b: Intervals) -> Intervals:
    """Return the instants in both of two disjoint sets."""
    # each interval of the result starts where an interval of one set starts inside one of the other
    (a0, a1), (b0, b1) = a, b
    if not len(a0) or not len(b0):
        return NOTHING
    first = np.searchsorted(b1, a0, side="right")
    stop = np.searchsorted(b0, a1, side="left")
    count = np.maximum(stop - first, 0)
    left = np.repeat(np.arange(len(a0)), count)
    right = consecutive(first, count)
    return np.maximum(a0[left], b0[right]), np.minimum(a1[left], b1[right])


def complement(intervals: Intervals, window: tuple[int, int]) -> Intervals:
    """Return the instants of `window` that are not in the disjoint `intervals`."""
    start, end = window
    starts, ends = clip(intervals, window)
    gap_starts = np.concatenate([np.array([start], np.int64), ends])
    gap_ends = np.concatenate([starts, np.array([end], np.int64)])
    keep = gap_ends > gap_starts
    return gap_starts[keep], gap_ends[keep]


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """Return the instants of the disjoint `a` that are not in the disjoint `b`."""
    if not len(a[0]):
        return a
    hull = (int(a[0][0]), int(a[1][-1]))
    return overlap(a, complement(b, hull))


def add(a: Intervals, b: Intervals) -> Intervals:
    """Return the instants in `a` or in `b`."""
    return union(np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]]))


def first_claims(parts: Iterable[Intervals]) -> Iterator[Intervals]:
    """Yield the instants of each disjoint set that no earlier set contains."""
    claimed = NOTHING
    for part in parts:
        yield subtract(part, claimed)
        claimed = add(claimed, part)


def clip(intervals: Intervals, window: tuple[int, int]) -> Intervals:
    """Cut intervals at the edges of `window`; intervals outside are dropped."""
    start, end = window
    starts, ends = np.maximum(intervals[0], start), np.minimum(intervals[1], end)
    keep = ends > starts
    return starts[keep], ends[keep]


def contains(intervals: Intervals, instants: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return a mask of the `instants` inside any of the disjoint, half-open intervals."""
    return containing(intervals, instants) >= 0


def containing(intervals: Intervals, instants: npt.ArrayLike) -> IntArray:
    """Return the index of the disjoint, half-open interval that contains each instant; -1 if none does."""
    starts, ends = intervals
    at = as_ints(instants)
    i = np.searchsorted(starts, at, side="right") - 1
    return as_ints(np.where(at < np.append(ends, np.iinfo(np.int64).min)[i], i, -1))
