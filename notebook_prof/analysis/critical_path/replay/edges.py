"""Edges between device work and waits of threads, and those of full launch queues. Pure numpy."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ....trace.arrays import IntArray
from ..dependences import Dependences
from ..resources import WAITS, StreamWork
from ..segments import FAR

_NONE: Final = np.empty(0, np.int64)
DEVICE_WAIT, COPY, QUEUE, HAND_OVER, LOADER, HOST_COLLECTIVE = range(len(WAITS))


class Work(NamedTuple):
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


class Edges(NamedTuple):
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


def launch_queues(graph: Dependences) -> Edges:
    """Pair each launch with the work that must begin before its stream's queue has room for it.

    `target` is the row of the call, `source` the number of the work. An edge binds if a call on a stream with
    a full queue returned just when the work began.
    """
    # A stream whose calls were blocked holds as many launches as its greatest depth. Others hold as many as
    # a blocked stream (`QUEUE_SIZE` without one), or as their own greatest depth if that is more.
    resources = graph.resources
    recorded = list(graph.threads.values())
    full = {int(t) for waits in recorded for t in np.unique(waits.track[waits.kind == QUEUE])}
    long = np.concatenate([waits.slice[waits.kind == QUEUE] for waits in recorded]) if recorded else _NONE
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
    if not parts:
        return Edges(*[_NONE] * 5)
    return Edges(*(np.concatenate(column) for column in zip(*parts, strict=True)))


QUEUE_SIZE: Final = 1024
"""Launches that a stream's queue holds by default, as with NVIDIA's driver."""


def _greatest_depth(graph: Dependences, stream: StreamWork) -> int:
    """Return the greatest number of launches that a stream held."""
    call = stream.call[stream.order]
    returned = np.where(call >= 0, graph.resources.end[call], FAR)
    ahead = np.arange(len(call)) - np.searchsorted(np.sort(stream.start), returned, side="right")
    return int(ahead.max(initial=0)) + 1
