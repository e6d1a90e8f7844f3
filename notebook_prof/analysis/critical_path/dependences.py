"""What each thread and stream of a recording depended on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...trace import Trace
from ...trace.arrays import IntArray
from ..time.account import ACCOUNT
from ..time.phases import stepping_track
from .handovers import hand_overs
from .resources import NOTHING, WAITS, Resources, StreamWork, sync_table
from .segments import Segments
from .streams import Latencies, bind, graph_events, inferred_events, recorded_events, stream_work, usual_call
from .waits import Waits, blocking_copies, by_thread, device_waits, full_queues, loader_waits


class RankEdges(NamedTuple):
    """What collectives of several ranks in one Trace wait for; columns of int64.

    Attributes
    ----------
    transfer, arrival : ndarray of int64
        Rows of device work: no transfer begins before these arrivals of other ranks are done.
    call : ndarray of int64
        Rows of collectives of threads, which go on when ...
    thread, at : ndarray of int64
        ... these threads of other ranks have come to these instants.
    unmet : Waits
        Collectives of threads that waited for nobody, but might if other ranks came later.
    """

    transfer: IntArray
    arrival: IntArray
    call: IntArray
    thread: IntArray
    at: IntArray
    unmet: Waits


@dataclass(frozen=True, slots=True)
class Dependences:
    """Who waits for whom in one recording.

    Attributes
    ----------
    resources : Resources
        Its slices.
    threads : dict of int to Waits
        By `done`.
    streams : dict of int to StreamWork
    position : ndarray of int64, shape (slices,)
        Place of each slice among the work of its stream; -1 for others.
    main : int
        Track of the thread to which steps belong; -1 without threads.
    latencies : Latencies
    scopes_recorded : bool
        Whether the file tells which stream each call waited for.
    events_recorded, events_inferred : int
        Waits of streams for events that the file tells, or that times suggest.
    mains : mapping of int to int
        The thread to which steps belong, by rank, where there are several in the Trace.
    between : RankEdges, optional
        What these ranks wait for in collectives.
    walked : dict
        The paths that were asked for last, by what was asked.
    """

    resources: Resources
    threads: dict[int, Waits]
    streams: dict[int, StreamWork]
    position: IntArray
    main: int
    latencies: Latencies
    scopes_recorded: bool
    events_recorded: int
    events_inferred: int
    mains: Mapping[int, int] = field(default_factory=dict)
    between: RankEdges | None = None
    walked: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def main_of(self, track: int) -> int:
        """Return the thread to which the steps of a track's rank belong."""
        return self.mains.get(self.resources.rank.get(track, -1), self.main)

    def segments(self, track: int) -> Segments:
        """Return who owns the instants of a track."""
        return self.resources.segments(track)

    def waits(self, kind: int) -> int:
        """Return how many waits of a kind there are."""
        return sum(int((waits.kind == kind).sum()) for waits in self.threads.values())

    @property
    def loader_workers(self) -> frozenset[int]:
        """Tracks that make batches for a DataLoader of a main thread."""
        loader = WAITS.index("loader")
        of = (waits.track[waits.kind == loader] for waits in self.threads.values())
        return frozenset(int(track) for tracks in of for track in np.unique(tracks)) - {
            self.main,
            *self.mains.values(),
        }

    def without_launch(self) -> int:
        """Return how much device work has neither a launch nor anything else on record that bound it."""
        return sum(int((stream.bound == NOTHING).sum()) for stream in self.streams.values())


def dependences(trace: Trace, *, latency: int | None = None, spacing: int | None = None) -> Dependences:
    """Find what bound each start of device work, and what each wait of a thread was for.

    Parameters
    ----------
    trace : Trace
    latency, spacing : int, optional
        ns that a launch, and the work before, need at least before work can begin. By default the recording's
        own: the 5 % quantiles of what it shows, at most 20 µs.

    Returns
    -------
    Dependences
        Of use while the Trace lives.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [sync     ]
    ... stream 7:    [gemm    ]
    ... ''', launches=[("mm", "gemm")], categories={"sync": "sync"})
    >>> waits = dependences(trace).threads[0]
    >>> waits.begin.tolist(), waits.done.tolist(), waits.end.tolist()
    ([6], [13], [17])
    """
    if latency is not None or spacing is not None:
        return _dependences(trace, latency, spacing)
    graph = _latest.get(trace)
    if graph is None:
        graph = _dependences(trace, None, None)
        _latest.clear()
        _latest[trace] = graph
    return graph


_latest: Final = WeakKeyDictionary[Trace, Dependences]()
"""Those of the Trace that was asked about last: of a million slices they take 0.2 s and 70 MB."""


def _dependences(trace: Trace, latency: int | None, spacing: int | None) -> Dependences:
    resources = Resources(trace)
    usual = usual_call(resources)
    position = np.full(len(resources.ts), -1, np.int64)
    streams = {}
    for track, rows in resources.streams.items():
        streams[track] = stream_work(resources, rows, usual)
        position[rows] = np.arange(len(rows))
    graph_events(resources, streams)
    table = sync_table(trace)
    recorded = inferred = 0
    if table is not None:
        recorded = recorded_events(resources, streams, table)
    else:
        inferred = inferred_events(resources, streams)
    latencies = bind(resources, streams, usual, latency, spacing)
    main = _main_thread(trace, resources)
    waits: list[Waits] = [device_waits(resources, streams, table)]
    for stream in streams.values():
        waits += [blocking_copies(resources, stream), full_queues(resources, stream, usual)]
    waits += loader_waits(resources)
    steps = trace.steps
    cuts = np.unique(np.concatenate([steps["ts"], steps["ts"] + steps["dur"]])).astype(np.int64)
    waits += hand_overs(resources, main, cuts)
    threads = by_thread(waits, list(resources.threads))
    return Dependences(
        resources, threads, streams, position, main, latencies, table is not None, recorded, inferred
    )


def _main_thread(trace: Trace, resources: Resources) -> int:
    """Return the thread with slices of just the length of most steps, else the one that runs the steps.

    Without steps and without a cell, it is the thread whose slices are longest.
    """
    steps, threads = trace.steps, resources.threads
    begin, until = steps["ts"].to_numpy(), (steps["ts"] + steps["dur"]).to_numpy()
    marks = {
        track: int((np.isin(resources.ts[rows], begin) & np.isin(resources.end[rows], until)).sum())
        for track, rows in threads.items()
    }
    stepping = stepping_track(trace)
    most = max(marks.values(), default=0)
    if most and marks.get(stepping, 0) < most:
        return max(marks, key=lambda track: marks[track])
    if stepping in threads and (len(steps) or ACCOUNT in (trace.metadata.get("tables") or {})):
        return stepping
    length = resources.end - resources.ts
    return max(threads, key=lambda track: int(length[threads[track]].sum()), default=-1)
