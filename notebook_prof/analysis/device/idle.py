"""Causes of idle devices: what the critical path did in the meantime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...trace import Trace, complement, union
from ...trace.arrays import BoolArray, IntArray, optional
from ...trace.intervals import as_ints, first_claims
from ...trace.schema import Table
from ..busy_time import device_of, device_window
from ..critical_path.dependences import Dependences, dependences
from ..critical_path.resources import EVENT, FAR, LAUNCH, stacked
from ..critical_path.waits import waiting_calls
from ..critical_path.walk import EVENT_LATENCY, HOST, LAUNCH_LATENCY, STUCK, WAKE, WORK
from ..scope import Scope, WindowLike, ints, length_within, on_device, sharing
from ..time.host_states import STATES, host_states
from .busy import device
from .kernel_launches import launch_calls

CAUSES: Final = (*STATES, "host-bound", "launch-latency", "tail", "unknown")
"""Causes of idle time: ``input sync memcpy communication host-bound launch-latency tail unknown``."""


@sharing
def device_idle(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List the gaps in which a device was idle, and what it waited for.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns. Default: from the first to the last work of each device, as in `device`.

    Returns
    -------
    DataFrame
        One row per gap, by `device`, then `ts`; no rows without device work.

        - ``device`` int16; ``ts``, ``dur`` int64 ns;
        - ``cause`` category, the one with the largest share: ``input sync memcpy communication host-bound
          launch-latency tail unknown``;
        - ``input_ns``, ``sync_ns``, ``memcpy_ns``, ``communication_ns``, ``host_ns``, ``launch_ns``,
          ``tail_ns``, ``unknown_ns`` int64: they sum exactly to `dur`, and `dur` sums to the ``idle_ns`` of
          `device`;
        - ``next`` Int64: row of the device slice that ends the gap, missing in the tail; ``launch`` Int64:
          row of the call that launched it; ``step`` Int32 and ``phase`` category of `next`.

    Notes
    -----
    A gap ends when some work K begins, launched by the call L. From there the critical path is followed, as
    in `why`, back to the start of the gap, so it covers each instant of the gap.

    1. *launch latency*: from the launch, or an event, to the start of K; in L itself; if K had been
       launched before the gap; *memcpy* if K is a copy that the host is still preparing.
    2. On a thread, an instant belongs to the first of these that is open: a slice of phase data, or anything
       on a DataLoader worker (*input*); a call that waits for a device (*sync*); a call that copies
       (*memcpy*); a collective on any thread (*communication*); else it is *host-bound*: Python, operators
       and launches of other work.
    3. Awaited work of another device: *communication* for a collective, otherwise *sync*.
    4. Without further work until the end of the window it is the *tail*. If K has no recorded launch it is
       *unknown*, as in traces of the device alone.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [next/data     ][mm]
    ... stream 7:    [gemm]                [gemm]
    ... ''', launches=[("mm", "gemm")])
    >>> device_idle(trace)[["ts", "dur", "cause", "input_ns", "host_ns", "launch_ns"]].values.tolist()
    [[9, 16, 'input', 13, 0, 3]]
    """
    work = on_device(trace, window)
    where = device_of(trace, work)
    parts = [_gaps(work.only(where == number), int(number), window) for number in np.unique(where)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] or [_NONE] * 4
    number, start, end, after = map(as_ints, columns)
    launch = launch_calls(trace)[after]
    spent = _divide(trace, start, end, after, launch)
    table = pd.DataFrame({"device": number.astype(np.int16), "ts": start, "dur": end - start})
    largest = np.column_stack([spent[name] for name in CAUSES]).argmax(axis=1)
    make: Any = pd.Categorical.from_codes
    table["cause"] = make(largest, categories=list(CAUSES))
    for name in CAUSES:
        table[cause_column(name)] = spent[name]
    table["next"] = optional(after)
    table["launch"] = optional(launch)
    beyond = pd.Series(np.where(after < 0, len(trace.slices), after))
    for column in ("step", "phase"):
        table[column] = trace.slices[column].reindex(beyond.to_numpy()).reset_index(drop=True)
    return table


_NONE: Final = np.empty(0, np.int64)


def cause_column(cause: str) -> str:
    """Return the name of the column of `device_idle` that contains the time of a cause."""
    return {"host-bound": "host_ns", "launch-latency": "launch_ns"}.get(cause, f"{cause}_ns")


def _gaps(work: Scope, number: int, window: WindowLike) -> tuple[IntArray, ...]:
    """Return each gap's device, start, end, and the work that ends it; -1 at the end of the window."""
    cut = device_window(work, window)
    start, end = complement(union(work.ts, work.end), cut)
    # gaps end at work that is not empty
    lasting = work.end > work.ts
    ts, rows = work.ts[lasting], work.rows[lasting]
    at = np.searchsorted(ts, end, side="left")
    return np.full(len(start), number), start, end, np.append(rows, -1)[at]


def _divide(
    trace: Trace, start: IntArray, end: IntArray, after: IntArray, launch: IntArray
) -> dict[str, IntArray]:
    """Return the time of each cause in each gap."""
    spent = {name: np.zeros(len(start), dtype=np.int64) for name in CAUSES}
    tail, unknown = after < 0, (after >= 0) & (launch < 0)
    spent["tail"] += np.where(tail, end - start, 0)
    spent["unknown"] += np.where(unknown, end - start, 0)
    gaps = np.flatnonzero(~tail & ~unknown)
    if not len(gaps):
        return spent
    graph = dependences(trace)
    begin, until, work, call = start[gaps], end[gaps], after[gaps], launch[gaps]
    track = graph.resources.track
    runs = walk_each(graph, begin, until, track[work], work)
    copies = graph.resources.category("memcpy", rows=work)
    for name, of, time in _causes(graph, runs, call, copies, track[work]):
        spent[name][gaps] += np.bincount(of, time, minlength=len(gaps)).astype(np.int64)
    return spent


def _causes(
    graph: Dependences, runs: ManyRuns, call: IntArray, copies: BoolArray, streams: IntArray
) -> Iterator[tuple[str, IntArray, IntArray]]:
    """Divide the walk of each gap by cause; yield the cause, gaps and times of its parts."""
    resources, length = graph.resources, runs.end - runs.start
    tracks = resources.trace.tracks
    device = np.full(int(tracks["track"].max()) + 1, -1)
    device[tracks["track"].to_numpy()] = np.maximum(ints(tracks["device"]), 0)
    on_stream = np.isin(runs.track, list(graph.streams))
    late = (runs.kind == LAUNCH_LATENCY) | (runs.kind == EVENT_LATENCY)
    late |= on_stream & (device[runs.track] == device[streams[runs.of]])
    elsewhere = on_stream & ~late
    shared = elsewhere & resources.category("collective", rows=runs.row)
    # the latency of a launch counts from the start of its call
    own = (runs.kind == HOST) & (runs.track == resources.track[call][runs.of])
    called = np.where(own, np.clip(resources.ts[call][runs.of], runs.start, runs.end), runs.end)
    host = ~late & ~on_stream
    under_way = np.where(late, length, np.where(host, runs.end - called, 0))
    of_copy = copies[runs.of]
    yield "memcpy", runs.of[of_copy], under_way[of_copy]
    yield "launch-latency", runs.of[~of_copy], under_way[~of_copy]
    yield "communication", runs.of[shared], length[shared]
    yield "sync", runs.of[elsewhere & ~shared], length[elsewhere & ~shared]
    loading = host & np.isin(runs.track, sorted(graph.loader_workers))
    yield "input", runs.of[loading], (called - runs.start)[loading]
    waits = np.append(waiting_calls(resources), False)
    for track in np.unique(runs.track[host & ~loading]).tolist():
        here = np.flatnonzero(host & ~loading & (runs.track == track))
        left = called[here] - runs.start[here]
        states = host_states(resources.trace, track)
        for name, open_ in zip(states, first_claims(states.values()), strict=True):
            time = length_within(open_, runs.start[here], called[here])
            yield name, runs.of[here], time
            left = left - time
        woken = (runs.kind[here] == WAKE) & waits[runs.row[here]]
        yield "sync", runs.of[here[woken]], left[woken]
        yield "host-bound", runs.of[here[~woken]], left[~woken]


# Many backward walks at once: each round moves every walk by one hop. Pure numpy.


class ManyRuns(NamedTuple):
    """Runs of several paths, in no order: `of` is the number of the walk, the others are as in `PathRuns`."""

    of: IntArray
    track: IntArray
    start: IntArray
    end: IntArray
    kind: IntArray
    row: IntArray


class _Walkers:
    """Positions of walks, and the time charged so far; arrays of shape (walks,)."""

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
    """Walk many windows as `walk` does with one; each starts at its `track` and `row`."""
    walkers = _Walkers(begin, end, track, row)
    active = np.flatnonzero(walkers.t > begin)
    while len(active):
        walkers.still[active] += 1
        on = walkers.track[active]
        for key in np.unique(on).tolist():
            hop = _leave_stream if key in graph.streams else _leave_thread
            hop(graph, walkers, active[on == key], key)
        active = active[walkers.t[active] > begin[active]]
    return stacked(ManyRuns, walkers.parts)


def _leave_thread(graph: Dependences, walkers: _Walkers, who: IntArray, key: int) -> None:
    """Charge a thread back to its last wait, charge that wait, and continue at its cause."""
    waits = graph.threads.get(key)
    t, none = walkers.t[who], np.full(len(who), -1)
    if waits is None or not len(waits.done):
        walkers.charge(who, walkers.begin[who], HOST, none)
        return
    strict = walkers.still[who] >= STUCK
    before, until = (np.searchsorted(waits.done, t, side=side) for side in ("left", "right"))
    last = np.where(strict, before, until)
    k = np.maximum(last - 1, 0)
    begun = last > 0
    walkers.charge(who, np.where(begun, np.minimum(waits.end[k], t), walkers.begin[who]), HOST, none)
    who, k = who[begun], k[begun]
    walkers.charge(who, waits.done[k], WAKE, waits.slice[k])
    walkers.go(who, waits.track[k], waits.row[k])


def _leave_stream(graph: Dependences, walkers: _Walkers, who: IntArray, key: int) -> None:
    """Charge the work that only waited for its stream, and continue at the cause of the first of it."""
    stream, resources = graph.streams[key], graph.resources
    root = stream.root[graph.position[walkers.row[who]]]
    first = stream.rows[root]
    walkers.charge(who, stream.start[root], WORK, walkers.row[who])
    launched, evented = stream.bound[root] == LAUNCH, stream.bound[root] == EVENT
    call, source = stream.call[root], stream.event[root]
    since = np.where(launched, stream.launched[root], np.where(evented, resources.end[source], FAR))
    for kind, here in ((LAUNCH_LATENCY, launched), (EVENT_LATENCY, evented)):
        walkers.charge(who[here], since[here], kind, first[here])
    causes = [resources.track[call], resources.track[source]]
    track = np.select([launched, evented], causes, np.int64(graph.main))
    walkers.go(who, track, np.where(evented, source, -1))


_CAUSE_COLUMNS: Final = Table.of(
    "idle_causes",
    "device:int16 cause:str gaps:int64 idle_ns:int64 window_ns:int64 share:float64 idle_share:float64",
)


@sharing
def idle_causes(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Sum the idle time of every device by what it waited for.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns. Default: from the first to the last work of each device, as in `device`.

    Returns
    -------
    DataFrame
        ``device cause gaps idle_ns window_ns share idle_share``: one row per device and cause, by device, in
        the order ``input sync memcpy communication host-bound launch-latency tail unknown``; rows without
        time are kept, so that every device has all causes; empty without device work.

    Notes
    -----
    Each gap of `device_idle` is divided among its causes, and this table sums the parts. For each device
    ``idle_ns`` sums to that of `device` and, with its ``busy_ns``, to ``window_ns``.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [next/data     ][mm]
    ... stream 7:    [gemm]                [gemm]
    ... ''', launches=[("mm", "gemm")])
    >>> table = idle_causes(trace)
    >>> table[table["idle_ns"] > 0][["cause", "idle_ns", "window_ns"]].values.tolist()
    [['input', 13, 28], ['launch-latency', 3, 28]]
    """
    busy, gaps = device(trace, window=window), device_idle(trace, window=window)
    if busy.empty:
        return _CAUSE_COLUMNS.empty()
    columns = [cause_column(cause) for cause in CAUSES]
    times = gaps.groupby("device")[columns].sum().reindex(busy["device"], fill_value=0)
    counts = (gaps[columns] > 0).groupby(gaps["device"]).sum().reindex(busy["device"], fill_value=0)
    repeated = busy.loc[busy.index.repeat(len(CAUSES)), ["device", "window_ns", "idle_ns"]]
    spent = times.to_numpy(dtype=np.int64).ravel()
    whole = repeated["idle_ns"].to_numpy(dtype=np.float64)
    return _CAUSE_COLUMNS.frame(
        {
            "device": repeated["device"].to_numpy(),
            "cause": list(CAUSES) * len(busy),
            "gaps": counts.to_numpy(dtype=np.int64).ravel(),
            "idle_ns": spent,
            "window_ns": repeated["window_ns"].to_numpy(),
            "share": spent / np.maximum(repeated["window_ns"].to_numpy(), 1),
            "idle_share": np.divide(spent, whole, out=np.full(len(spent), np.nan), where=whole > 0),
        }
    )
