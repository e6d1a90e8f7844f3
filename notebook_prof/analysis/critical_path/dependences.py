"""What each thread and stream of a recording waited for."""

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
from .handovers import wakeups
from .resources import WAITS, Resources, StreamWork, sync_table
from .segments import Segments
from .streams import Latencies, bind, graph_events, inferred_events, recorded_events, stream_work, usual_call
from .waits import Waits, blocking_copies, by_thread, device_waits, full_queues, loader_waits


class RankEdges(NamedTuple):
    """Waits of collectives for other ranks, if one Trace has several ranks; columns of int64."""

    # Rows of device work: a transfer, and an arrival on another rank that must come before it.
    transfer: IntArray
    arrival: IntArray
    # Rows of collectives on threads; each resumes when thread `thread` of another rank reaches `at`.
    call: IntArray
    thread: IntArray
    at: IntArray
    # Collectives on threads that did not wait, but would if other ranks came later.
    unmet: Waits


@dataclass(frozen=True, slots=True)
class Dependences:
    """The dependences in one recording."""

    resources: Resources
    # Sorted by `done`.
    threads: dict[int, Waits]
    streams: dict[int, StreamWork]
    # Index of each slice in the work of its stream; -1 for other slices.
    position: IntArray
    # Track of the thread that runs the steps; -1 without threads.
    main: int
    latencies: Latencies
    # Whether the file records the stream that each call waited for.
    scopes_recorded: bool
    # Waits of streams for events: recorded, or inferred from times.
    events_recorded: int
    events_inferred: int
    # The thread that runs the steps, by rank, if the Trace has several ranks.
    mains: Mapping[int, int] = field(default_factory=dict)
    between: RankEdges | None = None
    # Cache of the most recent paths, by question.
    walked: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def main_of(self, track: int) -> int:
        """Return the thread that runs the steps of the rank to which a track belongs."""
        return self.mains.get(self.resources.rank.get(track, -1), self.main)

    def segments(self, track: int) -> Segments:
        """Return which slice owns each instant of a track."""
        return self.resources.segments(track)

    def waits(self, kind: int) -> int:
        """Return the number of waits of a kind."""
        return sum(int((waits.kind == kind).sum()) for waits in self.threads.values())

    @property
    def loader_workers(self) -> frozenset[int]:
        """Tracks of the workers that make batches for a main thread's DataLoader."""
        loader = WAITS.index("loader")
        of = (waits.track[waits.kind == loader] for waits in self.threads.values())
        return frozenset(int(track) for tracks in of for track in np.unique(tracks)) - {
            self.main,
            *self.mains.values(),
        }


def dependences(trace: Trace, *, latency: int | None = None, spacing: int | None = None) -> Dependences:
    """Find the cause of each start of device work and of each wait of a thread; valid while the Trace exists.

    `latency` and `spacing` (ns) are the least times that work needs after its launch and after the previous
    work; they default to the recording's 5 % quantiles, at most 20 µs.
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
"""Dependences of the latest Trace; for a million slices they take 0.2 s and 70 MB."""


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
    waits += wakeups(resources, main, cuts)
    threads = by_thread(waits, list(resources.threads))
    return Dependences(
        resources, threads, streams, position, main, latencies, table is not None, recorded, inferred
    )


def _main_thread(trace: Trace, resources: Resources) -> int:
    """Return the thread whose slices match the most steps, else the one that runs the steps.

    Without either, return the thread with the longest slices.
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
