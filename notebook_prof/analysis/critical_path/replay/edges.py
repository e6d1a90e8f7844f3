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
    """All device work, stream after stream, each by start; columns of int64.

    Attributes
    ----------
    rows, start, end : ndarray of int64
    before : ndarray of int64
        Place of the work of the stream that ended last before; -1 without any.
    call, launched, bound : ndarray of int64
        As in `StreamWork`.
    thread : ndarray of int64
        Number of the thread that launched it; the main one where nothing on record bound it; -1 else.
    """

    rows: IntArray
    start: IntArray
    end: IntArray
    before: IntArray
    call: IntArray
    launched: IntArray
    bound: IntArray
    thread: IntArray


class ThreadWaits(NamedTuple):
    """All waits of threads, also those in which there was nothing to wait for; by thread, then end.

    Attributes
    ----------
    thread : ndarray of int64
        Number of the thread.
    begin, end : ndarray of int64
    kind : ndarray of int64
        Place in `WAITS`.
    slice : ndarray of int64
        Row of the call; -1 without one.
    waited : ndarray of int64
        1 where something ended inside that it waited for.
    added : ndarray of int64
        1 where nobody waited, but a launch queue could be full.
    owner : ndarray of int64
        Row of the call or, without one, of the slice that owns the begin; -1 for nobody.
    """

    thread: IntArray
    begin: IntArray
    end: IntArray
    kind: IntArray
    slice: IntArray
    waited: IntArray
    added: IntArray
    owner: IntArray


class Edges(NamedTuple):
    """What has to be done before a wait ends, or work begins; columns of int64.

    Attributes
    ----------
    target, source : ndarray of int64
        Numbers of waits, threads or work, as the name of the edges says.
    at : ndarray of int64
        Instant of the source in the recording.
    lag : ndarray of int64
        From there to the target, in the recording.
    binds : ndarray of int64
        1 where the target was as late as this, and not something else, allowed.
    """

    target: IntArray
    source: IntArray
    at: IntArray
    lag: IntArray
    binds: IntArray


def launch_queues(graph: Dependences) -> Edges:
    """Pair each launch with the work that has to begin first, so that the queue of its stream has room.

    Parameters
    ----------
    graph : Dependences

    Returns
    -------
    Edges
        `target` is the row of the call, `source` the number of the work. They bind where a call on a
        stream whose queue was full returned just when the work began.

    Notes
    -----
    A stream holds as many launches as were seen where calls were held up, on it or on another stream; else
    `QUEUE_SIZE`, or what was seen.
    """
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
            keep[:-1] &= target[1:] != target[:-1]  # of a graph launch, the last node
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
"""Launches that a stream holds where no recording tells: that of NVIDIA's."""


def _greatest_depth(graph: Dependences, stream: StreamWork) -> int:
    """Return how many launches a stream held at most."""
    call = stream.call[stream.order]
    returned = np.where(call >= 0, graph.resources.end[call], FAR)
    ahead = np.arange(len(call)) - np.searchsorted(np.sort(stream.start), returned, side="right")
    return int(ahead.max(initial=0)) + 1
