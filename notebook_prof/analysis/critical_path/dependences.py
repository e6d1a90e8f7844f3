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
from ..time.account import ACCOUNT
from ..time.host_states import waits_by_name
from ..time.phases import stepping_track
from .resources import FAR, WAITS, Resources, Segments, StreamWork, sync_table
from .streams import Latencies, bind, graph_events, inferred_events, recorded_events, stream_work, usual_call
from .waits import Waits, blocking_copies, by_thread, device_waits, full_queues, loader_waits

_ACTIVE: Final = ("operator", "launch", "sync", "memcpy", "memset", "collective", "io", "kernel")
_PASSIVE: Final = re.compile(
    r"run_backward|\.backward\(|\bwait\b|\bjoin\b|acquire|\bget\b|\bresult\b|select|poll|synchronize|autograd::engine::.*execute"
)
"""Python frames in which a thread may wait for another."""

_ROUNDS: Final = 64
"""Number of bursts to try, backwards from the end of each rest, vectorised over all rests."""


def wakeups(resources: Resources, main: int, cuts: IntArray) -> list[Waits]:
    """Find where a thread rested while another of its process was busy, and which thread started each burst.

    `main` is the main thread, which no other thread starts. `cuts` are the bounds of steps; rests are split
    there.
    """
    if len(resources.threads) < 2:
        return []
    busy_slice, communicates = _busy(resources), resources.category("collective")
    spans: dict[int, _Span] = {}
    rests: dict[int, tuple[IntArray, IntArray]] = {}
    for track in resources.threads:
        cut = resources.segments(track)
        until = cut.until()
        # A thread is *busy* in operators, runtime calls, and Python frames whose names do not say that they
        # wait. A stretch of busy time is a *burst*, the time between two bursts a *rest*. If a rest contains
        # another thread's last burst from begin to end, and that thread's bursts cover at least half of the
        # rest, the rest was a wait for the end of that burst. A burst that ends with communication may have
        # begun before the rest. If nothing owns a thread (other than the main one) just before its burst, the
        # burst was started by the thread that was busy then, or was busy last.
        busy = (cut.owner >= 0) & busy_slice[cut.owner]
        spans[track] = _bursts(cut, until, busy, communicates)
        rests[track] = _cut(*_runs(cut.at, until, ~busy), cuts)
    out = []
    for tracks, others in _processes(resources, [track for track in spans if len(spans[track][0])]):
        together = _together(resources, {track: rests[track] for track in tracks}, main)
        out.append(_of_rests(together, _Bursts({track: spans[track] for track in others}), main))
    return out


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


class _Rests(NamedTuple):
    """Stretches in which threads were not busy; arrays of shape (rests,)."""

    track: IntArray
    begin: IntArray
    end: IntArray
    # Whether no slice owned the thread at the end of the rest, so another thread may have started its burst.
    begun: BoolArray


def _together(resources: Resources, rests: dict[int, tuple[IntArray, IntArray]], main: int) -> _Rests:
    """Join the gaps of all threads. The gap after a thread's last slice ends no wait and is left out."""
    parts = []
    for track, (begin, end) in rests.items():
        bounded = end < FAR  # keeps the rest before a thread's first slice
        begin, end = begin[bounded], end[bounded]
        cut = resources.segments(track)
        begun = (cut.owner[np.searchsorted(cut.at, end - 1, side="right") - 1] < 0) & (track != main)
        parts.append((np.full(len(end), track), begin, end, begun))
    columns: Any = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Rests(*columns)


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


class _Span(NamedTuple):
    """Begins and ends of a thread's bursts, and whether each ends with communication."""

    begin: IntArray
    end: IntArray
    # Whether each burst ends with communication.
    shared: BoolArray


def _bursts(cut: Segments, until: IntArray, busy: BoolArray, communicates: BoolArray) -> _Span:
    begin, end = _runs(cut.at, until, busy)
    owner = cut.owner[np.searchsorted(cut.at, end - 1, side="right") - 1]
    return _Span(begin, end, communicates[owner])


class _Bursts:
    """Bursts of the threads of one process, by end; if ends are equal, lower tracks come last."""

    def __init__(self, spans: dict[int, _Span]) -> None:
        tracks = np.array(sorted(spans), np.int64)
        track = np.repeat(tracks, [len(spans[key][0]) for key in tracks.tolist()])
        begin, end = (np.concatenate([spans[key][i] for key in tracks.tolist()]) for i in (0, 1))
        following = np.where(np.append(track[1:] == track[:-1], False), np.append(end[1:], FAR), FAR)
        self._begins, self._instants = begin, np.sort(begin)
        self._tracks = tracks
        number = np.searchsorted(tracks, track)
        self._keys = number * (len(self._instants) + 1) + np.searchsorted(self._instants, begin)
        order = np.lexsort((-track, end))
        self.track, self.begin, self.end = track[order], begin[order], end[order]
        # End of the next burst of the same thread; `FAR` without one.
        self.following = following[order]
        self.shared = np.concatenate([spans[key].shared for key in tracks.tolist()])[order]

    def last_of_each(self, instants: IntArray) -> Iterator[IntArray]:
        """Yield, per thread, the index of its last burst to end by each instant; -1 if there is none."""
        by_track = np.argsort(self.track, kind="stable")
        for own in np.split(by_track, np.searchsorted(self.track[by_track], self._tracks)[1:]):
            last = np.searchsorted(self.end[own], instants, side="right") - 1
            yield np.where(last >= 0, own[last], -1)

    def first_since(self, track: IntArray, instants: IntArray) -> IntArray:
        """Return when the thread's first burst at or after each instant begins; there must be one."""
        number = np.searchsorted(self._tracks, track)
        keys = number * (len(self._instants) + 1) + np.searchsorted(self._instants, instants)
        return np.asarray(self._begins[np.searchsorted(self._keys, keys)], dtype=np.int64)


class _Latest(NamedTuple):
    """For each rest: the latest end that it could have waited for, the second latest, and whose end it is."""

    best: IntArray
    second: IntArray
    source: IntArray

    def take(self, rows: IntArray, done: IntArray, source: IntArray) -> None:
        """Update `rows` with bursts of threads `source` that ended at `done`; equal ends keep the first."""
        best = self.best[rows]
        later = done > best
        self.second[rows] = np.where(later, best, np.maximum(self.second[rows], done))
        self.best[rows] = np.where(later, done, best)
        self.source[rows[later]] = source[later]


def _of_rests(rests: _Rests, bursts: _Bursts, main: int) -> Waits:
    """Return the waits of a process's threads for bursts of other threads."""
    count = len(rests.end)
    latest = _Latest(np.full(count, -FAR), np.full(count, -FAR), np.full(count, -1))
    _join(rests, bursts, latest)
    _begin(rests, bursts, latest, np.flatnonzero(rests.begun & (latest.source < 0)), main)
    hit = np.flatnonzero(latest.source >= 0)
    none, kind = np.full(len(hit), -1), np.full(len(hit), WAITS.index("hand-over"))
    best, begin = latest.best[hit], rests.begin[hit]
    margin = np.minimum(best - latest.second[hit], best - begin)
    return Waits(rests.track[hit], begin, best, rests.end[hit], latest.source[hit], none, none, kind, margin)


def _join(rests: _Rests, bursts: _Bursts, latest: _Latest) -> None:
    """Find the burst of another thread that each rest waited for: the last one to end that `_fits`."""
    # bursts that cover half of a rest end in its second half; before a thread's first slice, only at its end
    since = np.where(rests.begin > -FAR, rests.begin // 2 + rests.end // 2, rests.end)
    rows = np.arange(len(rests.end))
    at = np.searchsorted(bursts.end, rests.end, side="right") - 1
    for _ in range(_ROUNDS):
        keep = at >= 0
        keep &= (bursts.end[at] >= since[rows]) & (bursts.end[at] > rests.begin[rows])
        keep &= latest.second[rows] == -FAR
        rows, at = rows[keep], at[keep]
        fits = _fits(rests, bursts, rows, at)
        latest.take(rows[fits], bursts.end[at[fits]], bursts.track[at[fits]])
        at = at - 1
    if len(rows):  # these rests contain many bursts: only each thread's last can be the cause
        latest.best[rows] = latest.second[rows] = -FAR
        latest.source[rows] = -1
        for last in bursts.last_of_each(rests.end[rows]):
            there = (last >= 0) & (bursts.end[last] > rests.begin[rows])
            fits = there.copy()
            fits[there] = _fits(rests, bursts, rows[there], last[there])
            latest.take(rows[fits], bursts.end[last[fits]], bursts.track[last[fits]])


def _fits(rests: _Rests, bursts: _Bursts, rows: IntArray, at: IntArray) -> BoolArray:
    """Return whether a burst is its thread's last in a rest and the thread was busy for half of the rest."""
    track, begin, end = bursts.track[at], rests.begin[rows], rests.end[rows]
    whole = bursts.begin[at] >= begin
    inside = (track != rests.track[rows]) & (whole | bursts.shared[at]) & (bursts.following[at] > end)
    opened = begin.copy()
    opened[inside & whole] = bursts.first_since(track[inside & whole], begin[inside & whole])
    # nobody waits for a helper that only ticks now and then
    inside &= 2 * (bursts.end[at] - opened) >= end - np.maximum(begin, 2 * opened - end)
    return np.asarray(inside, dtype=bool)


def _begin(rests: _Rests, bursts: _Bursts, latest: _Latest, rows: IntArray, main: int) -> None:
    """Find which thread started the burst after each rest: one busy then, else the last to be busy."""
    # If several are busy, choose the main thread, else the one that stays busy longest.
    end = rests.end[rows]
    by_begin = np.argsort(bursts.begin, kind="stable")
    begun = np.searchsorted(bursts.begin[by_begin], end, side="left")
    ended = np.searchsorted(bursts.end, end, side="left")
    busy = begun - ended
    ends = bursts.end[by_begin]
    longest = np.maximum.accumulate(np.where(ends == np.maximum.accumulate(ends), np.arange(len(ends)), 0))
    one = by_begin[longest[np.maximum(begun - 1, 0)]]
    source = np.where(busy > 0, bursts.track[one], -1)
    own = np.flatnonzero(bursts.track == main)
    if len(own):
        last = own[np.maximum(np.searchsorted(bursts.begin[own], end, side="left") - 1, 0)]
        source[(bursts.begin[last] < end) & (bursts.end[last] >= end)] = main
    latest_end = np.maximum(ended - 1, 0)
    another = np.concatenate([[0], np.flatnonzero(np.diff(bursts.track)) + 1])
    other = another[np.searchsorted(another, latest_end, side="right") - 1] - 1
    done = np.where(ended > 0, bursts.end[latest_end], -FAR)
    source = np.where(source < 0, np.where(ended > 0, bursts.track[latest_end], -1), source)
    further = np.where(bursts.track[latest_end] == source, other, latest_end)
    second = np.where((ended > 0) & (further >= 0), bursts.end[further], -FAR)
    second = np.where(busy > 1, end, second)
    best = np.where(busy > 0, end, done)
    fits = best > rests.begin[rows]
    hit = rows[fits]
    latest.best[hit], latest.source[hit] = best[fits], source[fits]
    latest.second[hit] = np.where(second[fits] > rests.begin[hit], second[fits], -FAR)


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
