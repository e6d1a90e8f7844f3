"""What each thread and stream of a recording waited for, and which thread woke another. Pure numpy."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray
from ..scope import bounds
from ..time.account import ACCOUNT
from ..time.host_states import waits_by_name
from ..time.phases import stepping_track
from .resources import FAR, WAITS, Resources, StreamWork, stacked, sync_table
from .streams import Latencies, bind, graph_events, inferred_events, recorded_events, stream_work, usual_call
from .waits import Waits, blocking_copies, by_thread, device_waits, full_queues, loader_waits

_ACTIVE: Final = ("operator", "launch", "sync", "memcpy", "memset", "collective", "io", "kernel")
_PASSIVE: Final = re.compile(
    r"run_backward|\.backward\(|\bwait\b|\bjoin\b|acquire|\bget\b|\bresult\b|select|poll|synchronize|autograd::engine::.*execute"
)
"""Python frames in which a thread may wait for another."""


class _Bursts(NamedTuple):
    """Stretches in which a thread is busy, and whether each ends with communication."""

    begin: IntArray
    end: IntArray
    shared: BoolArray


class _Rests(NamedTuple):
    """Stretches in which threads were not busy, and whether no slice owned the thread at their end."""

    track: IntArray
    begin: IntArray
    end: IntArray
    begun: BoolArray


def wakeups(resources: Resources, main: int, cuts: IntArray) -> list[Waits]:
    """Find where a thread rested while another of its process was busy, and what started each burst."""
    # `main` is the main thread, which no other thread starts. `cuts` are the bounds of steps; rests are split
    # there. A thread is *busy* in operators, runtime calls, and Python frames whose names do not say that
    # they wait. A stretch of busy time is a *burst*, the time between two bursts a *rest*. If a rest contains
    # another thread's last burst from start to end, and that thread's bursts cover at least half of the rest,
    # the rest was a wait for the end of that burst. A burst that ends with communication may have begun
    # before the rest. If nothing owns a thread (other than the main one) just before its burst, the burst was
    # started by the thread that was busy then, or was busy last.
    if len(resources.threads) < 2:
        return []
    busy_slice, communicates = _busy(resources), resources.category("collective")
    bursts: dict[int, _Bursts] = {}
    rests: dict[int, _Rests] = {}
    for track in resources.threads:
        cut = resources.segments(track)
        until = cut.until()
        busy = (cut.owner >= 0) & busy_slice[cut.owner]
        begin, end = _runs(cut.at, until, busy)
        last = cut.owner[np.searchsorted(cut.at, end, side="left") - 1]
        bursts[track] = _Bursts(begin, end, communicates[last])
        begin, end = _cut(*_runs(cut.at, until, ~busy), cuts)
        begin, end = begin[end < FAR], end[end < FAR]  # the gap after a thread's last slice ends no wait
        begun = (cut.owner[np.searchsorted(cut.at, end, side="left") - 1] < 0) & (track != main)
        rests[track] = _Rests(np.full(len(end), track), begin, end, begun)
    return [
        _of_rests(
            stacked(_Rests, [rests[track] for track in tracks]), {one: bursts[one] for one in others}, main
        )
        for tracks, others in _processes(resources, [track for track in bursts if len(bursts[track].end)])
    ]


def _processes(resources: Resources, busy: list[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield each process's threads, and the busy threads they can wait for; unknown processes match any."""
    by_process: dict[int, list[int]] = {}
    for track in resources.threads:
        by_process.setdefault(max(resources.pid.get(track, -1), -1), []).append(track)
    is_busy = {*busy}
    busy_of = {pid: [track for track in tracks if track in is_busy] for pid, tracks in by_process.items()}
    for pid, tracks in by_process.items():
        others = busy if pid < 0 else busy_of[pid] + busy_of.get(-1, [])
        if others:
            yield tracks, others


def _busy(resources: Resources) -> BoolArray:
    """Return which slices keep their thread busy while they own it."""
    words = [str(word) for word in resources.trace.slices["name"].cat.categories]
    rests = [_PASSIVE.search(word) is not None or waits_by_name(word) for word in words]
    resting = resources.names(rests)
    active = resources.category(*_ACTIVE) & ~(resources.category("io") & resting)
    return active | (resources.category("python", "module") & ~resting)


def _runs(at: IntArray, until: IntArray, mask: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the begins and ends of runs of consecutive segments in `mask`."""
    change = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return at[change[0::2]], until[change[1::2] - 1]


def _cut(begin: IntArray, end: IntArray, cuts: IntArray) -> tuple[IntArray, IntArray]:
    """Split ascending, disjoint intervals at the instants inside them."""
    at = np.searchsorted(begin, cuts, side="left") - 1
    inner = cuts[(at >= 0) & (cuts < end[np.maximum(at, 0)])] if len(begin) else cuts[:0]
    return np.sort(np.concatenate([begin, inner])), np.sort(np.concatenate([end, inner]))


def _of_rests(rests: _Rests, bursts: Mapping[int, _Bursts], main: int) -> Waits:
    """Return the waits of a process's threads for bursts of other threads."""
    best, second, source = (np.full(len(rests.end), value) for value in (-FAR, -FAR, -1))
    for track, own in sorted(bursts.items()):  # of each thread, the last burst in a rest can be the cause
        at = np.searchsorted(own.end, rests.end, side="right") - 1
        ends = np.append(own.end, -FAR)[at]
        rows = np.flatnonzero((at >= 0) & (rests.track != track) & (ends > rests.begin))
        at, done, begin, end = at[rows], ends[rows], rests.begin[rows], rests.end[rows]
        whole = own.begin[at] >= begin
        first = np.minimum(np.searchsorted(own.begin, begin), len(own.begin) - 1)
        opened = np.where(whole, own.begin[first], begin)
        # no thread waits for a helper that only ticks now and then
        fits = (whole | own.shared[at]) & (2 * (done - opened) >= end - np.maximum(begin, 2 * opened - end))
        rows, done = rows[fits], done[fits]
        later = done > best[rows]
        second[rows] = np.where(later, best[rows], np.maximum(second[rows], done))
        source[rows[later]], best[rows[later]] = track, done[later]
    rows = np.flatnonzero(rests.begun & (source < 0))
    for column, values in zip((best, second, source), _starters(rests, rows, bursts, main), strict=True):
        column[rows] = values
    hit = np.flatnonzero(best > rests.begin)
    none, kind = np.full(len(hit), -1), np.full(len(hit), WAITS.index("hand-over"))
    begin, best = rests.begin[hit], best[hit]
    margin = np.minimum(best - np.where(second[hit] > begin, second[hit], -FAR), best - begin)
    return Waits(rests.track[hit], begin, best, rests.end[hit], source[hit], none, none, kind, margin)


def _starters(
    rests: _Rests, rows: IntArray, bursts: Mapping[int, _Bursts], main: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Find which thread started the burst after each rest: one busy then, else the last to be busy."""
    # If several are busy, choose the main thread, else the one that stays busy longest.
    track = np.repeat([*bursts], [len(own.end) for own in bursts.values()])
    begin, finish = (np.concatenate([own[side] for own in bursts.values()]) for side in (0, 1))
    order = np.lexsort((-track, finish))
    track, begin, finish = track[order], begin[order], finish[order]
    end = rests.end[rows]
    by_begin = np.argsort(begin, kind="stable")
    begun = np.searchsorted(begin[by_begin], end, side="left")
    ended = np.searchsorted(finish, end, side="left")
    busy = begun - ended
    ends = finish[by_begin]
    longest = np.maximum.accumulate(np.where(ends == np.maximum.accumulate(ends), np.arange(len(ends)), 0))
    source = np.where(busy > 0, track[by_begin[longest[np.maximum(begun - 1, 0)]]], -1)
    own = np.flatnonzero(track == main)
    if len(own):
        last = own[np.maximum(np.searchsorted(begin[own], end, side="left") - 1, 0)]
        source[(begin[last] < end) & (finish[last] >= end)] = main
    latest_end = np.maximum(ended - 1, 0)
    another = np.concatenate([[0], np.flatnonzero(np.diff(track)) + 1])
    other = another[np.searchsorted(another, latest_end, side="right") - 1] - 1
    source = np.where((source < 0) & (ended > 0), track[latest_end], source)
    further = np.where(track[latest_end] == source, other, latest_end)
    second = np.where((ended > 0) & (further >= 0), finish[further], -FAR)
    best = np.where(busy > 0, end, np.where(ended > 0, finish[latest_end], -FAR))
    return best, np.where(busy > 1, end, second), source


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
    # The thread that runs the steps, by rank, if the Trace has several ranks.
    mains: Mapping[int, int] = field(default_factory=dict)
    between: RankEdges | None = None
    # Cache of the most recent paths, by question.
    walked: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def main_of(self, track: int) -> int:
        """Return the thread that runs the steps of the rank to which a track belongs."""
        return self.mains.get(self.resources.rank.get(track, -1), self.main)

    @property
    def loader_workers(self) -> frozenset[int]:
        """Tracks of the workers that make batches for a main thread's DataLoader."""
        every = stacked(Waits, list(self.threads.values()))
        workers = np.unique(every.track[every.kind == WAITS.index("loader")]).tolist()
        return frozenset(workers) - {self.main, *self.mains.values()}


def dependences(trace: Trace, *, latency: int | None = None, spacing: int | None = None) -> Dependences:
    """Find the cause of each start of device work and each wait of a thread; valid while the Trace exists."""
    # `latency` and `spacing` (ns) are the least times that work needs after its launch and after the previous
    # work; they default to the recording's 5 % quantiles, at most 20 µs.
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
    if table is not None:
        recorded_events(resources, streams, table)
    else:
        inferred_events(resources, streams)
    latencies = bind(resources, streams, usual, latency, spacing)
    main = _main_thread(trace, resources)
    waits: list[Waits] = [device_waits(resources, streams, table)]
    for stream in streams.values():
        waits += [blocking_copies(resources, stream), full_queues(resources, stream, usual)]
    waits += loader_waits(resources) + wakeups(
        resources, main, np.unique(np.concatenate(bounds(trace.steps)))
    )
    threads = by_thread(waits, resources.threads)
    return Dependences(resources, threads, streams, position, main, latencies, table is not None)


def _main_thread(trace: Trace, resources: Resources) -> int:
    """Return the thread whose slices match the most steps, the one that runs them, or the busiest one."""
    steps, threads = trace.steps, resources.threads
    begin, until = bounds(steps)
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
