"""The recorded dependences run forwards with changed durations: scans, and a loop over waits. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ....trace.arrays import BoolArray, FloatArray, IntArray
from ....trace.intervals import as_ints
from ..resources import FAR, LAUNCH, STREAM
from .constraints import COPY, DEVICE_WAIT, QUEUE, Constraints, GraphEdges, constraints


class Clocks:
    """Work done by threads up to recorded instants; `factor` scales self times, not unowned time."""

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
            at, owner = self._edges.graph.resources.segments(int(self._edges.threads[number]))
            scale = np.append(self._factor, 1.0)[owner]
            if (scale == 1.0).all():
                self._sums[number] = None
            else:
                length = np.rint(np.diff(at) * scale[:-1]).astype(np.int64)
                length[0] = 0  # before the first slice
                first = int(at[1]) if len(at) > 1 else 0
                total = first + np.concatenate([[0], np.cumsum(length)])
                self._sums[number] = at, total, scale
        return self._sums[number]


@dataclass(frozen=True)
class Change:
    """What a replay changes."""

    # Factors, by slice, for the self time on threads and the length of device work.
    factor: FloatArray | None = None
    # Factor for the time from a launch to the start of its work.
    launch_latency: float = 1.0
    # The work that this factor applies to; all by default.
    launched: BoolArray | None = None
    # Slices that no longer wait: calls, and owners of a thread at rest. A full queue stays full.
    removed: BoolArray | None = None
    # Communication that only other communication waits for, on this rank or another.
    detached: BoolArray | None = None
    # Give all edges of a kind the same lag, as if their own lags were unknown.
    usual_lags: bool = False
    # Let calls wait only for what held them up in the recording.
    only_binding: bool = False


@dataclass
class Replay:
    """The times of everything in the replay."""

    edges: Constraints
    change: Change
    clocks: Clocks
    # ns to add to a thread's clock (the work it has done), by piece.
    offset: IntArray
    # ns; end of the wait that ends each piece; `FAR` for a thread's last piece.
    until: IntArray
    # ns; times of device work.
    start: IntArray
    end: IntArray

    def now(self, tracks: IntArray, instants: IntArray) -> IntArray:
        """Return the new times of recorded thread instants; those inside a wait are at most its end."""
        thread = self.edges.number(tracks)
        piece = self.edges.piece(thread, instants)
        own = self.offset[piece] + self.clocks.work(thread, instants)
        return as_ints(np.minimum(own, self.until[piece]))


def replay(edges: Constraints, change: Change = Change()) -> Replay:
    """Run the recorded dependences forwards; without a change, every instant stays as recorded."""
    # Max-plus algebra: a wait ends, or work begins, at the latest of everything that must come before, each
    # with its lag. An edge that bound keeps its recorded lag; every other edge has the least lag of its
    # kind, or its recorded one if shorter. Within a run (work of one stream, launched by one piece of a
    # thread) this is a scan (``cumsum`` and a running maximum), computed for all runs at once. Between runs
    # and waits it is a loop, by recorded time.
    return Forward(edges, change).replay()


_ROUNDS: Final = 12
_TIES: Final = 64


def replay_within_queues(edges: Constraints, changes: Sequence[Change]) -> list[Replay] | None:
    """Run the dependences forwards so that no launch queue overflows; None if they always do."""
    # Only launches that would find their queue full wait for room. They are added as waits, and everything is
    # replayed, until no more are found. A round can only delay launches, so this ends.
    graph, queues = edges.graph, edges.queues
    chosen = queues.binds == 1
    for _ in range(_ROUNDS):
        replays = [replay(edges, change) for change in changes]
        full = np.zeros(len(chosen), bool)
        for one in replays:
            returned = one.now(graph.resources.track[queues.target], graph.resources.end[queues.target])
            full |= returned < one.start[queues.source]
        full &= ~chosen
        if not full.any():
            return replays
        chosen |= full
        edges = constraints(graph, chosen)
    return None


class Forward:
    """One forward run over a graph of nodes: pieces of threads, then runs of device work."""

    # `own`: the piece that begins when each wait ends. `run`: the run of each piece of work; `first`: whether
    # a run begins there. `begins`, `launcher`: the first work of each run, and the piece of a thread that
    # launched it (-1: none). `since`, `latest`: ns from the run's entry, and from its launch, to the start of
    # each piece of work. `dur`, `spacing`: ns; the length of work, and the least time from the end of the
    # previous work to its start. `parts`: columns of edges between nodes: target, source, time after the
    # source's entry, and after its launch.
    def __init__(self, edges: Constraints, change: Change) -> None:
        work, free = edges.work, change.detached
        self.edges, self.change = edges, change
        self.clocks = Clocks(edges, change.factor)
        self.pieces = int(edges.first_piece[-1])
        self.own = np.arange(len(edges.waits.end)) + 1 + edges.waits.thread
        self.parts: list[tuple[IntArray, ...]] = []
        self._events, loose = edges.events, np.zeros(len(work.rows), bool)
        if free is not None:
            loose = free[work.before] & ~free & (work.before >= 0)
            exchange = edges.graph.resources.category("collective")[work.rows]
            keep = ~free[edges.events.source] | exchange[edges.events.target]
            self._events = GraphEdges(*(column[keep] for column in edges.events))
        self._loose = loose
        cut = loose.copy()
        cut[self._events.target] = True
        self._split(cut)

    def _split(self, cut: BoolArray) -> None:
        """Split work into runs: at `cut`, at each new launching piece, and where work is not sequential."""
        work, count = self.edges.work, len(self.edges.work.rows)
        piece = np.full(count, -1)
        launched = np.flatnonzero(work.thread >= 0)
        piece[launched] = self.edges.piece(work.thread[launched], work.launched[launched])
        self.first = cut | (work.before != np.arange(count) - 1)
        self.first[:1] = True
        # work without a launch continues the previous run
        last = np.maximum.accumulate(np.where(piece >= 0, np.arange(count), -1))
        stream_begin = np.maximum.accumulate(np.where(work.before < 0, np.arange(count), 0))
        filled = np.where(last >= stream_begin, piece[last], -1)
        self.first[1:] |= filled[1:] != filled[:-1]
        self.begins = np.flatnonzero(self.first)
        self.run, self.launcher = np.cumsum(self.first) - 1, filled[self.begins]

    def replay(self) -> Replay:
        """Return when everything happens with the changes."""
        self._time_runs()
        self._edges_of_work()
        return self._solve(self._edges_of_waits())

    def _scaled(self, rows: IntArray, spent: IntArray) -> IntArray:
        """Return times of slices, scaled by the slices' factors."""
        if self.change.factor is None:
            return spent
        return as_ints(np.rint(spent * np.append(self.change.factor, 1.0)[rows]))

    def _time_runs(self) -> None:
        """Compute how long after its run's entry and launch each piece of work begins."""
        work, latencies = self.edges.work, self.edges.graph.latencies
        self.dur = self._scaled(work.rows, work.end - work.start)
        gap = np.where(work.before >= 0, work.start - np.append(work.end, 0)[work.before], 0)
        self.spacing = self._of_kind(gap, work.bound == STREAM, latencies.spacing)
        self.spacing[work.before < 0] = 0
        step = np.append(0, self.dur[:-1])[: len(gap)] + self.spacing
        total = np.cumsum(np.where(self.first, 0, step))
        self.since = total - total[self.begins[self.run]]
        latency = self._of_kind(work.start - work.launched, work.bound == LAUNCH, latencies.launch)
        factor = self.change.launch_latency
        of = np.ones(len(gap), bool) if self.change.launched is None else self.change.launched
        latency = as_ints(np.rint(latency * np.where(of, factor, 1.0)))
        begun = work.thread >= 0
        launched = np.full(len(gap), -FAR)
        launched[begun] = self.clocks.work(work.thread[begun], work.launched[begun]) + latency[begun]
        latest = pd.Series(np.where(begun, launched - self.since, -FAR)).groupby(self.run).cummax()
        self.latest = self.since + latest.to_numpy()

    def _of_kind(self, recorded: IntArray, binds: BoolArray, least: int) -> IntArray:
        if self.change.usual_lags:
            return np.full(len(recorded), least)
        return np.where(binds, recorded, np.minimum(least, recorded))

    def _from_work(self, target: IntArray, source: IntArray, lag: IntArray, *, started: bool = False) -> None:
        """Add edges from the end of work (with `started`, from its start)."""
        more = lag if started else lag + self.dur[source]
        node = self.pieces + self.run[source]
        self.parts.append((target, node, self.since[source] + more, self.latest[source] + more))

    def _from_piece(self, target: IntArray, piece: IntArray, more: IntArray) -> None:
        self.parts.append((target, piece, more, np.full(len(target), -2 * FAR)))

    def _edges_of_work(self) -> None:
        """Add the edges to runs: from the work before their first, and from events."""
        work, begins, events = self.edges.work, self.begins, self._events
        follows = begins[(work.before[begins] >= 0) & ~self._loose[begins]]
        self._from_work(self.pieces + self.run[follows], work.before[follows], self.spacing[follows])
        lag = self._of_kind(events.lag, events.binds == 1, self.edges.graph.latencies.spacing)
        self._from_work(self.pieces + self.run[events.target], events.source, lag)

    def _edges_of_waits(self) -> IntArray:
        """Add edges to the ends of waits; return how much work the thread has done by each."""
        edges, waits, change = self.edges, self.edges.waits, self.change
        until = self.clocks.work(waits.thread, waits.end)
        gone = np.zeros(len(until), bool)
        if change.removed is not None:
            gone = np.append(change.removed, False)[waits.owner] & (waits.kind != QUEUE)
        begin = self.clocks.work(waits.thread, waits.begin)
        before = np.minimum(edges.piece(waits.thread, waits.begin), self.own - 1)
        self._from_piece(self.own, before, begin + np.where(gone, 0, self._least_waits()))
        overlaps = (waits.begin[1:] < waits.end[:-1]) & (waits.thread[1:] == waits.thread[:-1])
        inside = 1 + np.flatnonzero(overlaps)
        self._from_piece(self.own[inside], self.own[inside] - 1, until[inside - 1])
        for one, started in ((edges.of_work, False), (edges.of_start, True)):
            keep = ~gone[one.target]
            if change.only_binding:
                keep &= (one.binds == 1) | (waits.added[one.target] == 1)
            if change.detached is not None:
                keep &= ~change.detached[one.source]
            one = GraphEdges(*(column[keep] for column in one))
            self._from_work(self.own[one.target], one.source, self._wake(one), started=started)
        one = GraphEdges(*(column[~gone[edges.of_thread.target]] for column in edges.of_thread))
        at = self.clocks.work(one.source, one.at)
        self._from_piece(self.own[one.target], edges.piece(one.source, one.at), at + self._wake(one))
        return until

    def _least_waits(self) -> IntArray:
        """Return how long each wait takes at least, even if its cause is done before it begins."""
        waits = self.edges.waits
        length, waited = waits.end - waits.begin, waits.waited == 1
        calls = (waits.kind == COPY) | (waits.kind == QUEUE)
        usual = np.where(waits.kind == DEVICE_WAIT, self.edges.usual_wait, 0)
        usual[calls] = self.edges.graph.latencies.call
        return self._scaled(waits.slice, np.where(waited, np.minimum(length, usual), length))

    def _wake(self, one: GraphEdges) -> IntArray:
        """Return the lags of edges to waits: as recorded if the edge bound, else as usual for the kind."""
        kind = self.edges.waits.kind[one.target]
        out = one.lag.copy()
        for number in np.unique(kind):
            here = kind == number
            bound = one.lag[here & (one.binds == 1)]
            usual = int(np.median(bound)) if len(bound) else 0
            out[here] = self._of_kind(one.lag[here], one.binds[here] == 1, usual)
        return out

    def _solve(self, until: IntArray) -> Replay:
        """Solve for all nodes, then for all work; `until` is the work done by the end of each wait."""
        work, begins, pieces = self.edges.work, self.begins, self.pieces
        nodes = pieces + len(begins)
        base, launcher, less = (np.full(nodes, value) for value in (-FAR, -1, 0))
        target, *sources = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        alone = np.ones(nodes, bool)
        alone[target] = False
        unlaunched = alone[pieces:] & (work.thread[begins] < 0)
        base[pieces:][unlaunched] = work.start[begins][unlaunched]
        launcher[pieces:] = self.launcher
        less[self.own] = until
        by_target = np.argsort(target, kind="stable")
        last = np.cumsum(np.bincount(target, minlength=nodes))
        ordered = [column[by_target] for column in sources]
        entry, launch = _loop(self._order(), last, ordered, base, launcher, less)
        entered, launched = entry[pieces:][self.run], launch[pieces:][self.run]
        start = np.maximum(entered + self.since, launched + self.latest)
        ends = np.full(pieces, FAR)
        ends[self.own - 1] = entry[self.own] + until
        return Replay(self.edges, self.change, self.clocks, entry[:pieces], ends, start, start + self.dur)

    def _order(self) -> IntArray:
        """Return all nodes except the threads' first pieces, by recorded time; at ties, sources first."""
        waits, begins = self.edges.waits, self.begins
        node = np.concatenate([self.own, self.pieces + np.arange(len(begins))])
        time, rank = (np.full(self.pieces + len(begins), value) for value in (-FAR, 0))
        time[node] = np.concatenate([waits.end, self.edges.work.start[begins]])
        rank[self.pieces :] = 1
        rank[self.own[waits.kind == QUEUE]] = 2
        launched = np.flatnonzero(self.launcher >= 0)
        target = np.concatenate([*(part[0] for part in self.parts), self.pieces + launched])
        source = np.concatenate([*(part[1] for part in self.parts), self.launcher[launched]])
        tied = np.flatnonzero(time[target] == time[source])
        target, source = target[tied], source[tied]
        for _ in range(_TIES):
            before = (rank[source] < rank[target]) | ((rank[source] == rank[target]) & (source < target))
            if before.all():
                break
            np.maximum.at(rank, target[~before], rank[source[~before]] + 1)
        return node[np.lexsort((node, rank[node], time[node]))]


def _loop(
    order: IntArray,
    last: IntArray,
    sources: Sequence[IntArray],
    base: IntArray,
    launcher: IntArray,
    less: IntArray,
) -> tuple[IntArray, IntArray]:
    """Compute nodes one after another; `last` is where each node's sources end."""
    source, plain, launched = (column.tolist() for column in sources)
    entry, launch = [0] * len(base), [-FAR] * len(base)
    bases, pieces, minus = base.tolist(), launcher.tolist(), less.tolist()
    ends = [*last.tolist(), 0]  # the last entry is for the node before the first
    for node in order.tolist():
        best = bases[node]
        for k in range(ends[node - 1], ends[node]):
            one = source[k]
            time, other = entry[one] + plain[k], launch[one] + launched[k]
            if other > time:
                time = other
            if time > best:
                best = time
        entry[node] = best - minus[node]
        if (piece := pieces[node]) >= 0:
            launch[node] = entry[piece]
    return np.array(entry, np.int64), np.array(launch, np.int64)
