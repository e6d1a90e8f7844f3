"""The walk backwards from the end of a window, which charges each instant to one cause; classes of causes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from ...trace import Trace
from ...trace.arrays import IntArray
from ..scope import matching_codes
from .dependences import Dependences
from .resources import EVENT, EVENTS, FAR, LAUNCH, NOTHING, WAITS, StreamWork

RUNS: Final = ("host", "wait-wakeup", "work", "launch-latency", "event-latency")
"""Kinds of runs: thread time, wake-up after a wait, stream work, launch latency, event latency."""

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
    host = RUNS.index("host")
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
            walker.charge(begin, host)
            break
        walker.charge(min(int(waits.end[k]), walker.t), host)
        call, kind = int(waits.slice[k]), int(waits.kind[k])
        walker.charge(int(waits.done[k]), RUNS.index("wait-wakeup"), call)
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
    walker.charge(int(stream.start[root]), RUNS.index("work"), walker.row)
    if walker.t <= walker.begin:
        return
    bound, margin = stream.bound[root], int(stream.margin[root])
    if bound == LAUNCH:
        call = int(stream.call[root])
        walker.charge(int(stream.launched[root]), RUNS.index("launch-latency"), first)
        _go_inside(walker, int(graph.resources.track[call]), call, first, "launch", margin)
    elif bound == EVENT:
        source = int(stream.event[root])
        walker.charge(int(graph.resources.end[source]), RUNS.index("event-latency"), first)
        kind = EVENTS[int(stream.event_kind[root])]
        _go_inside(walker, int(graph.resources.track[source]), source, first, kind, margin)
    elif bound == NOTHING:
        _go_inside(walker, graph.main_of(walker.track), -1, first, "unrecorded", FAR)


def _go_inside(walker: _Walker, track: int, row: int, slice_: int, kind: str, margin: int) -> None:
    """Continue at a cause, unless the walk has reached the start of the window."""
    if walker.t > walker.begin:
        walker.go(track, row, slice_, HOPS.index(kind), margin)


def cut_at_owners(graph: Dependences, runs: PathRuns) -> tuple[PathRuns, IntArray]:
    """Cut runs where the owner changes; return the pieces, and the run of each."""
    # The pieces partition their runs: they are in the order of the runs, and by start within each. `row` is
    # the charged slice, -1 if there is none; for a latency, the delayed slice.
    whole = (runs.kind == RUNS.index("launch-latency")) | (runs.kind == RUNS.index("event-latency"))
    tracks = [(track, np.flatnonzero((runs.track == track) & ~whole)) for track in np.unique(runs.track)]
    first, count = np.zeros(len(runs.start), np.int64), np.ones(len(runs.start), np.int64)
    for track, cut in tracks:
        at = graph.segments(int(track)).at
        first[cut] = np.searchsorted(at, runs.start[cut], side="right") - 1
        count[cut] = np.searchsorted(at, runs.end[cut], side="left") - first[cut]
    until = np.cumsum(count)
    begins = until - count
    total = int(count.sum())
    start, row = np.empty(total, np.int64), np.empty(total, np.int64)
    for track, cut in tracks:
        at, owner = graph.segments(int(track))
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
