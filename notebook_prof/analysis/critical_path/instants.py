"""What a thread or stream does at an instant: the stretch to explain."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ...errors import SelectionError, nearest
from .dependences import Dependences
from .walk import resource_names

Kind: TypeAlias = Literal["idle", "wait", "work"]
"""What a thread or stream does at an instant."""


class Stretch(NamedTuple):
    """The stretch ``[begin, end)`` (ns) of a thread or stream to explain, and where the walk back starts."""

    kind: Kind
    begin: int
    end: int
    track: int
    # Row of the waiting call, of the work that begins at the end, or of the running slice; -1 if none.
    row: int
    # Where the walk back starts: a track and a row of device work, -1 on threads.
    from_track: int
    from_row: int


def of_slice(graph: Dependences, row: int) -> tuple[int, Stretch]:
    """Return a slice's track and the stretch that explains it; SelectionError for an unknown row."""
    resources = graph.resources
    if not 0 <= row < len(resources.ts):
        raise SelectionError(f"there is no slice {row}: the trace has {len(resources.ts)}")
    key = int(resources.track[row])
    if key in graph.streams and (at := int(graph.position[row])) >= 0:
        return key, _of_work(graph, key, at)
    waits = graph.threads.get(key)
    if waits is not None and len(own := np.flatnonzero(waits.slice == row)):
        begin, end = int(waits.begin[own].min()), int(waits.end[own].max())
        return key, Stretch("wait", begin, end, key, row, key, -1)
    begin, end = int(resources.ts[row]), int(resources.end[row])
    return key, Stretch("work", begin, end, key, row, key, -1)


def of_instant(graph: Dependences, ts: int, track: int | str | None) -> tuple[int, Stretch]:
    """Return the track and the stretch around an instant; SelectionError if nothing was recorded there."""
    key, until = _key(graph, track), graph.resources.trace.span.end
    if not 0 <= ts < until:
        raise SelectionError(f"nothing was recorded at {ts} ns: the trace lasts from 0 to {until} ns")
    return key, _of_stream(graph, ts, key) if key in graph.streams else _of_thread(graph, ts, key)


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
    if not _works(graph, track):
        have = [f"{key} ({label})" for label, key in names.items() if _works(graph, key)]
        raise SelectionError(
            f"track {track} is not a thread or stream with slices: those are {', '.join(have)}"
        )
    return int(track)


def _works(graph: Dependences, track: int) -> bool:
    return track in graph.streams or track in graph.resources.threads


def _of_stream(graph: Dependences, ts: int, track: int) -> Stretch:
    """Return the idle stretch around an instant, or what delayed the work that runs at that instant."""
    stream = graph.streams[track]
    at = int(np.searchsorted(stream.start, ts, side="right")) - 1
    if at >= 0 and int(stream.end[: at + 1].max()) > ts:
        while int(stream.end[at]) <= ts:
            at -= 1
        return _of_work(graph, track, at)
    begin = int(stream.end[: at + 1].max()) if at >= 0 else 0
    if at + 1 == len(stream.start):
        return Stretch("idle", begin, graph.resources.trace.span.end, track, -1, graph.main, -1)
    row = int(stream.rows[at + 1])
    return Stretch("idle", begin, int(stream.start[at + 1]), track, row, track, row)


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
    starts, owner = graph.segments(track)
    at = int(np.searchsorted(starts, ts, side="right")) - 1
    row = int(owner[at])
    if row >= 0:
        begin, end = int(graph.resources.ts[row]), int(graph.resources.end[row])
        return Stretch("work", begin, end, track, row, track, -1)
    until = graph.resources.trace.span.end
    end = int(starts[at + 1]) if at + 1 < len(starts) else until
    after = int(owner[at + 1]) if at + 1 < len(starts) else -1
    return Stretch("idle", max(int(starts[at]), 0), end, track, after, track, -1)
