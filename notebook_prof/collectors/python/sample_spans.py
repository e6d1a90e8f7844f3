"""Samples of a thread as spans of time."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from .frames import Stacks

NEVER: Final = 1 << 30
MOST_INTERVALS: Final = 10.0
"""A longer time without a stack stays empty."""


class SampleSpans(NamedTuple):
    """SampleSpans of a thread's time in which one stack was seen, in order of time, without overlap.

    Attributes
    ----------
    begin, end : ndarray of int64, shape (n,)
    stack : ndarray of int64, shape (n,)
    breaks : ndarray of int64, shape (n,)
        From which depth on slices may not go on from the piece before; `NEVER` where all may.
    """

    begin: IntArray
    end: IntArray
    stack: IntArray
    breaks: IntArray

    def without_empty(self) -> SampleSpans:
        """Return the same without spans of no length; what they broke is broken at the next one."""
        keep = self.end > self.begin
        if keep.all():
            return self
        home: IntArray = np.cumsum(keep) - keep  # the next piece that stays
        breaks = np.full(int(keep.sum()) + 1, NEVER, np.int64)
        np.minimum.at(breaks, home, self.breaks)
        return SampleSpans(self.begin[keep], self.end[keep], self.stack[keep], breaks[:-1])

    def split(self, ts: IntArray, depth: IntArray) -> SampleSpans:
        """Return the same with borders at some times as well, at which slices from a depth on begin anew.

        Parameters
        ----------
        ts, depth : ndarray of int64, shape (m,)
            In any order; times outside of all spans, or at the begin of one, do nothing.

        Examples
        --------
        >>> one = SampleSpans(np.array([0]), np.array([9]), np.array([7]), np.array([NEVER]))
        >>> [column.tolist() for column in one.split(np.array([4, 12]), np.array([2, 2]))][:3]
        [[0, 4], [4, 9], [7, 7]]
        """
        home = np.searchsorted(self.begin, ts, side="right") - 1
        inside = home >= 0
        inside &= (self.begin[home] < ts) & (ts < self.end[home])
        ts, first = np.unique(ts[inside], return_index=True)
        depth, home = depth[inside][first], home[inside][first]
        order = np.argsort(np.concatenate([self.begin, ts]), kind="stable")
        rows = np.concatenate([np.arange(len(self.begin)), home])[order]
        begin = np.concatenate([self.begin, ts])[order]
        breaks = np.concatenate([self.breaks, depth])[order]
        until = np.append(begin[1:], self.end[-1:]) if len(begin) else begin
        return SampleSpans(begin, np.minimum(self.end[rows], until), self.stack[rows], breaks)

    def first_change(self, node_at: list[IntArray]) -> IntArray:
        """Return, for every piece, the depth of the outermost slice that begins or ends where it begins.

        Parameters
        ----------
        node_at : list of ndarray of int64
            For every depth: the node of every stack, -1 where the stack is shorter.

        Returns
        -------
        ndarray of int64, shape (n,)
            `NEVER` where nothing changes; 0 for the first piece and behind gaps.
        """
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
    """Fill short times without a stack with the frames that both their neighbours have.

    py-spy reads a running process: a stack may be cut off, and then does not lead to the cell. Without the
    frames around it, what was called before such a look and what goes on after it would stand apart.

    Parameters
    ----------
    bounds, stack : ndarray of int64, shapes (n + 1,) and (n,)
        As `Timed` has them.
    stacks : Stacks
        Trimmed.
    interval_ns : int
        Between looks.

    Returns
    -------
    stack : ndarray of int64, shape (n,)
    stacks : Stacks
        With those that are common beginnings behind them.
    """
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
