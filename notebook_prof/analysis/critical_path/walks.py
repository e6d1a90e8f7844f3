"""Many backward walks at once: each round moves every walk by one hop. Pure numpy."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ...trace.arrays import IntArray
from .dependences import Dependences
from .resources import EVENT, LAUNCH
from .segments import FAR
from .walk import RUNS, STUCK

_HOST, _WAKE, _WORK, _LAUNCH, _EVENT = (
    RUNS.index(name) for name in ("host", "wait-wakeup", "work", "launch-latency", "event-latency")
)


class ManyRuns(NamedTuple):
    """Runs of many paths, unordered; columns of int64. `of` is the walk, the others are as in `Runs`."""

    of: IntArray
    track: IntArray
    start: IntArray
    end: IntArray
    kind: IntArray
    row: IntArray


class _Walkers:
    """Positions of walks, and the time they have charged; arrays of shape (walks,)."""

    def __init__(self, begin: IntArray, end: IntArray, track: IntArray, row: IntArray) -> None:
        self.begin, self.t = begin, end.copy()
        self.track, self.row = track.copy(), row.copy()
        self.still = np.zeros(len(end), np.int64)
        self.parts: list[tuple[IntArray, ...]] = []

    def charge(self, who: IntArray, start: IntArray, kind: int, row: IntArray) -> None:
        start = np.maximum(start, self.begin[who])
        more = start < self.t[who]
        who, start = who[more], start[more]
        self.parts.append((who, self.track[who], start, self.t[who], np.full(len(who), kind), row[more]))
        self.t[who], self.still[who] = start, 0

    def go(self, who: IntArray, track: IntArray, row: IntArray) -> None:
        self.track[who], self.row[who] = track, row


def walk_each(graph: Dependences, begin: IntArray, end: IntArray, track: IntArray, row: IntArray) -> ManyRuns:
    """Walk many windows as `walk` does with one; `track` and `row` are where each ends."""
    walkers = _Walkers(begin, end, track, row)
    active = np.flatnonzero(walkers.t > begin)
    while len(active):
        walkers.still[active] += 1
        on = walkers.track[active]
        for key in np.unique(on).tolist():
            hop = _leave_stream if key in graph.streams else _leave_thread
            hop(graph, walkers, active[on == key], key)
        active = active[walkers.t[active] > begin[active]]
    columns = zip(*walkers.parts, strict=True) if walkers.parts else [[_NONE]] * len(ManyRuns._fields)
    return ManyRuns(*(np.concatenate(column) for column in columns))


_NONE: Final = np.empty(0, np.int64)


def _leave_thread(graph: Dependences, walkers: _Walkers, who: IntArray, key: int) -> None:
    """Charge a thread back to its last wait, charge that wait, and continue at its cause."""
    waits = graph.threads.get(key)
    t, none = walkers.t[who], np.full(len(who), -1)
    if waits is None or not len(waits.done):
        walkers.charge(who, walkers.begin[who], _HOST, none)
        return
    strict = walkers.still[who] >= STUCK
    last = np.where(
        strict, np.searchsorted(waits.done, t, side="left"), np.searchsorted(waits.done, t, side="right")
    )
    k = np.maximum(last - 1, 0)
    begun = last > 0
    walkers.charge(who, np.where(begun, np.minimum(waits.end[k], t), walkers.begin[who]), _HOST, none)
    who, k = who[begun], k[begun]
    walkers.charge(who, waits.done[k], _WAKE, waits.slice[k])
    walkers.go(who, waits.track[k], waits.row[k])


def _leave_stream(graph: Dependences, walkers: _Walkers, who: IntArray, key: int) -> None:
    """Charge the run of work bound by the stream itself, and continue at the cause of its first work."""
    stream, resources = graph.streams[key], graph.resources
    root = stream.root[graph.position[walkers.row[who]]]
    first = stream.rows[root]
    walkers.charge(who, stream.start[root], _WORK, walkers.row[who])
    launched, evented = stream.bound[root] == LAUNCH, stream.bound[root] == EVENT
    call, source = stream.call[root], stream.event[root]
    since = np.where(launched, stream.launched[root], np.where(evented, resources.end[source], FAR))
    for kind, here in ((_LAUNCH, launched), (_EVENT, evented)):
        walkers.charge(who[here], since[here], kind, first[here])
    track = np.select(
        [launched, evented], [resources.track[call], resources.track[source]], np.int64(graph.main)
    )
    walkers.go(who, track, np.where(evented, source, -1))
