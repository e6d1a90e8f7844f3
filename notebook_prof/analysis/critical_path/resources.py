"""Threads and streams as arrays: work, waits, causes of starts, the owner of each instant. Pure numpy."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import DEVICE_CATEGORIES, Trace
from ...trace.arrays import BoolArray, IntArray, positions
from ...trace.intervals import as_ints
from ...trace.nesting import by_track, depths, parents
from ..device.kernel_launches import launch_calls
from ..scope import bounds, ints, matching_codes, recorded_table

Columns = TypeVar("Columns", bound=tuple[Any, ...])

FAR: Final = int(np.iinfo(np.int64).max // 4)
"""ns; later than any instant of a recording."""


class Segments(NamedTuple):
    """A track divided where its owner changes: segment *k* is ``[at[k], at[k + 1])``."""

    # ns, ascending; the first precedes everything.
    at: IntArray
    # Row of the slice that owns the segment; -1 if no slice is open.
    owner: IntArray

    def until(self) -> IntArray:
        return np.append(self.at[1:], FAR)


def segments(rows: IntArray, start: IntArray, end: IntArray) -> Segments:
    """Cut a track into segments with one owner each."""
    # Slices come by start, then longest first, and may overlap in any way. The open slice that started last
    # is the owner. When it ends, the latest-started slice that is still open takes over. A slice that a
    # descendant outlasts owns nothing from its end to that of the descendant, and adds no boundary.
    #
    # Before slice *k* starts, *k* slices have started, and all but its ancestors have ended, so among all
    # starts and ends in order, its start is number ``2 k - depth``. Between it and the next start are the
    # ends of the slice and of as many ancestors as the next slice is less deep. So nothing has to be sorted.
    n = len(rows)
    if not n:
        return Segments(np.array([-FAR]), np.array([-1]))
    parent = parents(np.zeros(n, np.int8), start, end)
    depth = depths(parent)
    closes = depth + 1 - np.append(depth[1:], 0)
    begin = 2 * np.arange(n) + (1 - depth)
    at, owner = np.full(2 * n + 1, -FAR), np.full(2 * n + 1, -1)
    at[begin], owner[begin] = start, np.arange(n)
    ending = np.flatnonzero(closes)
    position, left = begin[ending], closes[ending]
    while len(ending):
        position, left = position + 1, left - 1
        at[position] = end[ending]
        owner[position] = ending = parent[ending]
        more = left > 0
        ending, position, left = ending[more], position[more], left[more]
    if (at[1:] < at[:-1]).any():  # some slices overlap in part
        next_start = np.repeat(np.append(start[1:], FAR), closes + 1)
        at[1:] = np.maximum.accumulate(np.minimum(at[1:], next_start))
    last = np.append(at[1:] != at[:-1], True)
    return Segments(at[last], np.append(rows, -1)[owner[last]])


STREAM, LAUNCH, EVENT, NOTHING = range(4)
"""What can bind the start of device work: the previous work, its launch, an event, or nothing recorded."""

_ALL: Final = slice(None)
WAITS: Final = ("wait", "copy", "queue", "hand-over", "loader", "host-collective")
"""Kinds of waits of threads: for a device, for a copy that the call itself started, for room in a full launch
queue, for another thread, for a worker of a DataLoader, for the last rank of a collective on threads."""

_FULL_BUFFER: Final = re.compile(r"(?i)command buffer full")
"""Names that Kineto and Nsight Systems give to CUPTI's records of launches that wait for room."""

EVENTS: Final = ("none", "event", "inferred-event", "graph", "collective")
"""Where an event comes from: none, the file, inferred from calls and times, a graph, a collective."""


@dataclass(slots=True)
class StreamWork:
    """Work of one stream, by start (ns)."""

    rows: IntArray
    start: IntArray
    end: IntArray
    # Index of the work that had ended last before the start; -1 if there is none.
    before: IntArray
    # Row of the launching call; -1 if not recorded.
    call: IntArray
    # Instant from which the launch takes effect; `-FAR` without a call.
    launched: IntArray
    # Starts of the calls, ascending, and the indices of their work.
    when: IntArray
    order: IntArray
    # Row of the work on another stream that this work waited for, or -1; and an index into `EVENTS`.
    event: IntArray
    event_kind: IntArray
    # `STREAM`, `LAUNCH`, `EVENT` or `NOTHING`.
    bound: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    # Index of the work that began the run: follow the previous work as long as it is what bound the start.
    root: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    # ns by which the cause was later than the next candidate; `FAR` if there is no other.
    margin: IntArray = field(default_factory=lambda: np.empty(0, np.int64))


class Resources:
    """Slices as arrays, by thread and stream; -1 for a missing call, process or rank."""

    def __init__(self, trace: Trace) -> None:
        slices, tracks = trace.slices, trace.tracks
        self._trace = weakref.ref(trace)
        self.ts, self.end = bounds(slices)
        self.track: IntArray = slices["track"].to_numpy().astype(np.int64)
        self._category = slices["category"].cat.codes.to_numpy()
        self._name = slices["name"].cat.codes.to_numpy()
        self._names = [str(word) for word in slices["name"].cat.categories]
        self.call: IntArray = launch_calls(trace)[:-1]
        kind = tracks["kind"].astype(str).to_numpy()
        key = tracks["track"].to_numpy()
        self.pid = dict(zip(key.tolist(), ints(tracks["pid"]).tolist(), strict=True))
        rank = ints(tracks["rank"]) if "rank" in tracks else np.full(len(key), -1)
        self.rank = dict(zip(key.tolist(), rank.tolist(), strict=True))
        lasting = self.end > self.ts
        order = by_track(self.track)
        first = np.searchsorted(self.track[order], np.arange(int(key.max(initial=-1)) + 2))
        work = lasting & self.category(*DEVICE_CATEGORIES)
        self.threads: dict[int, IntArray] = {}
        self.streams: dict[int, IntArray] = {}
        for track, what in sorted(zip(key.tolist(), kind.tolist(), strict=True)):
            rows = order[first[track] : first[track + 1]]
            if what == "thread" and len(rows := rows[lasting[rows]]):
                self.threads[track] = rows
            elif what == "stream" and len(rows := rows[work[rows]]):
                self.streams[track] = rows
        self._segments: dict[int, Segments] = {}
        self._matches: dict[re.Pattern[str], list[bool]] = {}

    @property
    def trace(self) -> Trace:
        """The Trace, which is referred to weakly; ReferenceError if it was deleted."""
        trace = self._trace()
        if trace is None:
            raise ReferenceError("the Trace of these dependences was deleted: keep it while they are used")
        return trace

    def category(self, *words: str, rows: IntArray | slice = _ALL) -> BoolArray:
        """Return which slices (of all, or of `rows`) have one of these categories."""
        categories = self.trace.slices["category"].cat.categories
        return matching_codes(self._category[rows], categories.isin(list(words)))

    def named(self, pattern: re.Pattern[str], rows: IntArray | slice = _ALL) -> BoolArray:
        """Return which slices (of all, or of `rows`) have a name that matches a pattern."""
        if pattern not in self._matches:
            self._matches[pattern] = [pattern.search(word) is not None for word in self._names]
        return matching_codes(self._name[rows], self._matches[pattern])

    def full_buffers(self) -> IntArray:
        """Return the rows of CUPTI's records of launches that waited for a command buffer, by start."""
        if not any(map(_FULL_BUFFER.search, self._names)):
            return np.empty(0, np.int64)
        rows = np.flatnonzero(self.named(_FULL_BUFFER) & self.category("overhead"))
        return rows[np.argsort(self.ts[rows], kind="stable")]

    def names(self, words: Sequence[bool]) -> BoolArray:
        """Return which slices have one of the names in the mask `words`."""
        return matching_codes(self._name, words)

    def on_threads(self) -> BoolArray:
        """Return which slices are on threads and longer than 0 ns."""
        mask = np.zeros(len(self.ts), bool)
        for rows in self.threads.values():
            mask[rows] = True
        return mask

    def segments(self, track: int) -> Segments:
        """Return which slice owns each instant of a track; cached."""
        if track not in self._segments:
            rows = self.streams.get(track, self.threads.get(track, np.empty(0, np.int64)))
            self._segments[track] = segments(rows, self.ts[rows], self.end[rows])
        return self._segments[track]


def owners_at(resources: Resources, tracks: IntArray, instants: IntArray) -> IntArray:
    """Return, for each track and instant, the slice that owns the track then; -1 if none does."""
    out = np.full(len(tracks), -1)
    for track in np.unique(tracks).tolist():
        here, cut = tracks == track, resources.segments(track)
        out[here] = cut.owner[np.searchsorted(cut.at, instants[here], side="right") - 1]
    return out


def sync_table(trace: Trace) -> pd.DataFrame | None:
    """Return the file's records of waits for devices, as int64 with -1 for missing; None if it has none."""
    table = recorded_table(trace, "device_events")
    if table is None or "sync_kind" not in table or not table["sync_kind"].notna().any():
        return None
    table = table[table["sync_kind"].notna()]
    columns: dict[str, Any] = {"sync_kind": table["sync_kind"].astype(str).to_numpy()}
    for name in ("device", "stream", "correlation", "wait_on_stream", "wait_on_correlation"):
        values = table[name].astype("Int64") if name in table else pd.Series(-1, table.index, dtype="Int64")
        columns[name] = values.fillna(-1).clip(lower=-1).to_numpy(dtype=np.int64)
    return pd.DataFrame(columns)


def rows_of_correlation(resources: Resources, numbers: IntArray) -> IntArray:
    """Return the row of the host call with each of these correlation numbers; -1 without one."""
    correlation = ints(resources.trace.slices["correlation"])
    host = np.flatnonzero(resources.on_threads() & (correlation > 0))
    return np.append(host, -1)[positions(correlation[host], numbers)]


def stream_tracks(trace: Trace, device: IntArray, stream: IntArray) -> IntArray:
    """Return the track of each device and stream; -1 if there is none."""
    tracks = trace.tracks[(trace.tracks["kind"] == "stream").to_numpy()]
    tracks = tracks.drop_duplicates(["device", "stream"], keep="last")
    keys = pd.MultiIndex.from_arrays([ints(tracks["device"]), ints(tracks["stream"])])
    at = keys.get_indexer(pd.MultiIndex.from_arrays([device, stream]))
    return as_ints(np.append(tracks["track"].to_numpy(np.int64), -1)[at])


def latest_end(ends: IntArray, instants: IntArray) -> IntArray:
    """Return the position of the work that ended last by each instant; -1 if none had ended."""
    order = np.argsort(ends, kind="stable")
    return np.append(order, -1)[np.searchsorted(ends[order], instants, side="right") - 1]


def stacked(kind: type[Columns], parts: Sequence[Iterable[npt.NDArray[Any]]]) -> Columns:
    """Join tuples of columns, one below another."""
    if not parts:
        return kind(*[np.empty(0, np.int64)] * len(kind._fields))  # type: ignore[attr-defined]
    return kind(*(np.concatenate(column) for column in zip(*parts, strict=True)))
