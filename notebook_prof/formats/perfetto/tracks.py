"""Tracks of a Perfetto trace, and the annotations of their events."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from ...readers.codec.columns import binary_array, json_members, marked, texts
from ...readers.codec.protobuf import Fields, WireError, fields, float64, signed, text, text_column
from ...readers.events import unique_name
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from .packets import ANNOTATION_NAMES, ANNOTATION_STRINGS, PROCESS_TREE, TRACK_DESCRIPTOR, Packets, either

_BOOL, _UINT, _INT, _DOUBLE, _TEXT, _POINTER, _JSON = 2, 3, 4, 5, 6, 7, 9
_ENTRIES, _ARRAY, _STRING_IID = 11, 12, 17
_DEEPEST: Final = 12


class Annotations:
    """Debug annotations of track events, each with its name and the position of its event."""

    def __init__(self, packets: Packets, events: Fields, epoch: IntArray) -> None:
        every = events.occurrences(4)
        self._every = every if (every.begin >= 0).all() else every.where(every.begin >= 0)
        self._events, self._packets = events, packets
        self.event: IntArray = self._every.owner
        self._fields = events.inside(self._every)
        self._epoch = epoch[self.event]
        interned = packets.interned(ANNOTATION_NAMES).names(self._epoch, self._fields.ints(1, 0))
        self.names = either(text_column(self._fields, 10), interned)

    def rows_named(self, name: str) -> IntArray:
        return np.flatnonzero(marked(self.names, name.__eq__))

    def ints(self, name: str, missing: int = -1) -> IntArray:
        """Return a whole number of each event."""
        result = np.full(self._events.count, missing, np.int64)
        rows = self.rows_named(name)
        unset = np.iinfo(np.int64).min
        kinds = (self._fields.ints(kind, unset)[rows] for kind in (_INT, _UINT, _POINTER))
        value = np.maximum.reduce(list(kinds))
        has = value != unset
        result[self.event[rows[has]]] = value[has]
        return result

    def values(self, name: str) -> tuple[IntArray, list[Any]]:
        """Return the values of each event by code, -1 for none; each distinct one is decoded once."""
        rows = self.rows_named(name)
        codes, values = self._decoded(rows)
        result = np.full(self._events.count, -1, np.int64)
        result[self.event[rows]] = codes
        return result, values

    def members(self, only: Collection[str] | None = None) -> Coded | None:
        """Return the annotations of each event as members of a JSON object; None if there are none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        every = range(-1, len(self.names.values))
        chosen = [i for i in every if only is None or (i >= 0 and self.names.values[i] in only)]
        rows = np.flatnonzero(np.isin(self.names.codes, chosen))
        if not len(rows):
            return None
        keys = pa.array([msgspec.json.encode(name).decode() for name in [*self.names.values, "?"]])
        named = self.names.codes[rows]
        key = keys.take(pa.array(np.where(named < 0, len(self.names.values), named)))
        unset = np.iinfo(np.int64).min
        number = np.maximum(self._fields.ints(_INT, unset), self._fields.ints(_UINT, unset))[rows]
        whole = number != unset
        values = pa.array(number).cast(pa.string())
        others = np.flatnonzero(~whole)
        if len(others):
            codes, decoded = self._decoded(rows[others])
            distinct = pa.array([msgspec.json.encode(value).decode() for value in decoded], pa.string())
            picked = np.zeros(len(whole), np.int64)
            picked[others] = codes
            values = pc.if_else(pa.array(whole), values, distinct.take(pa.array(picked)))
        return json_members(self.event[rows], self._events.count, key, values)

    def _decoded(self, rows: IntArray) -> tuple[IntArray, list[Any]]:
        encoded = binary_array(self._events.data, self._every.begin[rows], self._every.end[rows])
        encoded = encoded.dictionary_encode()
        pair, raw = encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
        codes, epoch = pair, self._epoch[rows]
        # texts may be interned, with numbers that are valid only in their epoch
        epochs, entries = self._packets.entries(ANNOTATION_STRINGS)
        keys = zip(epochs.tolist(), entries.ints(1, 0).tolist(), strict=True)
        strings = dict(zip(keys, texts(text_column(entries, 2)), strict=True))
        if strings:
            pair, _ = pd.factorize(codes * (int(self._epoch.max(initial=0)) + 1) + epoch)
            pair = pair.astype(np.int64)
        memo: dict[tuple[bytes, int, int], Any] = {}
        first = np.unique(pair, return_index=True)[1]
        values = [_value(raw[codes[i]], int(epoch[i]), strings, _DEEPEST, memo) for i in first.tolist()]
        return pair, values


def _value(
    raw: bytes,
    epoch: int,
    strings: dict[tuple[int, int], str],
    depth: int,
    memo: dict[tuple[bytes, int, int], Any],
) -> Any:
    """Return the value of an annotation; None if it has none or is damaged."""
    entries: dict[str, Any] = {}
    items: list[Any] = []
    result: Any = None
    if depth == 0:
        return None
    try:
        for number, value in fields(raw, (0, len(raw))):
            if number in (_ENTRIES, _ARRAY) and isinstance(value, tuple):
                # sizes and the like are the same in many annotations: each is decoded once
                key = raw[value[0] : value[1]], epoch, depth
                if key not in memo:
                    memo[key] = _value(key[0], epoch, strings, depth - 1, memo)
                if number == _ARRAY:
                    items.append(memo[key])
                else:
                    names = (text(raw, inner) for field, inner in fields(raw, value) if field == 10)
                    entries[next(names, "")] = memo[key]
            elif isinstance(value, tuple):
                result = text(raw, value) if number in (_TEXT, _JSON) else result
            elif number == _BOOL:
                result = value == 1
            elif number in (_UINT, _POINTER):
                result = value
            elif number == _INT:
                result = signed(value)
            elif number == _DOUBLE:
                result = float64(value)
            elif number == _STRING_IID:
                result = strings.get((epoch, value))
    except WireError:
        return result
    return items or entries or result


_STREAM: Final = re.compile(r"\b(?:streams?|queues?)\b[\s#:]*(\d{1,9})?|^gpu\b", re.IGNORECASE)
_DEVICE: Final = re.compile(r"\b(?:gpu|device|agent)[\s#:]*(\d{1,4})\b", re.IGNORECASE)
_UNITS: Final = {1: "ns", 2: "", 3: "bytes"}


class Descriptor(NamedTuple):
    """A trace's description of a track; -1 or empty for missing values."""

    name: str
    parent: int
    kind: str
    pid: int
    tid: int
    unit: str = ""
    multiplier: int = 1
    incremental: bool = False


class PerfettoTracks:
    """Tracks by number, made when they are first used."""

    def __init__(self, packets: Packets, builder: TraceBuilder) -> None:
        self._builder = builder
        self._process_names, self._thread_names = _process_tree(packets)
        _, fields = packets.messages(TRACK_DESCRIPTOR)
        self.descriptors = _descriptors(fields)
        self._tracks: dict[int, int] = {}
        self._names: set[tuple[int | None, str]] = set()
        self._not_threads: dict[int, int] = {}
        # process of each thread that has a track
        self.process_of = {d.tid: d.pid for d in self.descriptors.values() if d.kind == "thread"}

    def threads(self, track: IntArray) -> tuple[IntArray, IntArray]:
        """Return process and thread of each track. A track that is not a thread gets a negative number."""
        numbers, code = np.unique(track, return_inverse=True)
        pairs = np.array([self._thread_of(n) for n in numbers.tolist()], np.int64).reshape(-1, 2)
        return pairs[code, 0], pairs[code, 1]

    def _thread_of(self, number: int) -> tuple[int, int]:
        descriptor = self.descriptors.get(number)
        if descriptor is None:
            return -1, -1
        if descriptor.kind == "thread":
            return descriptor.pid, descriptor.tid
        pid = self._pid(number)
        return -1 if pid is None else pid, self._not_threads.setdefault(number, -2 - len(self._not_threads))

    def thread_names(self) -> dict[tuple[int, int], str]:
        """Return the names by process and thread, also of tracks that got a negative number."""
        return {
            self._thread_of(number): self.thread_name(d.tid, d.name) if d.kind == "thread" else d.name
            for number, d in self.descriptors.items()
            if d.kind == "thread" or number in self._not_threads
        }

    def thread_name(self, tid: int, own: str = "") -> str:
        return own or self._thread_names.get(tid) or f"thread {tid}"

    def of(self, track: IntArray) -> IntArray:
        """Return the builder's tracks for those with these numbers."""
        numbers, code = np.unique(track, return_inverse=True)
        for number in numbers.tolist():
            if number not in self._tracks:
                self._tracks[number] = self._made(number)
        return np.array([self._tracks[number] for number in numbers.tolist()], np.int64)[code]

    def is_stream(self, number: int) -> bool:
        """Return whether a track is a queue of a device, by its name."""
        descriptor = self.descriptors.get(number)
        if descriptor is None or descriptor.kind != "custom":
            return False
        return _STREAM.search(descriptor.name) is not None

    def _made(self, number: int) -> int:
        descriptor = self.descriptors.get(number)
        if descriptor is None:
            return self._builder.track(f"track {number}", "process")
        pid = self._pid(number)
        if descriptor.kind == "thread":
            name = self.thread_name(descriptor.tid, descriptor.name)
            return self._builder.track(name, pid=descriptor.pid, tid=descriptor.tid)
        if descriptor.kind == "counter":
            return self._builder.track(descriptor.name or "counter", "counter", pid=pid, unit=descriptor.unit)
        if self.is_stream(number):
            match, own = _STREAM.search(descriptor.name), _DEVICE.search(descriptor.name)
            stream = int(match[1]) if match is not None and match[1] else -2 - len(self._tracks)
            device = int(own[1]) if own else 0
            return self._builder.track(descriptor.name, "stream", device=device, stream=stream)
        named = self._process_names if descriptor.kind == "process" else {}
        name = descriptor.name or named.get(descriptor.pid, "")
        # lanes of one name may overlap
        unique = unique_name(name or f"track {number}", pid or None, self._names)
        return self._builder.track(unique, "process", pid=pid)

    def _pid(self, number: int) -> int | None:
        """Return the process of a track: its own, or that of the nearest track around it."""
        for _ in range(16):
            descriptor = self.descriptors.get(number)
            if descriptor is None:
                return None
            if descriptor.pid >= 0:
                return descriptor.pid
            number = descriptor.parent
        return None


def _descriptors(fields: Fields) -> dict[int, Descriptor]:
    name = either(text_column(fields, 2), text_column(fields, 10))
    process, thread, counter = (fields.inner(number) for number in (3, 4, 8))
    name = either(name, either(text_column(process, 6), text_column(thread, 5)))
    kinds = np.where(fields.has(8), 0, np.where(fields.has(4), 1, np.where(fields.has(3), 2, 3)))
    units = zip(texts(text_column(counter, 6)), counter.ints(3, 0).tolist(), strict=True)
    result: dict[int, Descriptor] = {}
    for uuid, *facts in zip(
        fields.ints(1, 0).tolist(),
        texts(name),
        fields.ints(5, -1).tolist(),
        [("counter", "thread", "process", "custom")[kind] for kind in kinds.tolist()],
        np.maximum(process.ints(1), thread.ints(1)).tolist(),
        thread.ints(2).tolist(),
        [unit or _UNITS.get(number, "") for unit, number in units],
        np.maximum(counter.ints(4, 1), 1).tolist(),
        (counter.ints(5, 0) == 1).tolist(),
        strict=True,
    ):
        described = Descriptor(*facts)
        # a later descriptor without a name keeps the earlier name
        before = result.get(uuid, described).name
        result[uuid] = described._replace(name=described.name or before)
    return result


def _process_tree(packets: Packets) -> tuple[dict[int, str], dict[int, str]]:
    _, trees = packets.messages(PROCESS_TREE)
    processes, threads = trees.inside(trees.occurrences(1)), trees.inside(trees.occurrences(2))
    # the last word of a command line is kept: names of programs distinguish processes
    return (
        dict(zip(processes.ints(1).tolist(), texts(text_column(processes, 3)), strict=True)),
        dict(zip(threads.ints(1).tolist(), texts(text_column(threads, 2)), strict=True)),
    )
