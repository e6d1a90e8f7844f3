"""Scans: how much work threads have done by each instant, and runs of work on one stream. Pure numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....trace.arrays import BoolArray, FloatArray, IntArray
from ..segments import FAR
from .constraints import Constraints


class Clocks:
    """Work done by threads up to recorded instants, with self times scaled by `factor`, unowned time as is.

    >>> from notebook_prof.testing import draw
    >>> from notebook_prof.analysis.critical_path.dependences import dependences
    >>> from notebook_prof.analysis.critical_path.replay.constraints import constraints
    >>> trace = draw("main: [mm ][add]")
    >>> edges = constraints(dependences(trace))
    >>> Clocks(edges, np.array([0.5, 1.0])).work(np.array([0, 0, 0]), np.array([2, 5, 9])).tolist()
    [1, 2, 6]
    """

    def __init__(self, edges: Constraints, factor: FloatArray | None = None) -> None:
        self._edges = edges
        self._factor = factor
        self._sums: dict[int, tuple[IntArray, IntArray, FloatArray] | None] = {}

    def work(self, thread: IntArray, instants: IntArray) -> IntArray:
        """Return the work that each thread had done by each instant; only differences are meaningful."""
        out = instants.copy()
        for number in np.unique(thread):
            sums = self._of_thread(int(number))
            if sums is None:
                continue
            at, total, scale = sums
            here = thread == number
            now = instants[here]
            k = np.maximum(np.searchsorted(at, now, side="right") - 1, 0)
            inside = np.rint((now - at[k]) * scale[k]).astype(np.int64)
            out[here] = np.where(k > 0, total[k] + inside, now)
        return out

    def _of_thread(self, number: int) -> tuple[IntArray, IntArray, FloatArray] | None:
        """Return a thread's segments and the scaled work before each; None if nothing is scaled."""
        if self._factor is None or number < 0:
            return None
        if number not in self._sums:
            cut = self._edges.graph.segments(int(self._edges.threads[number]))
            scale = np.append(self._factor, 1.0)[cut.owner]
            if (scale == 1.0).all():
                self._sums[number] = None
            else:
                length = np.rint(np.diff(cut.at) * scale[:-1]).astype(np.int64)
                length[0] = 0  # before the first slice
                first = int(cut.at[1]) if len(cut.at) > 1 else 0
                total = first + np.concatenate([[0], np.cumsum(length)])
                self._sums[number] = cut.at, total, scale
        return self._sums[number]


@dataclass
class Runs:
    """Device work, split where a start can have more than one cause."""

    # Whether a run begins at each piece of work.
    first: BoolArray
    # Run of each piece of work.
    number: IntArray
    # Index of the first work of each run.
    begins: IntArray
    # Piece of a thread that launched the run; -1 if there is none.
    piece: IntArray


def runs_of(edges: Constraints, cut: BoolArray) -> Runs:
    """Split work into runs: at `cut`, at each new launching piece, and where work is not sequential."""
    work = edges.work
    count = len(work.rows)
    piece = np.full(count, -1)
    launched = np.flatnonzero(work.thread >= 0)
    piece[launched] = edges.piece(work.thread[launched], work.launched[launched])
    first = cut | (work.before != np.arange(count) - 1)
    first[:1] = True
    # work without a launch continues the previous run
    last = np.maximum.accumulate(np.where(piece >= 0, np.arange(count), -1))
    stream_begin = np.maximum.accumulate(np.where(work.before < 0, np.arange(count), 0))
    filled = np.where(last >= stream_begin, piece[last], -1)
    first[1:] |= filled[1:] != filled[:-1]
    begins = np.flatnonzero(first)
    return Runs(first, np.cumsum(first) - 1, begins, filled[begins])


def running_maximum(value: IntArray, valid: BoolArray, run: IntArray) -> IntArray:
    """Return the running maximum of valid values within each run; `-FAR` before the first."""
    order = np.argsort(np.where(valid, value, -FAR), kind="stable")
    rank = np.empty(len(value), np.int64)
    rank[order] = np.arange(len(value)) + run[order] * len(value)
    best = order[np.maximum.accumulate(rank) - run * len(value)]
    return np.where(valid[best], value[best], -FAR)
