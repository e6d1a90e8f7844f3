"""The steps, or the window, of a what-if question, and their length in a replay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....trace.arrays import IntArray
from ...scope import Numbers, WindowLike, ints
from ..path import End, windows
from ..segments import FAR
from .constraints import Constraints
from .edges import Work
from .forward import Replay


@dataclass(frozen=True, slots=True)
class Bounds:
    """Begins and ends of spans (ns), in the recording or in a replay."""

    begin: IntArray
    until: IntArray
    # Recorded row of the device work that ends each span; -1 for spans that end on the thread.
    last: IntArray

    @property
    def lengths(self) -> IntArray:
        """Lengths, in ns."""
        return self.until - self.begin


@dataclass(frozen=True, slots=True)
class Spans:
    """The steps, or the window, of a question."""

    edges: Constraints
    # Number of the step; -1 for a window.
    number: IntArray
    # ns; times on the main thread, in the recording.
    begin: IntArray
    until: IntArray
    end: End
    # The span to which each piece of device work belongs; -1 if there is none.
    span_of_work: IntArray
    # The rank of these steps, if the Trace has several ranks; else -1.
    rank: int = -1

    @classmethod
    def of(cls, edges: Constraints, window: WindowLike, step: Numbers, end: End) -> Spans:
        """Look up the spans that are not empty; raise the same errors as `critical_path`."""
        spans = [
            span for span in windows(edges.graph, window=window, step=step, end=end) if span[2] > span[1]
        ]
        number, begin, until = np.array(spans, np.int64).reshape(-1, 3).T
        return cls(edges, number, begin, until, end, _span_of_work(edges, number, begin, until))

    def __len__(self) -> int:
        return len(self.number)

    @property
    def are_steps(self) -> bool:
        """Whether the spans are steps, not a window."""
        return bool((self.number >= 0).any())

    def bounds(self, one: Replay | None = None) -> Bounds:
        """Return the begins and ends in a replay or, without one, in the recording."""
        begin, until = self._on_thread(one)
        if self.end == "host":
            return Bounds(begin, until, np.full(len(begin), -1))
        ends, work = self._work_ends(one), np.flatnonzero(self.span_of_work >= 0)
        work = work[np.argsort(ends[work], kind="stable")]
        last = np.full(len(begin), -1)
        last[self.span_of_work[work]] = work  # repeated indices keep the last value
        done = np.append(ends, -FAR)[last]
        on_device = done > (until if self.end == "last" else begin)
        rows = np.append(self.edges.work.rows, -1)[np.where(on_device, last, -1)]
        return Bounds(begin, np.where(on_device, done, until), rows)

    def backlog(self, one: Replay | None = None) -> IntArray:
        """Return by how much (ns) devices fall further behind the host during each span."""
        bounds = self.bounds(one)
        work, resources = self.edges.work, self.edges.graph.resources
        if self.rank >= 0:
            tracks = [track for track, rank in resources.rank.items() if rank == self.rank]
            own = np.isin(resources.track[work.rows], tracks)
            work = Work(*(column[own] for column in work))
        when = np.where(work.call >= 0, resources.ts[work.call], work.start)
        order = np.argsort(when, kind="stable")
        ends = self._work_ends(one) if self.rank < 0 else self._work_ends(one)[own]
        done = np.concatenate([[-FAR], np.maximum.accumulate(ends[order])])

        def behind(launched_before: IntArray, now: IntArray) -> IntArray:
            last = done[np.searchsorted(when[order], launched_before, side="left")]
            return np.maximum(last - now, 0)

        growth = behind(self.until, bounds.until) - behind(self.begin, bounds.begin)
        return np.where(bounds.last >= 0, 0, growth)

    def error(self, one: Replay) -> float:
        """Return the error of a replay's lengths as a share of the recorded lengths."""
        recorded = self.bounds().lengths
        return float(np.abs(self.bounds(one).lengths - recorded).sum() / max(int(recorded.sum()), 1))

    def more_backlog(self, one: Replay, reference: Replay | None = None) -> IntArray:
        """Return how much more (ns) devices fall behind than in a reference (default: the recording)."""
        growth = self.backlog(one) - self.backlog(reference)
        return growth if growth.sum() > 0 else np.zeros(len(self), np.int64)

    def mean(self, lengths: IntArray) -> int:
        """Return the mean length, in whole ns."""
        return round(float(lengths.sum()) / max(len(lengths), 1))

    def after(self, one: Replay, reference: Replay | None = None) -> int:
        """Return the mean length in a replay, including the time by which devices fall behind."""
        return self.mean(self.bounds(one).lengths + self.more_backlog(one, reference))

    def _on_thread(self, one: Replay | None) -> tuple[IntArray, IntArray]:
        if one is None:
            return self.begin, self.until
        graph = self.edges.graph
        main = np.full(len(self), graph.mains.get(self.rank, graph.main))
        return one.now(main, self.begin), one.now(main, self.until)

    def _work_ends(self, one: Replay | None) -> IntArray:
        return self.edges.work.end if one is None else one.end


def _span_of_work(edges: Constraints, number: IntArray, begin: IntArray, until: IntArray) -> IntArray:
    """Return the span of each piece of device work: its step's, or the window that launched it."""
    work, resources = edges.work, edges.graph.resources
    out = np.full(len(work.rows), -1)
    if not len(number):
        return out
    if number[0] < 0:
        launched = np.where(work.call >= 0, resources.ts[work.call], work.start)
        return np.where((launched >= begin[0]) & (launched < until[0]), 0, -1)
    order = np.argsort(number, kind="stable")
    step = ints(resources.trace.slices["step"])[work.rows]
    at = np.minimum(np.searchsorted(number[order], step), len(number) - 1)
    return np.where(number[order][at] == step, order[at], -1)
