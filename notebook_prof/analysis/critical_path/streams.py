"""The cause of each start of device work: its stream, its launch or an event. Pure numpy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ...trace.arrays import BoolArray, IntArray
from .resources import (
    EVENT,
    EVENTS,
    FAR,
    LAUNCH,
    NOTHING,
    STREAM,
    Resources,
    StreamWork,
    latest_end,
    rows_of_correlation,
    stream_tracks,
)

MOST_NS: Final = 20_000
"""The longest delay that a launch can cause by itself; a longer one has another cause."""
_QUICK: Final = 0.05
"""Quantile of all delays that is taken as the least delay."""
_USUAL: Final = 0.9
"""Quantile of the delays beyond the least one that is taken as their noise."""
_NONE: Final = np.empty(0, np.int64)
_GRAPH: Final = re.compile(r"(?i)graph_?launch")
_STREAM_WAIT: Final = re.compile(r"StreamWaitEvent")


@dataclass(frozen=True, slots=True)
class Latencies:
    """The least latencies of starts of device work, in ns."""

    # Usual length of a launch call.
    call: int
    # From the end of work to the start of work that waited for it.
    spacing: int
    # From the launch to the start of the work on an idle stream.
    launch: int
    # Nine of ten starts come at most this much later than these latencies predict.
    noise: int


def usual_call(resources: Resources) -> int:
    """Return the median length of launch calls that returned before their work began; 0 if none did."""
    parts = []
    for rows in resources.streams.values():
        call = resources.call[rows]
        ready = (call >= 0) & (resources.end[call] <= resources.ts[rows])
        parts.append((resources.end[call] - resources.ts[call])[ready])
    return _quantile(parts, 0.5)


def stream_work(resources: Resources, rows: IntArray, usual: int) -> StreamWork:
    """Collect a stream's work, with the work before each piece and when its launch took effect."""
    # If a call has not returned when its work begins, its launch took effect earlier: assume the usual length
    # of a call after its start.
    start, end = resources.ts[rows], resources.end[rows]
    before = latest_end(end, start)
    before = np.where(before >= np.arange(len(rows)), -1, before)
    call = resources.call[rows]
    begun, returned = resources.ts[call], resources.end[call]
    inside = np.maximum(np.minimum(begun + usual, start), np.minimum(begun, start))
    launched = np.where(call >= 0, np.where(returned <= start, returned, inside), -FAR)
    when = np.where(call >= 0, begun, start)
    order = np.argsort(when, kind="stable")
    none = np.full(len(rows), -1)
    return StreamWork(
        rows, start, end, before, call, launched, when[order], order, none, np.zeros(len(rows), np.int64)
    )


def _set_events(stream: StreamWork, end: IntArray, places: IntArray, source: IntArray, kind: str) -> None:
    """Make a stream's work wait for other work; if for several pieces, for the last one to end."""
    order = np.argsort(end[source], kind="stable")
    places, source = places[order], source[order]
    last = np.unique(places[::-1], return_index=True)
    chosen, best = last[0], source[::-1][last[1]]
    old = stream.event[chosen]
    later = (old < 0) | (end[np.maximum(old, 0)] < end[best])
    stream.event[chosen[later]] = best[later]
    stream.event_kind[chosen[later]] = EVENTS.index(kind)


def graph_events(resources: Resources, streams: dict[int, StreamWork]) -> None:
    """Infer from times which nodes of a graph launch waited for nodes on other streams."""
    launched = {track: np.flatnonzero(one.call >= 0) for track, one in streams.items()}
    parts = {
        track: places[resources.named(_GRAPH, streams[track].call[places])]
        for track, places in launched.items()
    }
    rows = np.concatenate([_NONE, *(streams[track].rows[places] for track, places in parts.items())])
    places = np.concatenate([_NONE, *parts.values()])
    track = resources.track[rows]
    instants, rank = np.unique(np.concatenate([resources.end[rows], resources.ts[rows]]), return_inverse=True)
    code = np.unique(resources.call[rows], return_inverse=True)[1] * len(instants)
    source = latest_end(code + rank[: len(rows)], code + rank[len(rows) :])
    other = (source >= 0) & (code[source] == code) & (track[source] != track)
    for number in np.unique(track[other]).tolist():
        hit = other & (track == number)
        _set_events(streams[number], resources.end, places[hit], rows[source[hit]], "graph")


def recorded_event_pairs(
    resources: Resources, streams: dict[int, StreamWork], table: pd.DataFrame
) -> dict[int, tuple[IntArray, IntArray]]:
    """Return, by stream, the positions of waiting work and the rows of the work that it waits for."""
    # A ``cudaStreamWaitEvent`` delays the next work on its stream until the other stream has finished all
    # work that had been launched when the event was recorded.
    table = table[(table["sync_kind"] == "Stream Wait Event").to_numpy()]
    columns = {name: table[name].to_numpy() for name in table.columns if name != "sync_kind"}
    source = stream_tracks(resources.trace, columns["device"], columns["wait_on_stream"])
    target = stream_tracks(resources.trace, columns["device"], columns["stream"])
    waiting = rows_of_correlation(resources, columns["correlation"])
    recorded = rows_of_correlation(resources, columns["wait_on_correlation"])
    keep = np.isin(source, list(streams)) & np.isin(target, list(streams)) & (waiting >= 0) & (recorded >= 0)
    row = np.full(len(table), -1)
    for track in np.unique(source[keep]):
        one, hit = streams[int(track)], np.flatnonzero(keep & (source == track))
        at = np.searchsorted(one.when, resources.ts[recorded[hit]], side="right") - 1
        row[hit] = np.where(at >= 0, one.rows[one.order[np.maximum(at, 0)]], -1)
    pairs = {}
    for track in np.unique(target[keep]):
        one, hit = streams[int(track)], np.flatnonzero(keep & (target == track) & (row >= 0))
        at = np.searchsorted(one.when, resources.ts[waiting[hit]], side="left")
        hit, at = hit[at < len(one.rows)], at[at < len(one.rows)]
        pairs[int(track)] = one.order[at], row[hit]
    return pairs


def recorded_events(resources: Resources, streams: dict[int, StreamWork], table: pd.DataFrame) -> None:
    """Make work wait for the events in the file."""
    for track, (places, source) in recorded_event_pairs(resources, streams, table).items():
        _set_events(streams[track], resources.end, places, source, "event")


def inferred_events(resources: Resources, streams: dict[int, StreamWork]) -> None:
    """Infer waits for events if the file has only calls of ``cudaStreamWaitEvent``."""
    # If there is such a call between a work's launch and the previous launch on its stream, the work waited
    # for work of another stream that had been launched earlier: for the last to end by the time it began.
    host = resources.on_threads()
    calls = np.sort(resources.ts[resources.named(_STREAM_WAIT) & host])
    if len(streams) < 2 or not len(calls):
        return
    ends = {track: np.argsort(s.end, kind="stable") for track, s in streams.items()}
    for track, stream in streams.items():
        before = np.searchsorted(calls, stream.when)
        waited = np.diff(before, prepend=0) > 0
        places = stream.order[waited & (stream.call[stream.order] >= 0)]
        best = np.full(len(places), -1)
        for other, theirs in streams.items():
            if other == track or not len(places):
                continue
            at = np.searchsorted(theirs.end[ends[other]], stream.start[places], side="right") - 1
            last = ends[other][np.maximum(at, 0)]
            row, call = theirs.rows[last], theirs.call[last]
            # work without a recorded launch counts as launched when the trace begins
            begun = resources.ts[np.maximum(call, 0)]
            early = (at >= 0) & (begun < resources.ts[stream.call[places]])
            later = early & ((best < 0) | (resources.end[np.maximum(best, 0)] < resources.end[row]))
            best = np.where(later, row, best)
        hit = best >= 0
        _set_events(stream, resources.end, places[hit], best[hit], "inferred-event")


def bind(
    resources: Resources, streams: dict[int, StreamWork], usual: int, latency: int | None, spacing: int | None
) -> Latencies:
    """Determine the cause of each start: the candidate that, with its least latency, allows it last."""
    # Fills in `bound`, `root` and `margin` of `streams`. `latency` and `spacing` (ns) default to the
    # recording's 5 % quantiles, at most 20 µs.
    gaps, delays = [], []
    for s in streams.values():
        previous = np.where(s.before >= 0, s.end[s.before], -FAR)
        queued = (s.before >= 0) & (s.launched < s.start[s.before])
        gaps.append((s.start - previous)[queued])
        delays.append((s.start - s.launched)[(s.call >= 0) & (s.launched > previous)])
    spacing = min(_quantile(gaps, _QUICK), MOST_NS) if spacing is None else spacing
    latency = min(_quantile(delays, _QUICK), MOST_NS) if latency is None else latency
    over = []
    for s in streams.values():
        previous = np.where(s.before >= 0, s.end[s.before] + spacing, -FAR)
        launch = np.where(s.call >= 0, s.launched + latency, -FAR)
        event = np.where(s.event >= 0, resources.end[s.event] + spacing, -FAR)
        best = np.maximum(np.maximum(previous, launch), event)
        second = np.maximum(np.minimum(previous, launch), np.minimum(np.maximum(previous, launch), event))
        s.margin = np.where(second > -FAR, best - second, FAR)
        s.bound = np.select([best == -FAR, launch == best, event == best], [NOTHING, LAUNCH, EVENT], STREAM)
        s.root = runs_bound_by_stream(s.bound == STREAM, s.before)
        late = s.start - best
        over.append(late[(best > -FAR) & (late >= 0) & (late <= MOST_NS)])
    return Latencies(usual, spacing, latency, _quantile(over, _USUAL))


def _quantile(parts: list[IntArray], q: float) -> int:
    values = np.concatenate([_NONE, *parts])
    return int(np.quantile(values, q)) if len(values) else 0


def runs_bound_by_stream(bound_by_stream: BoolArray, before: IntArray) -> IntArray:
    """Return the first work of each piece's run, where the stream's previous work bound all later starts."""
    n = len(before)
    if (before[1:] == np.arange(n - 1)).all():
        return np.maximum.accumulate(np.where(bound_by_stream, -1, np.arange(n)))
    root = np.where(bound_by_stream, before, np.arange(n))  # work overlaps: chains, not ranges
    while (root[root] != root).any():
        root = root[root]
    return root
