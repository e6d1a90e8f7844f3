"""Samples as spans of time, whose boundaries move to where slices with exact times say they must be.

A boundary between two samples is known only to within an interval. Two rules are more precise. To Python, an
operator is a single call, so no line begins or ends within it. Calls nest, so a line that ended in a range
also began in it, and one that began in a range also ended in it. Where samples say otherwise, a line is cut.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import as_ints, containing
from ...trace.nesting import nest
from .frames import PackedStacks

NEVER: Final = 1 << 30
MOST_INTERVALS: Final = 10.0
"""Longest gap without a stack, in intervals, that is filled."""


class SampleSpans(NamedTuple):
    """Disjoint spans of a thread's time, each with one stack, in order of time. Arrays of shape (n,)."""

    begin: IntArray
    end: IntArray
    stack: IntArray
    breaks: IntArray  # depth from which slices cannot continue from the previous span; `NEVER` if all can

    def without_empty(self) -> SampleSpans:
        """Return the spans that are not empty. Breaks of empty ones move to the next span."""
        keep = self.end > self.begin
        if keep.all():
            return self
        home: IntArray = np.cumsum(keep) - keep  # the next kept span
        breaks = np.full(int(keep.sum()) + 1, NEVER, np.int64)
        np.minimum.at(breaks, home, self.breaks)
        return SampleSpans(self.begin[keep], self.end[keep], self.stack[keep], breaks[:-1])

    def split(self, ts: IntArray, depth: IntArray) -> SampleSpans:
        """Split the spans at `ts`, where slices from `depth` on begin anew.

        >>> one = SampleSpans(np.array([0]), np.array([9]), np.array([7]), np.array([NEVER]))
        >>> [column.tolist() for column in one.split(np.array([4, 12]), np.array([2, 2]))][:3]
        [[0, 4], [4, 9], [7, 7]]
        """
        at = np.unique(ts)
        least = np.full(len(at), NEVER, np.int64)
        np.minimum.at(least, np.searchsorted(at, ts), depth)
        home = np.searchsorted(self.begin, at, side="right") - 1
        begin, inside = self.begin[home], (home >= 0) & (at < self.end[home])
        breaks = self.breaks.copy()
        there = inside & (begin == at)
        breaks[home[there]] = np.minimum(breaks[home[there]], least[there])
        inside &= begin < at
        at, least, home = at[inside], least[inside], home[inside]
        order = np.argsort(np.concatenate([self.begin, at]), kind="stable")
        rows = np.concatenate([np.arange(len(self.begin)), home])[order]
        begin = np.concatenate([self.begin, at])[order]
        until = np.append(begin[1:], self.end[-1:]) if len(begin) else begin
        end = np.minimum(self.end[rows], until)
        return SampleSpans(begin, end, self.stack[rows], np.concatenate([breaks, least])[order])

    def first_change(self, node_at: list[IntArray]) -> IntArray:
        """Return the depth of the outermost slice that begins or ends where each span begins."""
        # `node_at` has the node of each stack by depth, -1 if the stack is shorter. The result is `NEVER`
        # where nothing changes, and 0 for the first span and after gaps.
        n = len(self.begin)
        depth = self.breaks.copy()
        same = np.ones(max(n - 1, 0), bool)
        for level, nodes in enumerate(node_at):
            node = nodes[self.stack]
            differs = same & (node[1:] != node[:-1])
            depth[1:][differs] = np.minimum(depth[1:][differs], level)
            same &= ~differs
        touches: npt.NDArray[np.bool_] = np.append(False, self.begin[1:] == self.end[:-1])
        depth[~touches[:n]] = 0
        return depth


def bridged(
    bounds: IntArray, stack: IntArray, stacks: PackedStacks, interval_ns: int
) -> tuple[IntArray, PackedStacks]:
    """Fill short gaps without a stack with the frames that are common to both neighbours."""
    # py-spy reads a running process, so a stack may be cut off and not lead back to the cell. Without the
    # frames of its neighbours, a call that continues across such a sample would be split.
    empty = (stack < 0) | (np.append(stacks.lengths, 0)[stack] == 0)
    change = np.flatnonzero(np.diff(np.concatenate([[False], empty, [False]]).astype(np.int8)))
    first, after = change[::2], change[1::2]
    short = bounds[after] - bounds[first] <= MOST_INTERVALS * interval_ns
    inner = short & (first > 0) & (after < len(stack))
    first, after = first[inner], after[inner]
    if len(first) == 0:
        return stack, stacks
    pairs, pair = np.unique(np.stack([stack[first - 1], stack[after]]), axis=1, return_inverse=True)
    offsets, sizes = stacks.offsets, np.minimum(*stacks.lengths[pairs])
    prefixes = []
    for (one, other), size in zip(pairs.T.tolist(), sizes.tolist(), strict=True):
        begin = stacks.frames[offsets[one] :][:size]
        differs = begin != stacks.frames[offsets[other] :][:size]
        prefixes.append(begin[: int(np.argmax(differs))] if differs.any() else begin)
    lengths = np.array([len(prefix) for prefix in prefixes], np.int64)
    number = (len(stacks.lengths) + np.arange(len(prefixes)))[pair.ravel()]
    filled, looks = stack.copy(), after - first
    rows = np.repeat(first - np.cumsum(looks) + looks, looks) + np.arange(int(looks.sum()))
    filled[rows] = np.repeat(number, looks)
    frames = np.concatenate([stacks.frames, *prefixes])
    return filled, PackedStacks(frames, np.concatenate([stacks.lengths, lengths]), stacks.distinct)


MOVED_INTERVALS: Final = 1.5
"""A loose range moves a boundary by at most this many intervals. Beyond that, the sample is more reliable."""


class ExactRanges(NamedTuple):
    """A thread's slices with exact times, sorted by begin, then longest first."""

    begin: IntArray  # absolute ns, shape (n,)
    end: IntArray
    parent: IntArray  # the range that contains each; -1 for none
    closed: BoolArray  # whether no Python code runs in it
    always_closed: BoolArray  # whether it is closed even if samples saw Python code in it
    loose: BoolArray  # whether frames may leave it, such as an annotation that two functions begin and end

    @classmethod
    def of(
        cls,
        ts: IntArray,
        dur: IntArray,
        operator: BoolArray,
        always_closed: BoolArray,
        loose: BoolArray | None = None,
    ) -> ExactRanges:
        """Make ranges from slices. `operator` marks calls into compiled code, which are closed if empty."""
        order = np.lexsort((-dur, ts))
        ts, dur = ts[order], dur[order]
        parent = nest(np.zeros(len(ts), np.int64), ts, dur).parent
        holds = np.zeros(len(ts), bool)
        holds[parent[parent >= 0]] = True
        always_closed = always_closed[order]
        closed = always_closed | (operator[order] & ~holds)
        loose = np.zeros(len(ts), bool) if loose is None else loose[order]
        return cls(ts, ts + dur, parent, closed, always_closed, loose)


def beside_ranges(
    spans: SampleSpans, node_at: list[IntArray], ranges: ExactRanges, interval_ns: int
) -> SampleSpans:
    """Move boundaries to where they must have been. `node_at` has the node of each stack by depth, or -1."""
    closed = ranges.closed & ~_python_ran(spans, ranges, interval_ns)
    ranges = ranges._replace(closed=closed)
    return inside_ranges(clear_of_operators(spans, ranges), node_at, ranges, interval_ns)


def _python_ran(spans: SampleSpans, ranges: ExactRanges, interval_ns: int) -> BoolArray:
    """Return which operators without children ran Python code: the stack changed during them."""
    # The ``backward`` of a `torch.autograd.Function` in Python is such an operator. Changes near its edges
    # may have happened outside it.
    near = round(MOVED_INTERVALS * interval_ns)
    begin = spans.begin[np.diff(spans.stack, prepend=-1) != 0]
    first = np.searchsorted(begin, ranges.begin + near, side="right")
    last = np.searchsorted(begin, ranges.end - near, side="left")
    return np.asarray(~ranges.always_closed & (first < last))


def clear_of_operators(spans: SampleSpans, ranges: ExactRanges) -> SampleSpans:
    """Move boundaries inside a closed range just outside its nearer edge."""
    begin, end = _outermost(ranges.begin[ranges.closed], ranges.end[ranges.closed])
    if len(begin) == 0:
        return spans
    before = np.maximum(begin - 1, np.concatenate([begin[:1] - 1, end[:-1]]))

    def moved(ts: IntArray) -> IntArray:
        at = containing((begin, end), ts)
        nearer = np.where(ts - begin[at] <= end[at] - ts, before[at], end[at])
        return as_ints(np.where(at >= 0, nearer, ts))

    return spans._replace(begin=moved(spans.begin), end=moved(spans.end)).without_empty()


def inside_ranges(
    spans: SampleSpans, node_at: list[IntArray], ranges: ExactRanges, interval_ns: int
) -> SampleSpans:
    """Make slices and open ranges nest without contradicting a sample."""
    # A stack was seen at the end of its span, so a boundary may lie later, up to the end of the next span.
    # Loose ranges move boundaries less far and never cut a slice.
    if len(spans.begin) == 0:
        return spans
    most = MOVED_INTERVALS * interval_ns
    spans = _ended_in_gaps(spans, ranges, most)
    change = spans.first_change(node_at)
    free = (spans.breaks > 0) & (change < len(node_at))
    unseen = ~free & (change == 0)  # no sample precedes it, so it may have begun earlier
    begin = _around_ranges(spans, unseen, ranges, most)
    # If the range around a slice's last sample ended before the next sample, let the slice last as long.
    around = np.where(free | unseen, _innermost_range(begin, ranges), -1)
    while len(rows := np.flatnonzero(free & (around >= 0) & (ranges.end[around] < spans.end))):
        at = around[rows]
        near = ~ranges.loose[at] | (ranges.end[at] - spans.begin[rows] <= most)
        begin[rows] = np.where(near, ranges.end[at], begin[rows])
        around[rows] = ranges.parent[at]
    # Every remaining range contains both samples. The slice before the boundary ended inside it, so it also
    # began inside; the slice after the boundary began inside it, so it also ends inside.
    was, until, at, level = _slices_that_meet(change, around, ranges.parent, len(node_at))
    first, last, strict = ranges.begin[at], ranges.end[at], ~ranges.loose[at]
    moves = free[was] & (change[was] == level) & (begin[was] < first) & (first < spans.end[was])
    moves &= strict | (first - begin[was] <= most)
    order = np.argsort(-first[moves])  # the outermost range counts, since the slice began in all
    begin[was[moves][order]] = first[moves][order]
    late, outlasts = strict & (begin[was] < first), strict & (np.append(begin, spans.end[-1])[until] > last)
    touches = np.append(spans.begin[1:] == spans.end[:-1], False)
    end = np.where(touches, np.append(begin[1:], 0), spans.end)
    spans = spans._replace(begin=np.minimum(begin, end), end=end).without_empty()
    cuts, depth = np.append(first[late], last[outlasts]), np.append(level[late], level[outlasts])
    return spans.split(cuts, depth)


def _ended_in_gaps(spans: SampleSpans, ranges: ExactRanges, most: float) -> SampleSpans:
    """Extend spans before a gap to the end of the range around them if it is near, else cut their slices."""
    gap = np.flatnonzero(np.append(spans.begin[1:] != spans.end[:-1], True))
    end, after = spans.end.copy(), np.append(spans.begin[1:], np.iinfo(np.int64).max)
    around = np.full(len(end), -1, np.int64)
    around[gap] = _innermost_range(end[gap], ranges)
    cuts = [np.empty(0, np.int64)]
    while len(rows := np.flatnonzero(around >= 0)):
        at = around[rows]
        soon = (ranges.end[at] <= after[rows]) & (ranges.end[at] - spans.end[rows] <= most)
        end[rows[soon]] = ranges.end[at[soon]]
        cuts.append(ranges.begin[at[~soon & ~ranges.loose[at]]])
        around[rows] = ranges.parent[at]
    cut = np.concatenate(cuts)
    return spans._replace(end=end).split(cut, np.zeros(len(cut), np.int64))


def _around_ranges(spans: SampleSpans, unseen: BoolArray, ranges: ExactRanges, most: float) -> IntArray:
    """Return the begins of spans, moved to the begin of surrounding ranges if no sample precedes them."""
    begin, before = spans.begin.copy(), np.append(np.iinfo(np.int64).min, spans.end[:-1])
    around = np.where(unseen, _innermost_range(begin, ranges), -1)
    while len(rows := np.flatnonzero(around >= 0)):
        at = around[rows]
        near = (ranges.begin[at] >= before[rows]) & (spans.begin[rows] - ranges.begin[at] <= most)
        begin[rows[near]] = ranges.begin[at[near]]
        around[rows] = np.where(near, ranges.parent[at], -1)
    return begin


def _slices_that_meet(
    change: IntArray, around: IntArray, parent: IntArray, levels: int
) -> tuple[IntArray, ...]:
    """Return the slices that meet at each boundary inside each range around it, as four arrays."""
    # Each column is a boundary where the slice before begins, one where the slice after ends, the range, and
    # the depth of both slices.
    found = [np.empty((4, 0), np.int64)]
    for level in range(levels):
        borders = np.flatnonzero(change <= level)
        place = np.flatnonzero((change[borders] == level) & (around[borders] >= 0))
        at = around[borders[place]]
        while len(at):
            after = np.append(borders, len(change))[place + 1]
            found.append(np.stack([borders[np.maximum(place - 1, 0)], after, at, np.full_like(at, level)]))
            place, at = place[parent[at] >= 0], parent[at][parent[at] >= 0]
    return tuple(np.concatenate(found, axis=1))


def _outermost(begin: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """Return the ranges that do not begin inside another one, in ascending order."""
    if len(begin) == 0:
        return begin, end
    before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]])
    keep = begin >= before
    return begin[keep], end[keep]


def _innermost_range(ts: IntArray, ranges: ExactRanges) -> IntArray:
    """Return the innermost range around each time that is not closed; -1 for none."""
    at = np.searchsorted(ranges.begin, ts, side="left") - 1
    while len(wrong := np.flatnonzero((at >= 0) & ((ranges.end[at] <= ts) | ranges.closed[at]))):
        at[wrong] = ranges.parent[at[wrong]]
    return at
