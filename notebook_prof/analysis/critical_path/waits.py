"""What host calls waited for: a device, their own copy, or room in a launch queue. Pure numpy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from ...trace.arrays import BoolArray, IntArray, positions
from ...trace.taxonomy import LOADER_WAIT
from ..scope import on_host
from ..time.host_states import waiting
from .resources import FAR, WAITS, Resources, StreamWork, rows_of_correlation, stacked, stream_tracks

_COPY: Final = re.compile(r"(?i)(cuda|hip|cu|mu)memcpy")
_FREE: Final = re.compile(r"(cuda|hip)Free(Host)?$")
_LOADER: Final = re.compile(rf"^{re.escape(LOADER_WAIT)}$")
_LONG: Final = 3
"""A launch call longer than this many times the usual length was held up."""
_DEPTH: Final = 8
"""Least depth at which a launch queue can be full."""
_KINDS: Final = ("Stream Sync", "Event Sync", "Context Sync")


class Waits(NamedTuple):
    """When threads waited, and for what."""

    # The waiting track.
    thread: IntArray
    # ns; the wait lasts ``[begin, end)``, and its cause is done at `done` (``begin < done <= end``).
    begin: IntArray
    done: IntArray
    end: IntArray
    # The cause: a slice of a stream, or a thread if the row is -1.
    track: IntArray
    row: IntArray
    # Row of the waiting call; -1 if there is none.
    slice: IntArray
    # Index into `WAITS`.
    kind: IntArray
    # ns by which `done` is later than the next candidate, or than `begin`.
    margin: IntArray

    @classmethod
    def of_calls(
        cls, resources: Resources, calls: IntArray, done: IntArray, row: IntArray, kind: str, margin: IntArray
    ) -> Waits:
        """Make the waits of `calls` for the device work in `row`."""
        code = np.full(len(calls), WAITS.index(kind))
        begin, end = resources.ts[calls], resources.end[calls]
        return cls(resources.track[calls], begin, done, end, resources.track[row], row, calls, code, margin)


def by_thread(waits: list[Waits], threads: Iterable[int]) -> dict[int, Waits]:
    """Sort the waits of each thread by `done`."""
    every = stacked(Waits, waits)
    order = np.lexsort((every.done, every.thread))
    every = Waits(*(column[order] for column in every))
    out = {}
    for track in threads:
        first, last = np.searchsorted(every.thread, [track, track + 1])
        out[track] = Waits(*(column[first:last] for column in every))
    return out


def _scopes(resources: Resources, rows: IntArray, table: pd.DataFrame | None) -> tuple[IntArray, IntArray]:
    """Return the track each call waits for (-1: any; -2: one without work), and until when launches count."""
    only, until = np.full(len(rows), -1), resources.ts[rows].copy()
    if table is None:
        return only, until
    table = table[table["sync_kind"].isin(_KINDS).to_numpy()]
    call = rows_of_correlation(resources, table["correlation"].to_numpy())
    at = positions(rows, call)
    table, at = table[at >= 0], at[at >= 0]
    kind = table["sync_kind"].to_numpy()
    stream = np.where(kind == "Stream Sync", table["stream"].to_numpy(), table["wait_on_stream"].to_numpy())
    track = stream_tracks(resources.trace, table["device"].to_numpy(), stream)
    one = (kind != "Context Sync") & (stream >= 0)
    only[at[one]] = np.where(track[one] >= 0, track[one], -2)
    recorded = rows_of_correlation(resources, table["wait_on_correlation"].to_numpy())
    event = (kind == "Event Sync") & (recorded >= 0)
    until[at[event]] = resources.ts[recorded[event]]
    return only, until


def waiting_calls(resources: Resources) -> BoolArray:
    """Return which slices are calls in which a thread waits for a device."""
    trace = resources.trace
    calls = resources.category("sync") | resources.named(_FREE)
    if resources.streams and not resources.category("launch", "sync").any():
        host = on_host(trace)  # without recorded runtime calls, operators that read a number count as waits
        calls[host.rows[waiting(trace, host)]] = True
    return calls & resources.on_threads()


def device_waits(resources: Resources, streams: dict[int, StreamWork], table: pd.DataFrame | None) -> Waits:
    """Find what calls waited for: of the work launched before them, the last to end inside them."""
    # A call in which no candidate ended waited for nothing and is left out. Work that ends after the call
    # cannot be the cause.
    rows, candidates = waitable_work(resources, streams, table)
    begin, end = resources.ts[rows], resources.end[rows]
    best, second = begin.copy(), begin.copy()
    cause = np.full(len(rows), -1)
    for work in candidates:
        done = np.where(work >= 0, resources.end[work], -FAR)
        fits = (done > begin) & (done <= end)
        later = fits & (done > best)
        second = np.where(later, best, np.where(fits, np.maximum(second, done), second))
        cause = np.where(later, work, cause)
        best = np.where(later, done, best)
    hit = cause >= 0
    return Waits.of_calls(resources, rows[hit], best[hit], cause[hit], "wait", (best - second)[hit])


def waitable_work(
    resources: Resources, streams: dict[int, StreamWork], table: pd.DataFrame | None
) -> tuple[IntArray, list[IntArray]]:
    """Return the calls that wait for a device, ascending, and the work that they could wait for."""
    # The work is an array per stream: of the work launched before each call, the row of the last to end; -1
    # if the call does not wait for this stream, or nothing had been launched. A stream that is busy when the
    # recording begins has a second array, for work launched before the recording.
    rows = np.flatnonzero(waiting_calls(resources))
    only, until = _scopes(resources, rows, table)
    work = []
    rank_of_call = np.array([resources.rank[track] for track in resources.track[rows].tolist()], np.int64)
    for track, stream in streams.items():
        ends = stream.end[stream.order]
        highest = np.maximum.accumulate(ends)
        which = np.maximum.accumulate(np.where(ends == highest, np.arange(len(ends)), 0))
        at = np.searchsorted(stream.when, until, side="left") - 1
        last = stream.rows[stream.order[which[np.maximum(at, 0)]]]
        for_it = ((only == -1) | (only == track)) & (rank_of_call == resources.rank[track])
        work.append(np.where((at >= 0) & for_it, last, -1))
        launched = np.flatnonzero(stream.call >= 0)
        if len(launched) and launched[0]:  # work launched before the recording
            before = stream.rows[int(np.argmax(stream.end[: launched[0]]))]
            work.append(np.where(for_it, before, -1))
    return rows, work


def blocking_copies(resources: Resources, stream: StreamWork) -> Waits:
    """Find copies that end inside the call that requested them, so the call waited for them."""
    own = np.flatnonzero(stream.call >= 0)
    own = own[resources.named(_COPY, stream.call[own])]
    row, call = stream.rows[own], stream.call[own]
    inside = (resources.end[row] <= resources.end[call]) & (resources.end[row] > resources.ts[call])
    inside &= np.isin(resources.track[call], list(resources.threads))
    row, call = row[inside], call[inside]
    done = resources.end[row]
    return Waits.of_calls(resources, call, done, row, "copy", done - resources.ts[call])


def full_queues(resources: Resources, stream: StreamWork, usual: int) -> Waits:
    """Find launches held up by a full queue: long calls at the greatest queue depth seen."""
    # A stream's queue holds a limited number of launches (about a thousand with NVIDIA's driver). If it is
    # full, a further call returns when the next work begins. At any depth, CUPTI itself records calls that
    # found a full command buffer.
    call, begun = stream.call[stream.order], np.sort(stream.start)
    returned = np.where(call >= 0, resources.end[call], -FAR)
    length = np.where(call >= 0, resources.end[call] - resources.ts[call], 0)
    at = np.searchsorted(begun, returned, side="right") - 1
    ahead = np.arange(len(call)) - (at + 1)
    depth = int(ahead[call >= 0].max(initial=0))
    full = (call >= 0) & (length > _LONG * max(usual, 1)) & (ahead >= depth - 1) & (depth >= _DEPTH)
    if len(rows := resources.full_buffers()):
        tracks = resources.track[call]
        elsewhere = ~np.isin(resources.track[rows], tracks)  # Kineto puts these records on a separate track
        for track in np.unique(tracks[call >= 0]):
            begins = resources.ts[rows[elsewhere | (resources.track[rows] == track)]]
            first, last = (np.searchsorted(begins, side[call]) for side in (resources.ts, resources.end))
            full |= (call >= 0) & (tracks == track) & (last > first)
    full &= (at >= 0) & (begun[np.maximum(at, 0)] > np.where(call >= 0, resources.ts[call], FAR))
    full &= np.isin(resources.track[call], list(resources.threads))
    call, row = call[full], stream.rows[at[full]]
    done = resources.ts[row]
    return Waits.of_calls(resources, call, done, row, "queue", done - resources.ts[call])


def loader_waits(resources: Resources) -> list[Waits]:
    """Find waits for DataLoader workers: each ends with the linked batch."""
    # A worker that was idle before a batch waited for a request from the thread that gets its batches.
    flows = resources.trace.flows
    source, target = flows["src"].to_numpy(), flows["dst"].to_numpy()
    link = (flows["kind"] == "link").to_numpy() & resources.named(_LOADER)[target]
    source, target = source[link], target[link]
    done = np.minimum(resources.end[source], resources.end[target])
    inside = (done > resources.ts[target]) & np.isin(resources.track[source], list(resources.threads))
    source, target, done = source[inside], target[inside], done[inside]
    if not len(source):
        return []
    track, none = resources.track[source], np.full(len(source), -1)
    code = np.full(len(source), WAITS.index("loader"))
    begin, end = resources.ts[target], resources.end[target]
    waits = [Waits(resources.track[target], begin, done, end, track, none, target, code, done - begin)]
    for worker in np.unique(track):
        asker = int(resources.track[target[track == worker]][0])
        cut = resources.segments(int(worker))
        idle = (cut.owner < 0) & (cut.until() < FAR)
        begin, end = (side[idle] for side in (cut.at, cut.until()))
        on, of, none, code = (np.full(len(begin), one) for one in (worker, asker, -1, WAITS.index("loader")))
        waits.append(Waits(on, begin, end, end, of, none, none, code, end - begin))
    return waits
