"""Where one thread woke another: autograd's engine, worker threads, joins. Pure numpy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from ...trace.arrays import BoolArray, IntArray
from ..time.host_states import waits_by_name
from .resources import WAITS, Resources
from .segments import FAR, Segments
from .waits import Waits

_ACTIVE: Final = (
    "operator",
    "launch",
    "sync",
    "memcpy",
    "memset",
    "collective",
    "io",
    "kernel",
)
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
    """Join the rests of all threads, except those after a thread's last slice, which end no wait."""
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
