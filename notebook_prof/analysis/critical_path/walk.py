"""Walks back from the end of a window and assigns each instant to one cause."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from ...errors import SelectionError, nearest
from ...trace import Trace
from ...trace.arrays import IntArray
from ..scope import matching_codes
from .dependences import Dependences
from .resources import EVENT, EVENTS, FAR, NOTHING, WAITS, StreamWork

RUNS: Final = ("host", "wait-wakeup", "work", "launch-latency", "event-latency")
"""Kinds of runs: thread time, wake-up after a wait, stream work, launch latency, event latency."""
HOST, WAKE, WORK, LAUNCH_LATENCY, EVENT_LATENCY = range(len(RUNS))

HOPS: Final = (*WAITS, "launch", *EVENTS[1:], "unrecorded")
"""Kinds of hops: waits of threads, then causes of device work."""

STUCK: Final = 8
"""After this many hops that take no time, follow only waits that ended strictly earlier."""


class PathRuns(NamedTuple):
    """Runs of the path, last first; columns of int64."""

    track: IntArray
    start: IntArray
    end: IntArray
    # Index into `RUNS`.
    kind: IntArray
    # For latencies, the delayed slice; for work and wake-ups, the last work and the waiting call; else -1.
    row: IntArray


class Hops(NamedTuple):
    """Changes of thread or stream, last first; columns of int64."""

    # ns; where the path reaches the cause.
    when: IntArray
    # The track, and the call or device work, that waited; the slice is -1 if there is none.
    track: IntArray
    slice: IntArray
    # The track and the device work that it waited for; the latter is -1 if it waited for a thread.
    cause_track: IntArray
    cause: IntArray
    # Index into `HOPS`.
    kind: IntArray
    # ns by which this cause was later than the next candidate; `FAR` if there is no other.
    margin: IntArray


class Path(NamedTuple):
    """The critical path of ``[begin, end)``."""

    begin: int
    end: int
    runs: PathRuns
    hops: Hops


@dataclass(slots=True)
class _Walker:
    """The position of a walk, and the time it has charged."""

    begin: int
    track: int
    row: int
    t: int
    still: int = 0
    runs: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    hops: list[tuple[int, int, int, int, int, int, int]] = field(default_factory=list)

    def charge(self, start: int, kind: int, row: int = -1) -> None:
        start = max(start, self.begin)
        if start < self.t:
            self.runs.append((self.track, start, self.t, kind, row))
            self.t, self.still = start, 0

    def go(self, track: int, row: int, slice_: int, kind: int, margin: int) -> None:
        self.hops.append((self.t, self.track, slice_, track, row, kind, margin))
        self.track, self.row = track, row


def walk(graph: Dependences, begin: int, end: int, track: int | None = None, row: int = -1) -> Path:
    """Follow what each instant of a window (ns) waited for, back from its end; the runs partition it."""
    # The walk starts on `track`, by default the main thread; on a stream, at `row`, its last device work.
    walker = _Walker(begin, graph.main if track is None else track, row, end)
    while walker.t > begin:
        walker.still += 1
        if walker.track in graph.streams:
            _leave_stream(graph, walker)
            continue
        waits = graph.threads.get(walker.track)
        k = -1
        if waits is not None:
            side = "right" if walker.still < STUCK else "left"
            k = int(np.searchsorted(waits.done, walker.t, side=side)) - 1  # type: ignore[call-overload]
        if k < 0 or waits is None:
            walker.charge(begin, HOST)
            break
        walker.charge(min(int(waits.end[k]), walker.t), HOST)
        call, kind = int(waits.slice[k]), int(waits.kind[k])
        walker.charge(int(waits.done[k]), WAKE, call)
        if walker.t > begin:
            walker.go(int(waits.track[k]), int(waits.row[k]), call, kind, int(waits.margin[k]))
    shape = np.array(walker.runs, np.int64).reshape(-1, len(PathRuns._fields)).T
    hops = np.array(walker.hops, np.int64).reshape(-1, len(Hops._fields)).T
    return Path(begin, end, PathRuns(*shape), Hops(*hops))


def _leave_stream(graph: Dependences, walker: _Walker) -> None:
    """Charge the work that only waited for its stream, and continue at the cause of the first of it."""
    stream: StreamWork = graph.streams[walker.track]
    root = int(stream.root[graph.position[walker.row]])
    first = int(stream.rows[root])
    walker.charge(int(stream.start[root]), WORK, walker.row)
    track, cause, kind, margin = graph.main_of(walker.track), -1, "unrecorded", FAR
    if stream.bound[root] != NOTHING:
        cause, since, latency, kind = stream.call[root], stream.launched[root], LAUNCH_LATENCY, "launch"
        if stream.bound[root] == EVENT:
            cause, kind = stream.event[root], EVENTS[int(stream.event_kind[root])]
            since, latency = graph.resources.end[cause], EVENT_LATENCY
        track, margin = int(graph.resources.track[cause]), int(stream.margin[root])
        walker.charge(int(since), latency, first)
    if walker.t > walker.begin:
        walker.go(track, int(cause), first, HOPS.index(kind), margin)


def cut_at_owners(graph: Dependences, runs: PathRuns) -> tuple[PathRuns, IntArray]:
    """Cut runs where the owner changes; return the pieces, and the run of each."""
    # The pieces partition their runs: they are in the order of the runs, and by start within each. `row` is
    # the charged slice, -1 if there is none; for a latency, the delayed slice.
    whole = (runs.kind == LAUNCH_LATENCY) | (runs.kind == EVENT_LATENCY)
    tracks = [(track, np.flatnonzero((runs.track == track) & ~whole)) for track in np.unique(runs.track)]
    first, count = np.zeros(len(runs.start), np.int64), np.ones(len(runs.start), np.int64)
    for track, cut in tracks:
        at = graph.resources.segments(int(track)).at
        first[cut] = np.searchsorted(at, runs.start[cut], side="right") - 1
        count[cut] = np.searchsorted(at, runs.end[cut], side="left") - first[cut]
    until = np.cumsum(count)
    begins = until - count
    total = int(count.sum())
    start, row = np.empty(total, np.int64), np.empty(total, np.int64)
    for track, cut in tracks:
        at, owner = graph.resources.segments(int(track))
        own = np.cumsum(count[cut]) - count[cut]
        piece = np.arange(int(count[cut].sum())) + np.repeat(begins[cut] - own, count[cut])
        segment = piece + np.repeat(first[cut] - begins[cut], count[cut])
        start[piece], row[piece] = at[segment], owner[segment]
    row[begins[whole]] = runs.row[whole]
    start[begins] = runs.start
    end = np.append(start[1:], 0)[:total]
    end[until - 1] = runs.end
    track, kind = np.repeat(runs.track, count), np.repeat(runs.kind, count)
    return PathRuns(track, start, end, kind, row), np.repeat(np.arange(len(count)), count)


IN_WORDS: Final = {
    "kernel": "kernels",
    "copy": "copies",
    "communication": "communication",
    "launch-latency": "launches under way",
    "event-latency": "waits for events",
    "device-gap": "gaps of the device",
    "launch-call": "launch calls",
    "host-operator": "operators of the host",
    "python": "between operators",
    "data": "data",
    "overhead": "the profiler",
    "wait-wakeup": "waking up from waits",
    "sync": "waits",
    "idle": "nothing recorded",
}
"""Each of `CLASSES` in words."""

CLASSES: Final = tuple(IN_WORDS)
"""Classes of time on a critical path; see `critical_path`."""

ON_STREAM: Final = {"kernel": "kernel", "memcpy": "copy", "memset": "copy", "collective": "communication"}
ON_THREAD: Final = {
    "operator": "host-operator",
    "kernel": "host-operator",
    "launch": "launch-call",
    "memcpy": "copy",
    "memset": "copy",
    "collective": "communication",
    "python": "python",
    "annotation": "python",
    "module": "python",
    "io": "data",
    "sync": "sync",
    "overhead": "overhead",
}
"""Classes of slices, by category: on streams (above) and on threads."""


def class_codes(graph: Dependences, pieces: PathRuns) -> IntArray:
    """Return the index into `CLASSES` of each piece."""
    slices = graph.resources.trace.slices
    words = slices["category"].cat.categories
    nobody = {"thread": CLASSES.index("idle"), "stream": CLASSES.index("device-gap")}
    thread = np.array([*(CLASSES.index(ON_THREAD[w]) for w in words), nobody["thread"]], np.int64)
    on_stream = [CLASSES.index(ON_STREAM.get(w, "kernel")) for w in words]
    stream = np.array([*on_stream, nobody["stream"]], np.int64)
    category = np.append(slices["category"].cat.codes.to_numpy(), -1)[pieces.row]
    device = np.isin(pieces.track, list(graph.streams))
    code: IntArray = np.where(device, stream[category], thread[category])
    phase = np.append(slices["phase"].cat.codes.to_numpy(), -1)[pieces.row]
    data = matching_codes(phase, slices["phase"].cat.categories == "data")
    loading = np.isin(pieces.track, sorted(graph.loader_workers))
    code[(data | loading) & ~device] = CLASSES.index("data")
    if len(full := graph.resources.full_buffers()):
        code[np.isin(pieces.row, full) & ~device] = CLASSES.index("launch-call")
    for name in ("wait-wakeup", "launch-latency", "event-latency"):
        code[pieces.kind == RUNS.index(name)] = CLASSES.index(name)
    return code


def resource_names(trace: Trace) -> tuple[IntArray, list[str]]:
    """Return the keys of all tracks, ascending, and a distinct name for each."""
    tracks = trace.tracks.sort_values("track", kind="stable")
    names = tracks["name"].astype(str)
    again = names.duplicated(keep=False).to_numpy()
    labels = [
        f"{name} (track {key})" if twice or not name else name
        for name, key, twice in zip(names, tracks["track"], again, strict=True)
    ]
    return tracks["track"].to_numpy(np.int64), labels


Kind: TypeAlias = Literal["idle", "wait", "work"]
"""What a thread or stream does at an instant."""


class Stretch(NamedTuple):
    """The stretch ``[begin, end)`` (ns) of a thread or stream to explain, and where the walk back starts."""

    kind: Kind
    begin: int
    end: int
    track: int
    # Row of the waiting call, of the work that begins at `end`, or of the running slice; -1 if there is none.
    row: int
    # Where the walk back starts: a track and a row of device work, -1 on threads.
    from_track: int
    from_row: int


def of_slice(graph: Dependences, row: int) -> Stretch:
    """Return the stretch that explains a slice; SelectionError for an unknown row."""
    resources = graph.resources
    if not 0 <= row < len(resources.ts):
        raise SelectionError(f"there is no slice {row}: the trace has {len(resources.ts)}")
    key = int(resources.track[row])
    if key in graph.streams and (at := int(graph.position[row])) >= 0:
        return _of_work(graph, key, at)
    waits = graph.threads.get(key)
    if waits is not None and len(own := np.flatnonzero(waits.slice == row)):
        begin, end = int(waits.begin[own].min()), int(waits.end[own].max())
        return Stretch("wait", begin, end, key, row, key, -1)
    return _running(graph, row)


def of_instant(graph: Dependences, ts: int, track: int | str | None) -> Stretch:
    """Return the stretch of a track at an instant. SelectionError if the instant is outside the trace."""
    key, until = _key(graph, track), graph.resources.trace.span.end
    if not 0 <= ts < until:
        raise SelectionError(f"nothing was recorded at {ts} ns: the trace lasts from 0 to {until} ns")
    return _of_stream(graph, ts, key) if key in graph.streams else _of_thread(graph, ts, key)


def _key(graph: Dependences, track: int | str | None) -> int:
    if track is None:
        if graph.main < 0:
            raise SelectionError("no thread was recorded: name a stream with track=")
        return graph.main
    keys, labels = resource_names(graph.resources.trace)
    names = dict(zip(labels, keys.tolist(), strict=True))
    if isinstance(track, str):
        if track not in names:
            raise SelectionError(f"there is no track {track!r}: {nearest(track, labels)}")
        track = int(names[track])
    working = {*graph.streams, *graph.resources.threads}
    if track not in working:
        have = [f"{key} ({label})" for label, key in names.items() if key in working]
        raise SelectionError(
            f"track {track} is not a thread or stream with slices: those are {', '.join(have)}"
        )
    return int(track)


def _of_stream(graph: Dependences, ts: int, track: int) -> Stretch:
    """Return the idle stretch at an instant or, if work is running then, what delayed that work."""
    stream = graph.streams[track]
    begun = int(np.searchsorted(stream.start, ts, side="right"))
    running = np.flatnonzero(stream.end[:begun] > ts)
    if len(running):
        return _of_work(graph, track, int(running[-1]))
    begin = int(stream.end[:begun].max(initial=0))
    if begun == len(stream.start):
        return Stretch("idle", begin, graph.resources.trace.span.end, track, -1, graph.main, -1)
    row = int(stream.rows[begun])
    return Stretch("idle", begin, int(stream.start[begun]), track, row, track, row)


def _of_work(graph: Dependences, track: int, at: int) -> Stretch:
    """Return the stretch that delayed work number `at` of a stream, up to its start."""
    stream = graph.streams[track]
    before, start = int(stream.before[at]), int(stream.start[at])
    begin = int(stream.end[before]) if before >= 0 else 0
    if stream.call[at] >= 0:
        begin = min(begin, int(graph.resources.ts[stream.call[at]]))
    row = int(stream.rows[at])
    return Stretch("work", min(begin, start), start, track, row, track, row)


def _of_thread(graph: Dependences, ts: int, track: int) -> Stretch:
    """Return the wait or idle stretch around an instant, or else the innermost open slice."""
    waits = graph.threads.get(track)
    if waits is not None:
        around = np.flatnonzero((waits.begin <= ts) & (ts < waits.end))
        if len(around):
            k = around[np.argmax(waits.begin[around])]
            begin, end = int(waits.begin[k]), int(waits.end[k])
            return Stretch("wait", begin, end, track, int(waits.slice[k]), track, -1)
    starts, owner = graph.resources.segments(track)
    at = int(np.searchsorted(starts, ts, side="right")) - 1
    if owner[at] >= 0:
        return _running(graph, int(owner[at]))
    is_last = at + 1 == len(starts)
    end = graph.resources.trace.span.end if is_last else int(starts[at + 1])
    after = -1 if is_last else int(owner[at + 1])
    return Stretch("idle", max(int(starts[at]), 0), end, track, after, track, -1)


def _running(graph: Dependences, row: int) -> Stretch:
    """Return the stretch of a thread's slice."""
    resources = graph.resources
    track, begin, end = (int(column[row]) for column in (resources.track, resources.ts, resources.end))
    return Stretch("work", begin, end, track, row, track, -1)
