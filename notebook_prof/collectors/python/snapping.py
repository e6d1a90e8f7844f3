"""Moves sample boundaries to where they must have been, using slices with exact times.

A boundary between two samples is known only to within an interval. Three rules are sharper. To Python, an
operator is a single call, so no line begins or ends within it. Calls nest, so a line that outlasts a range
began before it, and a line that began before a range ends either before or after that range.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ...trace.arrays import BoolArray, IntArray
from ...trace.nesting import nest
from .sample_spans import NEVER, SampleSpans

MOVED_INTERVALS: Final = 1.5
"""A boundary moves by at most this many intervals. Beyond that, the sample is more reliable."""


class Ranges(NamedTuple):
    """Slices of one thread with exact times, sorted by begin, longest first."""

    begin: IntArray  # absolute ns, shape (n,)
    end: IntArray
    parent: IntArray  # the range that contains each; -1 for none
    closed: BoolArray  # no Python code runs within it
    always_closed: BoolArray  # closed even if samples saw Python in it

    @classmethod
    def of(cls, ts: IntArray, dur: IntArray, operator: BoolArray, always_closed: BoolArray) -> Ranges:
        """Return the ranges of slices. `operator` marks calls into compiled code, which are closed if nothing
        is inside them."""
        order = np.lexsort((-dur, ts))
        ts, dur = ts[order], dur[order]
        parent = nest(np.zeros(len(ts), np.int64), ts, dur).parent
        holds = np.zeros(len(ts), bool)
        holds[parent[parent >= 0]] = True
        always_closed = always_closed[order]
        return cls(ts, ts + dur, parent, always_closed | (operator[order] & ~holds), always_closed)


def beside_ranges(
    spans: SampleSpans, node_at: list[IntArray], ranges: Ranges, interval_ns: int
) -> SampleSpans:
    """Move boundaries to where they must have been. `node_at` has the node of each stack by depth, or -1."""
    open_, depth = _python_ran(spans, node_at, ranges, interval_ns)
    closed = ranges.closed.copy()
    closed[open_] = False
    ranges = ranges._replace(closed=closed)
    spans = clear_of_operators(spans, ranges)
    spans = inside_ranges(spans, node_at, ranges, interval_ns)
    return spans.split(np.concatenate([ranges.begin[open_], ranges.end[open_]]), np.tile(depth, 2))


def _python_ran(
    spans: SampleSpans, node_at: list[IntArray], ranges: Ranges, interval_ns: int
) -> tuple[IntArray, IntArray]:
    """Return the operators with nothing inside during which the stack changed, and from which depth on."""
    # The ``backward`` of a `torch.autograd.Function` written in Python is such an operator. It calls the
    # slices at that depth, so they begin and end with it. Changes near an edge may have been outside.
    near = round(MOVED_INTERVALS * interval_ns)
    first = np.searchsorted(spans.begin, ranges.begin + near, side="right")
    last = np.searchsorted(spans.begin, ranges.end - near, side="left")
    ran = np.flatnonzero(ranges.closed & ~ranges.always_closed & (first < last))
    if len(ran) == 0:
        return ran, ran
    change = np.append(spans.first_change(node_at), NEVER)
    depth = np.minimum.reduceat(change, np.column_stack([first[ran], last[ran]]).ravel())[::2]
    return ran, depth


def clear_of_operators(spans: SampleSpans, ranges: Ranges) -> SampleSpans:
    """Move boundaries inside a closed range to its nearer edge, just outside."""
    begin, end = _outermost(ranges.begin[ranges.closed], ranges.end[ranges.closed])
    if len(begin) == 0:
        return spans
    before = np.maximum(begin - 1, np.concatenate([begin[:1] - 1, end[:-1]]))

    def moved(ts: IntArray) -> IntArray:
        at = np.maximum(np.searchsorted(begin, ts, side="right") - 1, 0)
        inside = (begin[at] <= ts) & (ts < end[at])
        nearer = np.where(ts - begin[at] <= end[at] - ts, before[at], end[at])
        return np.asarray(np.where(inside, nearer, ts), dtype=np.int64)

    return spans._replace(begin=moved(spans.begin), end=moved(spans.end)).without_empty()


def inside_ranges(
    spans: SampleSpans, node_at: list[IntArray], ranges: Ranges, interval_ns: int
) -> SampleSpans:
    """Move boundaries so that slices and open ranges nest, if they nearly do."""
    around = _innermost_range(spans.begin, ranges)
    change = spans.first_change(node_at)
    fixed = (spans.breaks == 0) | (around < 0) | (change >= len(node_at))
    if len(spans.begin) < 2 or fixed.all():
        return spans
    begin, end = ranges.begin[around], ranges.end[around]
    target = spans.begin.copy()
    for level, nodes in enumerate(node_at):
        borders = np.flatnonzero(change <= level)
        movable = np.flatnonzero((change[borders] == level) & ~fixed[borders])
        movable = movable[movable > 0]
        at = borders[movable]
        until = np.append(spans.begin[borders[1:]], spans.end[-1])[movable]
        since = spans.begin[borders[movable - 1]]
        node = nodes[spans.stack]
        outlasts = (node[at] >= 0) & (until > end[at])
        crosses_begin = ~outlasts & (node[at - 1] >= 0) & (since < begin[at])
        nearer_begin = spans.begin[at] - begin[at] <= end[at] - spans.begin[at]
        to = np.where(outlasts | nearer_begin, begin[at] - 1, end[at])
        target[at] = np.where(outlasts | crosses_begin, to, spans.begin[at])
    near = np.abs(target - spans.begin) <= MOVED_INTERVALS * interval_ns
    moved = np.where(near, target, spans.begin)
    moved = np.maximum.accumulate(moved)
    touches = np.append(spans.begin[1:] == spans.end[:-1], False)
    ends = np.where(touches, np.append(moved[1:], 0), spans.end)
    return spans._replace(begin=np.minimum(moved, ends), end=ends).without_empty()


def _outermost(begin: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """Return those that are not inside another one, in ascending order."""
    if len(begin) == 0:
        return begin, end
    before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]])
    keep = begin >= before
    return begin[keep], end[keep]


def _innermost_range(ts: IntArray, ranges: Ranges) -> IntArray:
    """Return the innermost open range around each time; -1 without one."""
    at = np.searchsorted(ranges.begin, ts, side="left") - 1
    while len(wrong := np.flatnonzero((at >= 0) & ((ranges.end[at] <= ts) | ranges.closed[at]))):
        at[wrong] = ranges.parent[at[wrong]]
    return at
