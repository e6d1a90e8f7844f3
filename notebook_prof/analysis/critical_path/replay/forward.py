"""The recorded dependences run forwards with changed durations: scans, and a loop over waits. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ....trace.arrays import BoolArray, FloatArray, IntArray
from ....trace.intervals import as_ints
from ..resources import LAUNCH, STREAM
from ..segments import FAR
from .constraints import Constraints, constraints
from .edges import COPY, DEVICE_WAIT, QUEUE, Edges, launch_queues
from .scans import Clocks, running_maximum, runs_of

_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True)
class Change:
    """What is otherwise than it was recorded.

    Attributes
    ----------
    factor : ndarray of float64, shape (slices,), optional
        Of the time that a slice of a thread owns, and of the length of device work.
    launch_latency : float
        Factor of the time from a launch to the start of its work.
    removed : ndarray of bool, shape (slices,), optional
        Slices whose waits are gone: calls, and what owned the thread when it rested. A full queue stays full.
    detached : ndarray of bool, shape (work,), optional
        Work that nothing else waits for, but other work that is detached.
    usual_lags : bool
        Give all edges of a kind the same lag, as if it were not known what happened.
    only_binding : bool
        Let calls wait only for what held them up in the recording.
    """

    factor: FloatArray | None = None
    launch_latency: float = 1.0
    removed: BoolArray | None = None
    detached: BoolArray | None = None
    usual_lags: bool = False
    only_binding: bool = False


@dataclass
class Replay:
    """When everything would have happened.

    Attributes
    ----------
    edges : Constraints
    change : Change
    clocks : Clocks
    offset : ndarray of int64, shape (pieces,)
        What is added to the work of a thread, by piece.
    until : ndarray of int64, shape (pieces,)
        ns; when the wait ends with which each piece ends; `FAR` for the last of a thread.
    start, end : ndarray of int64, shape (work,)
        ns; of device work.
    """

    edges: Constraints
    change: Change
    clocks: Clocks
    offset: IntArray
    until: IntArray
    start: IntArray
    end: IntArray

    def now(self, tracks: IntArray, instants: IntArray) -> IntArray:
        """Return the new times of recorded instants of threads; those inside a wait are not after its end."""
        thread = self.edges.number(tracks)
        piece = self.edges.piece(thread, instants)
        own = self.offset[piece] + self.clocks.work(thread, instants)
        return as_ints(np.minimum(own, self.until[piece]))


def replay(edges: Constraints, change: Change = Change()) -> Replay:
    """Run the recorded dependences forwards.

    Parameters
    ----------
    edges : Constraints
    change : Change
        By default nothing: then each instant is the recorded one.

    Returns
    -------
    Replay

    Notes
    -----
    Max-plus algebra: a wait ends, and work begins, at the latest of what has to be before, each with its lag.
    The edge that bound keeps the lag that was recorded; every other edge has the least lag of its kind, or
    the recorded one where that is shorter. Inside a run of work of one stream that was launched by one piece
    of a thread this is a scan (``cumsum`` and a running maximum), the same for all runs at once; what is left
    is a loop over runs and waits, by the recorded time.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> from notebook_prof.analysis.critical_path.dependences import dependences
    >>> from notebook_prof.analysis.critical_path.replay.constraints import constraints
    >>> trace = draw('''
    ... main:     [mm]  [sync     ]
    ... stream 7:     [gemm    ]
    ... ''', launches=[("mm", "gemm")], categories={"sync": "sync"})
    >>> edges = constraints(dependences(trace))
    >>> half = replay(edges, Change(factor=np.array([1.0, 0.5, 1.0])))
    >>> half.end.tolist(), half.now(np.array([0]), np.array([17])).tolist()
    ([9], [12])
    """
    return Forward(edges, change).run()


_ROUNDS: Final = 12


def replay_within_queues(edges: Constraints, changes: Sequence[Change]) -> list[Replay] | None:
    """Run the dependences forwards so that no launch queue ever holds more than it can.

    Parameters
    ----------
    edges : Constraints
    changes : sequence of Change

    Returns
    -------
    list of Replay or None
        One for each change, of the same constraints; None where queues overflow again and again.

    Notes
    -----
    Only launches that would find a queue full wait for room: those are added as waits, and all is replayed,
    until there are none. Each round only lets things come later, so that this ends.
    """
    graph, queues = edges.graph, launch_queues(edges.graph)
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
    """One run forwards, with what `slack_of` needs of it.

    Parameters
    ----------
    edges : Constraints
    change : Change
    cuts : ndarray of bool, shape (work,), optional
        Where runs have to begin, beside where it must be.

    Attributes
    ----------
    runs : Runs
    pieces : int
        Number of pieces of threads: nodes are pieces, then runs.
    own : ndarray of int64, shape (waits,)
        The piece that begins with the end of each wait.
    parts : list of (ndarray, ndarray, ndarray, ndarray) of int64
        Edges: target and source nodes, and what is added to the entry, and to the launch, of the source.
    on_threads : list of (ndarray, ndarray, ndarray, ndarray) of int64
        Edges to waits from instants of threads: target and source nodes, the instant, and the lag.
    spacing, latency : ndarray of int64, shape (work,)
        ns; from the work before, and from the launch.
    entry, launch : ndarray of int64, shape (nodes,)
        When a run was entered, and what its launches are later by; for a piece what is added to its work.
    """

    def __init__(self, edges: Constraints, change: Change, cuts: BoolArray | None = None) -> None:
        self.edges, self.change, self._cuts = edges, change, cuts
        self.clocks = Clocks(edges, change.factor)
        self.parts: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []
        self.on_threads: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []

    def scaled(self, rows: IntArray, spent: IntArray) -> IntArray:
        """Return times scaled by the factors of slices."""
        if self.change.factor is None:
            return spent
        return as_ints(np.rint(spent * np.append(self.change.factor, 1.0)[rows]))

    def run(self) -> Replay:
        """Return when everything would have happened."""
        edges, work, change = self.edges, self.edges.work, self.change
        latencies = edges.graph.latencies
        count = len(work.rows)
        self.dur = self.scaled(work.rows, work.end - work.start)
        events = edges.events
        if change.detached is not None:
            free = change.detached
            loose = np.flatnonzero(free[work.before] & ~free & (work.before >= 0))
            events = Edges(*(x[~free[events.source] | free[events.target]] for x in events))
        else:
            loose = _NONE
        cut = np.zeros(count, bool) if self._cuts is None else self._cuts.copy()
        cut[events.target] = True
        cut[loose] = True
        runs = self.runs = runs_of(edges, cut)
        # of each work, from its run's begin: by what came before the run, and by launches inside of it
        previous = np.where(work.before >= 0, work.end[work.before], 0) if count else _NONE
        gap = work.start - previous
        self.spacing = spacing = self._of_kind(gap, work.bound == STREAM, latencies.spacing)
        spacing[work.before < 0] = 0
        step = np.where(runs.first, 0, np.append(0, self.dur[:-1])[:count] + spacing)
        total = np.cumsum(step)
        self.since = total - total[runs.begins][runs.number] if count else _NONE
        latency = self._of_kind(work.start - work.launched, work.bound == LAUNCH, latencies.launch)
        if change.launch_latency != 1.0:
            latency = np.rint(latency * change.launch_latency).astype(np.int64)
        self.latency = latency
        begun = work.thread >= 0
        launched = np.full(count, -FAR)
        launched[begun] = self.clocks.work(work.thread[begun], work.launched[begun]) + latency[begun]
        self.latest = self.since + running_maximum(
            launched - self.since, begun, runs.number, len(runs.begins)
        )
        self.pieces = int(edges.first_piece[-1]) if len(edges.first_piece) else 0
        return self._solve(spacing, events, loose)

    def _of_kind(self, recorded: IntArray, binds: BoolArray, least: int) -> IntArray:
        if self.change.usual_lags:
            return np.full(len(recorded), least)
        return np.where(binds, recorded, np.minimum(least, recorded))

    def _from_work(self, target: IntArray, source: IntArray, lag: IntArray, *, started: bool = False) -> None:
        """Add edges from the end of work, or from its start."""
        more = lag if started else lag + self.dur[source]
        node = self.pieces + self.runs.number[source]
        self.parts.append((target, node, self.since[source] + more, self.latest[source] + more))

    def _from_piece(self, target: IntArray, piece: IntArray, more: IntArray) -> None:
        self.parts.append((target, piece, more, np.full(len(target), -2 * FAR)))

    def _solve(self, spacing: IntArray, events: Edges, loose: IntArray) -> Replay:
        edges, work, runs, waits = self.edges, self.edges.work, self.runs, self.edges.waits
        begins = runs.begins
        nodes = self.pieces + len(begins)
        # work after work that is not just the one before in its run
        follows = begins[(work.before[begins] >= 0) & ~np.isin(begins, loose)] if len(begins) else _NONE
        self._from_work(self.pieces + runs.number[follows], work.before[follows], spacing[follows])
        lag = self._of_kind(events.lag, events.binds == 1, edges.graph.latencies.spacing)
        self._from_work(self.pieces + runs.number[events.target], events.source, lag)
        until = self._waits()
        offset = np.zeros(nodes, np.int64)
        offset[: self.pieces][self.own] = waits.end - until
        base = np.full(nodes, -FAR)
        if len(begins):
            alone = np.zeros(nodes, bool)
            alone[self.pieces + np.arange(len(begins))] = True
            for target, *_ in self.parts:
                alone[target] = False
            unlaunched = alone[self.pieces :] & (work.thread[begins] < 0)
            base[self.pieces :][unlaunched] = work.start[begins][unlaunched]
        launcher = np.full(nodes, -1)
        launcher[self.pieces :] = runs.piece
        less = np.zeros(nodes, np.int64)
        less[self.own] = until
        entry, launch = self.entry, self.launch = _loop(
            self.order(), self.parts, offset, base, launcher, less
        )
        start = np.maximum(
            entry[self.pieces :][runs.number] + self.since, launch[self.pieces :][runs.number] + self.latest
        )
        offset, ends = entry[: self.pieces], np.full(self.pieces, FAR)
        ends[self.own - 1] = offset[self.own] + until
        return Replay(edges, self.change, self.clocks, offset, ends, start, start + self.dur)

    def _waits(self) -> IntArray:
        """Add the edges of all waits; return the work of each thread up to the end of each wait."""
        edges, waits, change = self.edges, self.edges.waits, self.change
        number = np.arange(len(waits.end))
        own = self.own = edges.piece_of_wait(number)
        until = self.clocks.work(waits.thread, waits.end)
        gone = np.zeros(len(number), bool)
        if change.removed is not None:
            gone = np.append(change.removed, False)[waits.owner] & (waits.kind != QUEUE)
        begin = self.clocks.work(waits.thread, waits.begin)
        before = np.minimum(edges.piece(waits.thread, waits.begin), own - 1)
        length, latencies = waits.end - waits.begin, edges.graph.latencies
        least = np.where(waits.waited == 1, 0, length)
        device = (waits.kind == DEVICE_WAIT) & (waits.waited == 1)
        least[device] = np.minimum(length[device], edges.usual_wait)
        call = ((waits.kind == COPY) | (waits.kind == QUEUE)) & (waits.waited == 1)
        least[call] = np.minimum(length[call], latencies.call)
        least = np.where(gone, 0, self.scaled(waits.slice, least))
        self._from_piece(own, before, begin + least)
        self.on_threads.append((own, before, waits.begin, least))
        inside = number[1:][(waits.begin[1:] < waits.end[:-1]) & (waits.thread[1:] == waits.thread[:-1])]
        self._from_piece(own[inside], own[inside] - 1, until[inside - 1])
        self.on_threads.append((own[inside], own[inside] - 1, waits.end[inside - 1], 0 * inside))
        for one, started in ((edges.of_work, False), (edges.of_start, True)):
            keep = ~gone[one.target]
            if change.only_binding:
                keep &= (one.binds == 1) | (waits.added[one.target] == 1)
            if change.detached is not None:
                keep &= ~change.detached[one.source]
            one = Edges(*(column[keep] for column in one))
            self._from_work(own[one.target], one.source, self._wake(one), started=started)
        one = Edges(*(column[~gone[edges.of_thread.target]] for column in edges.of_thread))
        at, piece, lag = (
            self.clocks.work(one.source, one.at),
            edges.piece(one.source, one.at),
            self._wake(one),
        )
        self._from_piece(own[one.target], piece, at + lag)
        self.on_threads.append((own[one.target], piece, one.at, lag))
        return until

    def _wake(self, one: Edges) -> IntArray:
        """Return lags of waits: as recorded where they bound, else as usual for the kind of wait."""
        kind = self.edges.waits.kind[one.target]
        out = one.lag.copy()
        for number in np.unique(kind):
            here = kind == number
            bound = one.lag[here & (one.binds == 1)]
            usual = int(np.median(bound)) if len(bound) else 0
            out[here] = self._of_kind(one.lag[here], one.binds[here] == 1, usual)
        return out

    def order(self) -> IntArray:
        """Return all nodes but the first pieces of threads, by their recorded time."""
        waits, begins = self.edges.waits, self.runs.begins
        node = np.concatenate([self.own, self.pieces + np.arange(len(begins))])
        time = np.concatenate([waits.end, self.edges.work.start[begins]])
        late = np.concatenate([np.where(waits.kind == QUEUE, 2, 0), np.ones(len(begins), np.int64)])
        return node[np.lexsort((node, late, time))]


def _loop(
    order: IntArray,
    parts: list[tuple[IntArray, IntArray, IntArray, IntArray]],
    offset: IntArray,
    base: IntArray,
    launcher: IntArray,
    less: IntArray,
) -> tuple[IntArray, IntArray]:
    """Work out all nodes one after another: waits and runs of work, not work."""
    target, source, plain, launched = (np.concatenate(column) for column in zip(*parts, strict=True))
    by_target = np.argsort(target, kind="stable")
    counts = np.bincount(target, minlength=len(base))
    first = (np.cumsum(counts) - counts).tolist()
    last = np.cumsum(counts).tolist()
    sources = source[by_target].tolist()
    plains, launches = plain[by_target].tolist(), launched[by_target].tolist()
    entry, launch = offset.tolist(), [-FAR] * len(base)
    bases, pieces, minus = base.tolist(), launcher.tolist(), less.tolist()
    for node in order.tolist():
        best = bases[node]
        for k in range(first[node], last[node]):
            one = sources[k]
            time = entry[one] + plains[k]
            other = launch[one] + launches[k]
            if other > time:
                time = other
            if time > best:
                best = time
        entry[node] = best - minus[node]
        if (piece := pieces[node]) >= 0:
            launch[node] = entry[piece]
    return np.array(entry, np.int64), np.array(launch, np.int64)
