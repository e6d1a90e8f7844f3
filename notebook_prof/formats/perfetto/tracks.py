"""Tracks of a Perfetto trace: threads, processes, counters, and lanes of any other name."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from ...readers.codec.protobuf_columns import Fields, text_column
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from .packets import PROCESS_TREE, TRACK_DESCRIPTOR, Packets, either

_STREAM: Final = re.compile(r"\b(?:streams?|queues?)\b[\s#:]*(\d{1,9})?|^gpu\b", re.IGNORECASE)
_DEVICE: Final = re.compile(r"\b(?:gpu|device|agent)[\s#:]*(\d{1,4})\b", re.IGNORECASE)
_UNITS: Final = {1: "ns", 2: "", 3: "bytes"}


class Descriptor(NamedTuple):
    """What a trace tells of a track; -1 and empty for what it does not."""

    name: str
    parent: int
    kind: str
    pid: int
    tid: int
    unit: str = ""
    multiplier: int = 1
    incremental: bool = False


class Tracks:
    """Tracks by their number, made when something lies on them."""

    def __init__(self, packets: Packets, builder: TraceBuilder) -> None:
        self._builder = builder
        self._process_names, self._thread_names = _process_tree(packets)
        _, fields = packets.messages(TRACK_DESCRIPTOR)
        self.descriptors = _descriptors(fields)
        self._tracks: dict[int, int] = {}
        self._names: set[tuple[str, int]] = set()
        self._process_of: dict[int, int] | None = None

    def threads(self, track: IntArray) -> tuple[IntArray, IntArray]:
        """Return process and thread of each track, -1 for those that are no threads."""
        numbers, code = np.unique(track, return_inverse=True)
        descriptors = [self.descriptors.get(number) for number in numbers.tolist()]
        ids = [(d.pid, d.tid) if d is not None and d.kind == "thread" else (-1, -1) for d in descriptors]
        pairs = np.array(ids, np.int64).reshape(-1, 2)[code]
        return pairs[:, 0], pairs[:, 1]

    def thread_name(self, pid: int, tid: int, own: str = "") -> str:
        """Return the name of a thread."""
        return own or self._thread_names.get(tid) or f"thread {tid}"

    def process_of(self, tid: int) -> int | None:
        """Return the process of a thread; None where no track tells it."""
        if self._process_of is None:
            kinds = [d for d in self.descriptors.values() if d.kind == "thread"]
            self._process_of = {d.tid: d.pid for d in kinds}
        return self._process_of.get(tid)

    def of(self, track: IntArray) -> IntArray:
        """Return the builder's tracks for those with these numbers."""
        numbers, code = np.unique(track, return_inverse=True)
        return np.array([self._track(number) for number in numbers.tolist()], np.int64)[code]

    def is_stream(self, number: int) -> bool:
        """Return whether a track is a queue of a device, by its name."""
        descriptor = self.descriptors.get(number)
        return (
            descriptor is not None
            and descriptor.kind == "custom"
            and _STREAM.search(descriptor.name) is not None
        )

    def _track(self, number: int) -> int:
        if number not in self._tracks:
            self._tracks[number] = self._made(number)
        return self._tracks[number]

    def _made(self, number: int) -> int:
        descriptor = self.descriptors.get(number)
        if descriptor is None:
            return self._builder.track(f"track {number}", "process")
        pid = self._pid(number)
        if descriptor.kind == "thread":
            name = self.thread_name(descriptor.pid, descriptor.tid, descriptor.name)
            return self._builder.track(name, pid=descriptor.pid, tid=descriptor.tid)
        if descriptor.kind == "counter":
            return self._builder.track(descriptor.name or "counter", "counter", pid=pid, unit=descriptor.unit)
        if self.is_stream(number):
            match, device = _STREAM.search(descriptor.name), _DEVICE.search(descriptor.name)
            stream = int(match[1]) if match is not None and match[1] else -2 - len(self._tracks)
            return self._builder.track(
                descriptor.name, "stream", device=int(device[1]) if device else 0, stream=stream
            )
        name = descriptor.name or (
            self._process_names.get(descriptor.pid, "") if descriptor.kind == "process" else ""
        )
        return self._builder.track(self._unique(name or f"track {number}", pid or -1), "process", pid=pid)

    def _unique(self, name: str, pid: int) -> str:
        """Return a name that no other lane of the process has, as lanes of one name may overlap."""
        count, result = 1, name
        while (result, pid) in self._names:
            count += 1
            result = f"{name} {count}"
        self._names.add((result, pid))
        return result

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
    process, thread, counter = (_inner(fields, number) for number in (3, 4, 8))
    name = either(name, either(text_column(process, 6), text_column(thread, 5)))
    unit_name = text_column(counter, 6)
    kinds = np.where(fields.has(8), 0, np.where(fields.has(4), 1, np.where(fields.has(3), 2, 3)))
    names, units = [*name.values, ""], [*unit_name.values, ""]
    columns = (
        fields.ints(1, 0),
        name.codes,
        fields.ints(5, -1),
        kinds,
        np.maximum(process.ints(1), thread.ints(1)),
        thread.ints(2),
        unit_name.codes,
        counter.ints(3, 0),
        np.maximum(counter.ints(4, 1), 1),
        counter.ints(5, 0),
    )
    result: dict[int, Descriptor] = {}
    for uuid, code, parent, kind, pid, tid, unit_code, unit, multiplier, incremental in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        before = result.get(uuid)
        result[uuid] = Descriptor(
            names[code] or (before.name if before else ""),
            parent,
            ("counter", "thread", "process", "custom")[kind],
            pid,
            tid,
            units[unit_code] or _UNITS.get(unit, ""),
            multiplier,
            incremental == 1,
        )
    return result


def _inner(fields: Fields, number: int) -> Fields:
    """Return the fields of one inner message a message, empty where there is none."""
    begin, end = np.zeros(fields.count, np.int64), np.zeros(fields.count, np.int64)
    every = fields.occurrences(number)
    every = every.where(every.begin >= 0)
    begin[every.owner], end[every.owner] = every.begin, every.end
    return Fields(fields.data, begin, end)


def _process_tree(packets: Packets) -> tuple[dict[int, str], dict[int, str]]:
    """Return the names of processes and threads."""
    _, trees = packets.messages(PROCESS_TREE)
    processes, threads = trees.inside(trees.occurrences(1)), trees.inside(trees.occurrences(2))
    # of a command line, the last word is kept: names of programs are what tells processes apart
    return tuple(
        {
            number: [*names.values, ""][code]
            for number, code in zip(numbers.tolist(), names.codes.tolist(), strict=True)
        }
        for numbers, names in (
            (processes.ints(1), text_column(processes, 3)),
            (threads.ints(1), text_column(threads, 2)),
        )
    )  # type: ignore[return-value]
