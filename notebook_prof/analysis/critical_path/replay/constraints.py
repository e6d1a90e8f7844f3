"""What must end before a thread's wait can end, and before device work can begin. Pure numpy."""

# A *piece* of a thread is the time from the end of one wait to the end of the next: its instants move
# together, except for work that gets faster or slower. Each thread has a first piece, and one more for each
# wait.

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ....trace.arrays import BoolArray, IntArray
from ..dependences import Dependences
from ..resources import EVENT, FAR, NOTHING, WAITS, StreamWork, owners_at, stacked, sync_table
from ..streams import recorded_event_pairs
from ..waits import Waits, waitable_work, waiting_calls

_NONE: Final = np.empty(0, np.int64)
DEVICE_WAIT, COPY, QUEUE, HAND_OVER, LOADER, HOST_COLLECTIVE = range(len(WAITS))


class DeviceWork(NamedTuple):
    """All device work, one stream after another, each by start; columns of int64."""

    rows: IntArray
    start: IntArray
    end: IntArray
    # Index of the work on the same stream that had ended last; -1 if there is none.
    before: IntArray
    # The same as in `StreamWork`.
    call: IntArray
    launched: IntArray
    bound: IntArray
    # Number of the launching thread, or of the main thread if no cause is recorded; else -1.
    thread: IntArray


class ThreadWaits(NamedTuple):
    """All waits of threads, including those that found nothing to wait for; by thread, then by end."""

    thread: IntArray
    begin: IntArray
    end: IntArray
    # Index into `WAITS`.
    kind: IntArray
    # Row of the call; -1 if there is none.
    slice: IntArray
    # 1 if what it waited for ended during the wait.
    waited: IntArray
    # 1 for a launch that did not wait, but would if its queue were full.
    added: IntArray
    # Row of the call or, without one, of the slice that owns the begin; -1 if neither exists.
    owner: IntArray


class GraphEdges(NamedTuple):
    """What must happen before a wait ends or work begins; columns of int64."""

    # Numbers of waits, threads or work, depending on the kind of edge.
    target: IntArray
    source: IntArray
    # Recorded instant of the source.
    at: IntArray
    # Recorded time from the source to the target.
    lag: IntArray
    # 1 if only this edge delayed the target to its recorded time.
    binds: IntArray


def launch_queues(graph: Dependences) -> GraphEdges:
    """Pair each launch with the work that must begin before its stream's queue has room for it."""
    # `target` is the row of the call, `source` the number of the work. An edge binds if a call on a stream
    # with a full queue returned just when the work began. A stream whose calls were blocked holds as many
    # launches as its greatest depth. Others hold as many as a blocked stream (`QUEUE_SIZE` without one), or
    # as their own greatest depth if that is more.
    resources = graph.resources
    recorded = stacked(Waits, list(graph.threads.values()))
    full = set(np.unique(recorded.track[recorded.kind == QUEUE]).tolist())
    long = recorded.slice[recorded.kind == QUEUE]
    depth = {track: _greatest_depth(graph, stream) for track, stream in graph.streams.items()}
    common = max((depth[track] for track in full), default=QUEUE_SIZE)
    parts, first = [], 0
    for track, stream in graph.streams.items():
        size = depth[track] if track in full else max(depth[track], common)
        by_launch = stream.order
        call = stream.call[by_launch]
        count = len(by_launch)
        if count > size:
            target, source = call[size:], by_launch[:-size]
            keep = (target >= 0) & (np.isin(resources.track[target], list(resources.threads)))
            keep &= stream.start[source] <= resources.end[target]
            keep[:-1] &= target[1:] != target[:-1]  # of a graph launch, keep the last node
            target, source = target[keep], source[keep]
            at, begun = stream.start[source], resources.ts[target]
            lag = resources.end[target] - at
            binds = (track in full) & (lag <= graph.latencies.noise) & (at > begun + graph.latencies.call)
            binds &= ~np.isin(target, long)
            parts.append((target, source + first, at, lag, binds.astype(np.int64)))
        first += count
    return stacked(GraphEdges, parts)


QUEUE_SIZE: Final = 1024
"""Launches that a stream's queue holds by default, as with NVIDIA's driver."""


def _greatest_depth(graph: Dependences, stream: StreamWork) -> int:
    """Return the greatest number of launches that a stream held."""
    call = stream.call[stream.order]
    returned = np.where(call >= 0, graph.resources.end[call], FAR)
    ahead = np.arange(len(call)) - np.searchsorted(np.sort(stream.start), returned, side="right")
    return int(ahead.max(initial=0)) + 1


@dataclass(frozen=True, slots=True)
class Constraints:
    """The dependences of a recording as edges."""

    graph: Dependences
    # Tracks of the threads, ascending; a thread's number is its index here.
    threads: IntArray
    work: DeviceWork
    waits: ThreadWaits
    # Number of each thread's first piece; wait *k* (counted over all threads) ends piece ``k + thread``.
    first_piece: IntArray
    # Edges to waits: from the end of work, from the start of work, and from an instant of a thread.
    of_work: GraphEdges
    of_start: GraphEdges
    of_thread: GraphEdges
    # Edges to work from the end of work on another stream.
    events: GraphEdges
    # ns that a call takes to wait for a device that is already done.
    usual_wait: int
    # All launches that could wait for room in a queue; see `launch_queues`.
    queues: GraphEdges

    def piece(self, thread: IntArray, instants: IntArray) -> IntArray:
        """Return the piece of its thread that contains each instant; a wait's end is in the next piece."""
        out = np.empty(len(instants), np.int64)
        for number in np.flatnonzero(np.bincount(thread)).tolist():
            here = thread == number
            first = int(self.first_piece[number])
            ends = self.waits.end[first - number : int(self.first_piece[number + 1]) - number - 1]
            out[here] = first + np.searchsorted(ends, instants[here], side="right")
        return out

    def number(self, tracks: npt.ArrayLike) -> IntArray:
        return np.searchsorted(self.threads, np.asarray(tracks, np.int64)).astype(np.int64)


def constraints(graph: Dependences, queued: BoolArray | None = None) -> Constraints:
    """Collect all edges: what must end before what."""
    # `queued` selects the edges of `launch_queues` that apply; by default those that bind.
    threads = np.array(sorted(graph.resources.threads), np.int64)
    work, position = _all_work(graph, threads)
    queues = launch_queues(graph)
    some = GraphEdges(*(column[queues.binds == 1 if queued is None else queued] for column in queues))
    unmet = [] if graph.between is None else [graph.between.unmet]
    recorded = stacked(Waits, [*graph.threads.values(), *unmet])
    waits, at, at_done, at_queues = _all_waits(graph, threads, recorded, some)
    counts = np.bincount(waits.thread, minlength=len(threads))
    first_piece = np.concatenate([[0], np.cumsum(counts + 1)]).astype(np.int64)
    lengths = (waits.end - waits.begin)[(waits.kind == DEVICE_WAIT) & (waits.waited == 0)]
    usual = int(np.median(lengths)) if len(lengths) else graph.latencies.call
    of_work = _of_work(graph, position, waits, recorded, at, at_done)
    of_start = _of_start(position, recorded, at, some._replace(target=at_queues))
    of_thread = _of_thread(graph, threads, waits, recorded, at)
    events = _events(graph, work, position)
    return Constraints(
        graph, threads, work, waits, first_piece, of_work, of_start, of_thread, events, usual, queues
    )


def _all_work(graph: Dependences, threads: IntArray) -> tuple[DeviceWork, IntArray]:
    """Return all work, and each slice's index in it (-1 for other slices)."""
    resources = graph.resources
    position = np.full(len(resources.ts) + 1, -1, np.int64)
    parts: list[tuple[IntArray, ...]] = []
    total = 0
    for number, stream in graph.streams.items():
        before = np.where(stream.before >= 0, stream.before + total, -1)
        track = resources.track[stream.call]
        thread = np.searchsorted(threads, track)
        own = (stream.call >= 0) & np.isin(track, threads)
        thread = np.where(own, thread, -1)
        call, launched = np.where(own, stream.call, -1), np.where(own, stream.launched, -FAR)
        if (main := graph.main_of(number)) >= 0:  # assumed to be the cause, as on the critical path
            nothing = (stream.bound == NOTHING) & ~own
            thread = np.where(nothing, np.searchsorted(threads, main), thread)
            launched = np.where(nothing, stream.start, launched)
        parts.append((stream.rows, stream.start, stream.end, before, call, launched, stream.bound, thread))
        position[stream.rows] = total + np.arange(len(stream.rows))
        total += len(stream.rows)
    return stacked(DeviceWork, parts), position


def _all_waits(
    graph: Dependences, threads: IntArray, recorded: Waits, queues: GraphEdges
) -> tuple[ThreadWaits, IntArray, IntArray, IntArray]:
    """Return all waits, and where those of `recorded`, of calls that did not wait, and of `queues` are."""
    resources = graph.resources
    ts, end, track = resources.ts, resources.end, resources.track
    done = np.flatnonzero(waiting_calls(resources))
    done = np.setdiff1d(done, recorded.slice[recorded.kind == DEVICE_WAIT])
    launch, full = queues.target, queues.binds
    counts = (len(recorded.slice), len(done), len(launch))
    call = np.concatenate([recorded.slice, done, launch])
    waits = ThreadWaits(
        thread=np.searchsorted(threads, np.concatenate([recorded.thread, track[done], track[launch]])),
        begin=np.concatenate([recorded.begin, ts[done], np.where(full == 1, ts[launch], end[launch])]),
        end=np.concatenate([recorded.end, end[done], end[launch]]),
        kind=np.concatenate([recorded.kind, np.repeat([DEVICE_WAIT, QUEUE], counts[1:])]),
        slice=call,
        waited=np.concatenate([np.repeat([1, 0], counts[:2]), full]),
        added=np.concatenate([np.repeat([0, 0], counts[:2]), 1 - full]),
        owner=call,
    )
    since = np.concatenate([recorded.done, ts[done], end[launch]])
    order = np.lexsort((waits.added, since, waits.kind == QUEUE, waits.end, waits.thread))
    waits = ThreadWaits(*(column[order] for column in waits))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    inferred = waits.slice < 0
    waits.owner[inferred] = owners_at(resources, threads[waits.thread[inferred]], waits.begin[inferred])
    at, at_done, at_queues = np.split(number, np.cumsum(counts[:2]))
    return waits, at, at_done, at_queues


def _bound(recorded: Waits, at: IntArray, keep: BoolArray, source: IntArray) -> GraphEdges:
    """Return the edges that delayed the recorded waits in `keep`; all of them bind."""
    lag = recorded.end - recorded.done
    binds = np.ones(len(keep), np.int64)
    return GraphEdges(*(column[keep] for column in (at, source, recorded.done, lag, binds)))


def _of_work(
    graph: Dependences,
    position: IntArray,
    waits: ThreadWaits,
    recorded: Waits,
    at: IntArray,
    at_done: IntArray,
) -> GraphEdges:
    """Return edges from the end of work to waits, for actual and possible causes."""
    bound = _bound(recorded, at, (recorded.row >= 0) & (recorded.kind != QUEUE), position[recorded.row])
    device = recorded.kind == DEVICE_WAIT
    number = np.concatenate([at[device], at_done])
    cause = np.concatenate([recorded.row[device], np.full(len(at_done), -1)])
    return stacked(GraphEdges, [bound, *_possible(graph, position, waits, number, cause)])


def _of_start(position: IntArray, recorded: Waits, at: IntArray, queues: GraphEdges) -> GraphEdges:
    """Return edges from the start of work to waits for room in a launch queue."""
    bound = _bound(recorded, at, (recorded.row >= 0) & (recorded.kind == QUEUE), position[recorded.row])
    # if the call did not wait, assume that room appears as soon as the work begins
    lag = np.where(queues.binds == 1, queues.lag, 0)
    return stacked(GraphEdges, [bound, queues._replace(lag=lag)])


def _of_thread(
    graph: Dependences, threads: IntArray, waits: ThreadWaits, recorded: Waits, at: IntArray
) -> GraphEdges:
    bound = _bound(recorded, at, recorded.row < 0, np.searchsorted(threads, recorded.track))
    if graph.between is None or not len(graph.between.call):
        return bound
    _, _, call, thread, at, _ = graph.between
    number = np.flatnonzero(waits.kind == HOST_COLLECTIVE)
    number = number[np.argsort(waits.slice[number], kind="stable")]
    none = np.zeros(len(call), np.int64)
    target = number[np.searchsorted(waits.slice[number], call)]
    return stacked(GraphEdges, [bound, GraphEdges(target, np.searchsorted(threads, thread), at, none, none)])


def _possible(
    graph: Dependences, position: IntArray, waits: ThreadWaits, number: IntArray, cause: IntArray
) -> list[GraphEdges]:
    """Return edges from work that a call would have waited for, had the work not been done earlier."""
    resources = graph.resources
    calls, work = waitable_work(resources, graph.streams, sync_table(resources.trace))
    order = np.argsort(waits.slice[number], kind="stable")
    at = order[np.searchsorted(waits.slice[number][order], calls)]
    wait, bound = number[at], cause[at]
    parts = []
    for row in work:
        done = np.where(row >= 0, resources.end[row], FAR)
        keep = (row >= 0) & (done <= resources.end[calls]) & (row != bound)
        columns = (wait, position[row], done, resources.end[calls] - done, np.zeros(len(row), np.int64))
        parts.append(GraphEdges(*(column[keep] for column in columns)))
    return parts


def _events(graph: Dependences, work: DeviceWork, position: IntArray) -> GraphEdges:
    """Return edges from work to work on other streams that waited for it through an event."""
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
    if graph.between is not None:
        target, source = position[graph.between.transfer], graph.between.arrival
        parts.append((target, source, np.zeros(len(target), np.int64)))
    if not parts:
        return GraphEdges(*[_NONE] * 5)
    target, row, binds = (np.concatenate(column) for column in zip(*parts, strict=True))
    at = resources.end[row]
    lag = work.start[target] - at
    keep = lag >= 0
    return GraphEdges(*(x[keep] for x in (target, position[row], at, lag, binds)))
