"""Samples of a thread as spans of time."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from .frames import Stacks

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


def bridged(bounds: IntArray, stack: IntArray, stacks: Stacks, interval_ns: int) -> tuple[IntArray, Stacks]:
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
    return filled, Stacks(frames, np.concatenate([stacks.lengths, lengths]), stacks.distinct)
