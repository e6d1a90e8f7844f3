"""What has to end before each wait of a thread and each piece of device work, with its lag. Pure numpy.

A *piece* of a thread is the time from the end of one of its waits to the end of the next: all its instants
move together, apart from work that gets faster or slower. Each thread has a first piece, and one more for
each wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ....trace.arrays import BoolArray, IntArray
from ..dependences import Dependences
from ..resources import EVENT, NOTHING, sync_table
from ..segments import FAR
from ..streams import recorded_event_pairs
from ..waits import waitable_work, waiting_calls
from .edges import DEVICE_WAIT, QUEUE, Edges, ThreadWaits, Work, launch_queues

_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Constraints:
    """The dependences of a recording as edges.

    Attributes
    ----------
    graph : Dependences
    threads : ndarray of int64
        Tracks of the threads, ascending: threads are numbered by it.
    work : Work
    waits : ThreadWaits
    first_piece : ndarray of int64, shape (threads + 1,)
        Number of the first piece of each thread; the piece after wait *k* of all has the number
        ``k + 1 + thread``.
    of_work, of_start, of_thread : Edges
        Waits for the end of work, for the start of work, and for an instant of a thread.
    events : Edges
        Work for the end of work of another stream.
    usual_wait : int
        ns; how long a call lasts that waits for a device and finds that it is done.
    """

    graph: Dependences
    threads: IntArray
    work: Work
    waits: ThreadWaits
    first_piece: IntArray
    of_work: Edges
    of_start: Edges
    of_thread: Edges
    events: Edges
    usual_wait: int

    def piece_of_wait(self, wait: IntArray) -> IntArray:
        """Return the number of the piece that begins with the end of a wait."""
        return np.asarray(wait + 1 + self.waits.thread[wait], dtype=np.int64)

    def piece(self, thread: IntArray, instants: IntArray) -> IntArray:
        """Return the piece of a thread in which each instant lies; the end of a wait is in the next one."""
        out = np.empty(len(instants), np.int64)
        for number in np.unique(thread):
            here = thread == number
            first = int(self.first_piece[number])
            ends = self.waits.end[first - number : int(self.first_piece[number + 1]) - number - 1]
            out[here] = first + np.searchsorted(ends, instants[here], side="right")
        return out

    def number(self, tracks: npt.ArrayLike) -> IntArray:
        """Return the numbers of threads by track."""
        return np.searchsorted(self.threads, np.asarray(tracks, np.int64)).astype(np.int64)


def constraints(graph: Dependences, queued: BoolArray | None = None) -> Constraints:
    """Collect what has to end before what.

    Parameters
    ----------
    graph : Dependences
    queued : ndarray of bool, optional
        Which of `launch_queues` are waits for room in a launch queue; by default those that bound.

    Returns
    -------
    Constraints

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> from notebook_prof.analysis.critical_path.dependences import dependences
    >>> trace = draw('''
    ... main:     [mm]  [sync     ]
    ... stream 7:     [gemm    ]
    ... ''', launches=[("mm", "gemm")], categories={"sync": "sync"})
    >>> edges = constraints(dependences(trace)).of_work
    >>> edges.at.tolist(), edges.lag.tolist()
    ([14], [3])
    """
    threads = np.array(sorted(graph.resources.threads), np.int64)
    work, position = _all_work(graph, threads)
    queues = launch_queues(graph)
    queues = Edges(*(column[queues.binds == 1 if queued is None else queued] for column in queues))
    waits, old = _all_waits(graph, threads, queues)
    counts = np.bincount(waits.thread, minlength=len(threads))
    first_piece = np.concatenate([[0], np.cumsum(counts + 1)]).astype(np.int64)
    of_work, of_start, of_thread = _edges_of_waits(graph, threads, position, waits, old, queues)
    ready = waits.end[(waits.kind == DEVICE_WAIT) & (waits.waited == 0)]
    begun = waits.begin[(waits.kind == DEVICE_WAIT) & (waits.waited == 0)]
    usual = int(np.median(ready - begun)) if len(ready) else graph.latencies.call
    events = _events(graph, work, position)
    return Constraints(graph, threads, work, waits, first_piece, of_work, of_start, of_thread, events, usual)


def _all_work(graph: Dependences, threads: IntArray) -> tuple[Work, IntArray]:
    """Return all work, and the position in it of each slice (-1 for others)."""
    resources = graph.resources
    position = np.full(len(resources.ts) + 1, -1, np.int64)
    parts: list[tuple[IntArray, ...]] = []
    total = 0
    for stream in graph.streams.values():
        before = np.where(stream.before >= 0, stream.before + total, -1)
        track = resources.track[stream.call]
        thread = np.searchsorted(threads, track)
        own = (stream.call >= 0) & np.isin(track, threads)
        thread = np.where(own, thread, -1)
        call, launched = np.where(own, stream.call, -1), np.where(own, stream.launched, -FAR)
        if graph.main >= 0:  # as on the critical path, the main thread is taken for the cause
            nothing = (stream.bound == NOTHING) & ~own
            thread = np.where(nothing, np.searchsorted(threads, graph.main), thread)
            launched = np.where(nothing, stream.start, launched)
        parts.append((stream.rows, stream.start, stream.end, before, call, launched, stream.bound, thread))
        position[stream.rows] = total + np.arange(len(stream.rows))
        total += len(stream.rows)
    if not parts:
        return Work(*[_NONE] * 8), position
    return Work(*(np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True))), position


def _all_waits(
    graph: Dependences, threads: IntArray, queues: Edges
) -> tuple[ThreadWaits, dict[str, IntArray]]:
    """Return all waits in order, and where those of each source stand among them."""
    resources = graph.resources
    recorded = list(graph.threads.values())

    def column(name: str) -> IntArray:
        return np.concatenate([getattr(one, name) for one in recorded]) if recorded else _NONE

    kind, calls = column("kind"), column("slice")
    every = np.flatnonzero(waiting_calls(resources))
    idle = np.setdiff1d(every, calls[kind == DEVICE_WAIT])
    number = np.searchsorted(threads, column("thread"))
    one, zero = np.ones(len(kind), np.int64), np.zeros(len(kind), np.int64)
    parts = [(number, column("begin"), column("end"), kind, calls, one, zero, column("done"))]
    begin, end, own = resources.ts[idle], resources.end[idle], np.searchsorted(threads, resources.track[idle])
    zero = np.zeros(len(idle), np.int64)
    parts.append((own, begin, end, zero + DEVICE_WAIT, idle, zero, zero, begin))
    if len(queues.target):
        calls, waited = queues.target, queues.binds
        begin, end = np.where(waited == 1, resources.ts[calls], resources.end[calls]), resources.end[calls]
        own, kind_of = np.searchsorted(threads, resources.track[calls]), np.full(len(calls), QUEUE)
        parts.append((own, begin, end, kind_of, calls, waited, 1 - waited, end))
    columns = [np.concatenate([np.asarray(p, np.int64) for p in c]) for c in zip(*parts, strict=True)]
    thread, done = columns[0], columns[-1]
    order = np.lexsort((columns[6], done, columns[3] == QUEUE, columns[2], thread))
    where = np.empty(len(order), np.int64)
    where[order] = np.arange(len(order))
    cuts = np.cumsum([len(kind), len(idle)])
    old = dict(zip(("recorded", "idle", "queues"), np.split(where, cuts), strict=True))
    thread, begin, end, kind, calls, waited, added = (column[order] for column in columns[:-1])
    owner = calls.copy()
    for one in np.unique(thread[owner < 0]):
        cut = graph.segments(int(threads[one]))
        here = (thread == one) & (owner < 0)
        owner[here] = cut.owner[np.searchsorted(cut.at, begin[here], side="right") - 1]
    return ThreadWaits(thread, begin, end, kind, calls, waited, added, owner), old


def _edges_of_waits(
    graph: Dependences,
    threads: IntArray,
    position: IntArray,
    waits: ThreadWaits,
    old: dict[str, IntArray],
    queues: Edges,
) -> tuple[Edges, Edges, Edges]:
    """Return waits for the end of work, the start of work, and an instant of a thread."""
    recorded = list(graph.threads.values())

    def column(name: str) -> IntArray:
        return np.concatenate([getattr(one, name) for one in recorded]) if recorded else _NONE

    number, row, done, kind = old["recorded"], column("row"), column("done"), column("kind")
    lag = column("end") - done
    one = np.ones(len(row), np.int64)
    on_work = (row >= 0) & (kind != QUEUE)
    parts = [[x[on_work] for x in (number, position[row], done, lag, one)]]
    parts += _possible(
        graph, position, waits, number[kind == DEVICE_WAIT], old["idle"], row[kind == DEVICE_WAIT]
    )
    starts = [[x[(kind == QUEUE) & (row >= 0)] for x in (number, position[row], done, lag, one)]]
    if len(queues.target):
        # where nobody waited, there is room as soon as the work begins
        least = np.where(queues.binds == 1, queues.lag, 0)
        starts.append([old["queues"], queues.source, queues.at, least, queues.binds])
    on_thread = row < 0
    source = np.searchsorted(threads, column("track"))
    others = [x[on_thread] for x in (number, source, done, lag, one)]
    return (
        Edges(*(np.concatenate(c) for c in zip(*parts, strict=True))),
        Edges(*(np.concatenate(c) for c in zip(*starts, strict=True))),
        Edges(*others),
    )


def _possible(
    graph: Dependences,
    position: IntArray,
    waits: ThreadWaits,
    bound: IntArray,
    idle: IntArray,
    cause: IntArray,
) -> list[list[IntArray]]:
    """Return edges from work that a call could have waited for and did not, because it was done earlier."""
    resources = graph.resources
    calls, work = waitable_work(resources, graph.streams, sync_table(resources.trace))
    number = np.concatenate([bound, idle])
    causes = np.concatenate([cause, np.full(len(idle), -1)])
    order = np.argsort(waits.slice[number], kind="stable")
    at = np.searchsorted(waits.slice[number][order], calls)
    wait, cause_of = number[order][at], causes[order][at]
    parts = []
    for row in work:
        done = np.where(row >= 0, resources.end[row], FAR)
        keep = (row >= 0) & (done <= resources.end[calls]) & (row != cause_of)
        lag = resources.end[calls] - done
        parts.append([x[keep] for x in (wait, position[row], done, lag, np.zeros(len(row), np.int64))])
    return parts


def _events(graph: Dependences, work: Work, position: IntArray) -> Edges:
    """Return edges from work to work of other streams that waited for its event."""
    resources = graph.resources
    parts: list[tuple[IntArray, IntArray, IntArray]] = []
    first = 0
    table = sync_table(resources.trace)
    pairs = {} if table is None else recorded_event_pairs(resources, graph.streams, table)
    for track, stream in graph.streams.items():
        own = np.flatnonzero(stream.event >= 0)
        parts.append((own + first, stream.event[own], (stream.bound[own] == EVENT).astype(np.int64)))
        if track in pairs:
            places, source = pairs[track]
            further = stream.event[places] != source
            parts.append((places[further] + first, source[further], np.zeros(int(further.sum()), np.int64)))
        first += len(stream.rows)
    if not parts:
        return Edges(*[_NONE] * 5)
    target, row, binds = (np.concatenate(column) for column in zip(*parts, strict=True))
    at = resources.end[row]
    lag = work.start[target] - at
    keep = lag >= 0
    return Edges(*(x[keep] for x in (target, position[row], at, lag, binds)))
