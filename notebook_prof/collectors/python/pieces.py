"""Samples of a thread as pieces of time."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...trace.intervals import IntArray

NEVER: Final = 1 << 30


class Pieces(NamedTuple):
    """Pieces of a thread's time in which one stack was seen, in order of time, without overlap.

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

    def without_empty(self) -> Pieces:
        """The same without pieces of no length; what they broke is broken at the next one."""
        keep = self.end > self.begin
        if keep.all():
            return self
        home: IntArray = np.cumsum(keep) - keep  # the next piece that stays
        breaks = np.full(int(keep.sum()) + 1, NEVER, np.int64)
        np.minimum.at(breaks, home, self.breaks)
        return Pieces(self.begin[keep], self.end[keep], self.stack[keep], breaks[:-1])

    def first_change(self, node_at: list[IntArray]) -> IntArray:
        """For every piece the depth of the outermost slice that begins or ends where it begins.

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
