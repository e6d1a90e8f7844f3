"""Tracks, as Perfetto describes them: processes with threads and counters, GPUs with streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray
from ...trace.pairing import pair
from .wire import bytes_field, number_field

# Lanes of a track: Perfetto nests a track's slices, so slices that cross others get tracks beside it.

_ROUNDS: Final = 2


def lanes(track: IntArray, ts: IntArray, dur: IntArray) -> IntArray:
    """Return the lane of each slice in its track, such that slices of a lane are disjoint or nested."""
    # Slices are sorted by start, longest first. Lane 0 has all that cross nothing, and the longest of those
    # that do. The others are divided in the same way; slices that still cross are placed disjointly, on as
    # many lanes as are open at a time.
    lane = np.zeros(len(ts), np.int64)
    remaining = np.flatnonzero(dur > 0)
    for number in range(_ROUNDS):
        lane[remaining] = number
        remaining = remaining[~_nested(track[remaining], ts[remaining], dur[remaining])]
        if not len(remaining):
            return lane
    lane[remaining] = _ROUNDS + _apart(track[remaining], ts[remaining], dur[remaining])
    return lane


def _nested(track: IntArray, ts: IntArray, dur: IntArray) -> BoolArray:
    """Return a mask of slices that do not cross one another."""
    # Each end is matched with the latest open begin. Where slices cross, ends are matched with begins of
    # others; these form cycles, of which the longest slice stays. The rest is processed again.
    stays = np.ones(len(ts), bool)
    while True:
        rows = np.flatnonzero(stays)
        partner = _partners(track[rows], ts[rows], dur[rows])
        odd = np.flatnonzero(partner != np.arange(len(rows)))
        if not len(odd):
            return stays
        position = np.full(len(rows), -1, np.int64)
        position[odd] = np.arange(len(odd))
        following = position[partner[odd]]
        longest = np.argsort(np.argsort(-dur[rows[odd]], kind="stable"))
        best = longest
        for _ in range(len(odd).bit_length() + 1):
            best = np.minimum(best, best[following])
            following = following[following]
        stays[rows[odd[best != longest]]] = False


def _partners(track: IntArray, ts: IntArray, dur: IntArray) -> IntArray:
    """Return the slice with the end matched to each begin."""
    owner, when, is_begin = _edges(ts, dur)
    pairs = pair(track[owner], when, is_begin)
    partner = np.full(len(ts), -1, np.int64)
    partner[owner[pairs.begin]] = owner[pairs.end]
    return partner


def _edges(ts: IntArray, dur: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
    """Return slice, time and kind of all begins and ends in order; at one instant ends, inner ones first."""
    n = len(ts)
    when = np.concatenate([(ts + dur)[::-1], ts])
    order = np.argsort(when, kind="stable")
    row = np.arange(n)
    return np.concatenate([row[::-1], row])[order], when[order], (np.arange(2 * n) >= n)[order]


def _apart(track: IntArray, ts: IntArray, dur: IntArray) -> IntArray:
    """Return lanes of slices, disjoint in each: a slice takes the lane that was left last."""
    # so begins are matched with preceding ends, as ends are with begins elsewhere
    owner, when, is_begin = _edges(ts, dur)
    pairs = pair(track[owner], when, ~is_begin)
    first = np.arange(len(ts))
    first[owner[pairs.end]] = owner[pairs.begin]
    while (further := first[first] != first).any():
        first[further] = first[first[further]]
    roots, code = np.unique(first, return_inverse=True)
    order = np.argsort(track[roots], kind="stable")
    _, starts = np.unique(track[roots][order], return_index=True)
    size = np.diff(np.append(starts, len(roots)))
    number = np.empty(len(roots), np.int64)
    number[order] = np.arange(len(roots)) - np.repeat(starts, size)
    return number[code]


UUID, NAME, PROCESS, THREAD, PARENT, COUNTER, ORDER, RANK = 1, 2, 3, 4, 5, 8, 11, 12
_EXPLICIT: Final = 3
_MOST_ID: Final = (1 << 31) - 1
_VALUES: Final = ("counter", "memory")
_UNITS: Final = {"ns": 1, "bytes": 3}


class Descriptions:
    """Numbers and descriptions of tracks; `messages` has parents before children."""

    def __init__(self, trace: Trace) -> None:
        rows = trace.tracks.astype(object).where(trace.tracks.notna(), None).to_dict("records")
        self._rows: dict[int, dict[str, Any]] = {int(row["track"]): row for row in rows}
        self._uuids: dict[Any, int] = {}
        self._threads: set[tuple[int, int]] = set()
        self.messages: list[bytes] = []
        for track, row in self._rows.items():
            self._described(track, -1 if row["kind"] in _VALUES else 0)

    def slices(self, track: IntArray, lane: IntArray) -> IntArray:
        """Return the numbers of the tracks of these lanes."""
        width = int(lane.max(initial=0)) + 1
        keys, code = np.unique(track * width + lane, return_inverse=True)
        uuids = [self._described(*divmod(key, width)) for key in keys.tolist()]
        return np.array([*uuids, 0], np.int64)[code]

    def values(self, track: IntArray) -> IntArray:
        """Return the numbers of the tracks of these counters."""
        keys, code = np.unique(track, return_inverse=True)
        return np.array([*(self._described(key, -1) for key in keys.tolist()), 0], np.int64)[code]

    def beside(self, name: str) -> int:
        """Return the number of a further top-level track."""
        return self._put(name, [bytes_field(NAME, name)])

    def _described(self, track: int, lane: int) -> int:
        """Return the number of a lane; lane -1 is that of a counter."""
        if (track, lane) in self._uuids:
            return self._uuids[track, lane]
        row = self._rows[track]
        rank = number_field(RANK, min(track + 1, _MOST_ID))
        if lane < 0:
            unit = row["unit"] or ""
            counter = (
                number_field(3, _UNITS[unit]) if unit in _UNITS else bytes_field(6, unit) if unit else b""
            )
            fields = [bytes_field(NAME, row["name"]), rank, bytes_field(COUNTER, counter)]
            uuid = self._put((track, lane), fields + self._parent(row))
        elif lane > 0:
            name = bytes_field(NAME, f"{row['name']} ({lane + 1})")
            parent = number_field(PARENT, self._described(track, 0))
            uuid = self._put((track, lane), [name, rank, parent])
        elif (thread := self._thread(row)) is not None:
            uuid = self._put((track, lane), [bytes_field(THREAD, thread), rank, *self._parent(row)])
        else:
            uuid = self._put((track, lane), [bytes_field(NAME, row["name"]), rank, *self._parent(row)])
        return uuid

    def _thread(self, row: dict[str, Any]) -> bytes | None:
        """Return the thread of a track; None if it is not one, has no number, or is already described."""
        pid, tid = row["pid"], row["tid"]
        if row["kind"] != "thread" or not _is_number(pid) or not _is_number(tid):
            return None
        if (pid, tid) in self._threads:
            return None
        self._threads.add((pid, tid))
        return number_field(1, pid) + number_field(2, tid) + bytes_field(5, row["name"])

    def _parent(self, row: dict[str, Any]) -> list[bytes]:
        if row["kind"] == "stream" and row["device"] is not None:
            rank = f"rank {row['rank']} " if row["rank"] is not None else ""
            name = f"{rank}GPU {row['device']}"
            order = number_field(ORDER, _EXPLICIT)
            return [number_field(PARENT, self._group(name, [bytes_field(NAME, name), order]))]
        if not _is_number(pid := row["pid"]):
            return []
        named = bytes_field(PROCESS, number_field(1, pid) + bytes_field(6, f"process {pid}"))
        return [number_field(PARENT, self._group(("process", pid), [named, number_field(ORDER, _EXPLICIT)]))]

    def _group(self, key: Any, fields: list[bytes]) -> int:
        return self._uuids[key] if key in self._uuids else self._put(key, fields)

    def _put(self, key: Any, fields: Iterable[bytes]) -> int:
        uuid = self._uuids[key] = len(self._uuids) + 1
        self.messages.append(number_field(UUID, uuid) + b"".join(fields))
        return uuid


def _is_number(value: int | None) -> bool:
    """Return whether this number of a process or thread fits Perfetto's field."""
    return value is not None and 0 < value <= _MOST_ID
