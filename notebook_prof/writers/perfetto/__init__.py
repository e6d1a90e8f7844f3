"""Perfetto's protocol buffers, for ui.perfetto.dev and its trace processor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...atomic_files import Sink, atomic_gzip
from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray, consecutive
from ...trace.intervals import as_ints
from ...trace.taxonomy import MODULE_PREFIX, STEP_PREFIX
from ..rows import KIND, ON_DEVICE
from ..values import event_texts
from .tracks import (
    FIXED64,
    LENGTH,
    VARINT,
    Descriptions,
    MessageColumn,
    binary_array,
    bytes_field,
    chosen,
    concatenated,
    lanes,
    lengths,
    number_field,
    sizes,
    tag,
)

SEQUENCE: Final = 1
NUMBERS: Final = ("step", "correlation", "device", "stream")
ROW: Final = "Ev Idx"
"""Key of a slice's row number, named as in PyTorch's traces."""
TEXTS: Final = ("phase", "module", "shapes", "line")
MEMORY: Final = ("Addr", "Bytes", "Total Allocated", "Total Reserved", "Device Id")
ANNOTATIONS: Final = (*NUMBERS, *TEXTS, *MEMORY, ROW, "args")
CATEGORY_WORDS: Final = (*dict.fromkeys((*KIND.values(), *ON_DEVICE.values())), "cpu_instant_event")
STEP, ALLOCATION = CATEGORY_WORDS.index("user_annotation") + 1, len(CATEGORY_WORDS)
MEMORY_NAME: Final = "[memory]"
_END, _BEGIN, _INSTANT, _COUNTER, _MEMORY = 2, 1, 3, 4, 5
_TIMESTAMP, _SEQUENCE_ID, _FLAGS, _TRACK_EVENT = 8, 10, 13, 11
_NEEDS_STATE: Final = 2
_CHUNK: Final = 1 << 16


class EventOrder(NamedTuple):
    """All events in order of time; arrays of shape (n,)."""

    ts: IntArray
    kind: npt.NDArray[np.int8]  # as Perfetto numbers them; 5 for an allocation
    # row of `slices`, or after these of the steps that are not slices; of `counters`; of `allocations`
    row: IntArray


class PerfettoEvents:
    """The events of a trace as packets; `names` and `texts` are interned, numbered from 1."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._slices = trace.slices
        words = [str(name) for name in self._slices["name"].cat.categories]
        number = {name: i + 1 for i, name in enumerate(words)}
        steps = trace.steps
        step_names = [f"{STEP_PREFIX}{step}" for step in steps["step"].tolist()]
        own = np.array([name not in number for name in step_names], bool)
        modules = self._slices["name"][self._slices["category"] == "module"].cat.codes.unique()
        self._name_codes = np.zeros((2, len(words) + 1), np.int64)
        self._name_codes[:, :-1] = np.arange(len(words)) + 1
        for code in modules.tolist():  # named as Kineto's
            name = MODULE_PREFIX + words[code].removeprefix(MODULE_PREFIX)
            self._name_codes[1, code] = number.setdefault(name, len(number) + 1)
        self._memory_name = number.setdefault(MEMORY_NAME, len(number) + 1)
        codes = [number.setdefault(name, len(number) + 1) for name in step_names]
        self._step_names = np.array(codes, np.int64)[own]
        self.names = list(number)
        self._ts, self._dur = (
            np.concatenate([self._slices[column], steps[column][own]]) for column in ("ts", "dur")
        )
        kinds = [str(word) for word in self._slices["category"].cat.categories]
        of_place = [[KIND[kind] for kind in kinds], [ON_DEVICE.get(kind, KIND[kind]) for kind in kinds]]
        codes_of = [[CATEGORY_WORDS.index(word) + 1 for word in row] for row in of_place]
        self._category_codes = np.array(codes_of, np.int64)
        self._streams = trace.tracks.loc[trace.tracks["kind"] == "stream", "track"]
        self.descriptions = Descriptions(trace)
        self._uuid = self._places(own)
        self._uuid_of_value = self.descriptions.numbers(as_ints(trace.counters["track"].to_numpy()), -1)
        self._uuid_of_allocation = self.descriptions.numbers(as_ints(trace.allocations["track"].to_numpy()))
        self.texts, self._text_codes = self._interned_texts()
        self._told = event_texts(trace)
        self._flows = [self._arrows("src"), self._arrows("dst")]

    def packets(self) -> Iterator[Any]:
        """Yield the packets as bytes, some ten thousand at a time."""
        schedule = self._schedule()
        for start in range(0, len(schedule.ts), _CHUNK):
            rows = slice(start, start + _CHUNK)
            part = EventOrder(schedule.ts[rows], schedule.kind[rows], schedule.row[rows])
            yield _packets(part.ts, self._track_events(part))

    def _places(self, own: BoolArray) -> IntArray:
        """Return the number of the track of each slice and step."""
        first = len(self._slices)
        track = as_ints(self._slices["track"].to_numpy())
        uuid = self.descriptions.numbers(track, lanes(track, self._ts[:first], self._dur[:first]))
        if not own.any():
            return uuid
        ts, dur = self._ts[first:], self._dur[first:]
        order = np.lexsort((-dur, ts))
        lane = np.empty(len(ts), np.int64)
        lane[order] = lanes(np.zeros(len(ts), np.int64), ts[order], dur[order])
        numbers = {
            i: self.descriptions.beside(f"steps {i + 1}" if i else "steps") for i in set(lane.tolist())
        }
        return np.concatenate([uuid, np.array([numbers[i] for i in lane.tolist()], np.int64)])

    def _schedule(self) -> EventOrder:
        """Sort all events by time: at one instant ends, inner ones first, then begins, instants, values."""
        long = np.flatnonzero(self._dur > 0)
        begins = long
        if len(self._dur) > len(self._slices):
            begins = long[np.lexsort((long, -self._dur[long], self._ts[long]))]
        counters, allocations = (
            table["ts"].to_numpy() for table in (self._trace.counters, self._trace.allocations)
        )
        instants = np.flatnonzero(self._dur == 0)
        parts = (
            (_END, (self._ts + self._dur)[begins[::-1]], begins[::-1]),
            (_BEGIN, self._ts[begins], begins),
            (_INSTANT, self._ts[instants], instants),
            (_COUNTER, counters, np.arange(len(counters))),
            (_MEMORY, allocations, np.arange(len(allocations))),
        )
        ts = np.concatenate([part[1] for part in parts])
        order = np.argsort(ts, kind="stable")
        kind = np.concatenate([np.full(len(part[1]), part[0], np.int8) for part in parts])
        return EventOrder(ts[order], kind[order], np.concatenate([part[2] for part in parts])[order])

    def _interned_texts(self) -> tuple[list[str], dict[str, IntArray]]:
        """Return the texts of slices, and for each column the number of the text of each category."""
        number: dict[str, int] = {}
        codes = {}
        for column in TEXTS:
            words = [str(word) for word in self._slices[column].cat.categories]
            codes[column] = np.array([*(number.setdefault(w, len(number) + 1) for w in words), 0], np.int64)
        return list(number), codes

    def _arrows(self, end: str) -> tuple[IntArray, IntArray]:
        """Return the slices at one end of the flows, in order, and the flows' numbers."""
        flows = self._trace.flows
        row = as_ints(flows[end].to_numpy())
        order = np.argsort(row, kind="stable")
        return row[order], order + 1

    def _track_events(self, part: EventOrder) -> Any:
        """Return the track event of each packet."""
        n, first = len(part.ts), len(self._slices)
        opens = (part.kind == _BEGIN) | (part.kind == _INSTANT)
        steps = np.flatnonzero(opens & (part.row >= first))
        rows = np.flatnonzero(opens & (part.row < first))
        own, counts, memory = (np.flatnonzero(part.kind == kind) for kind in (_END, _COUNTER, _MEMORY))
        own = np.concatenate([own, steps, rows])
        uuid, name, category = (np.zeros(n, np.int64) for _ in range(3))
        uuid[own] = self._uuid[part.row[own]]
        uuid[counts] = self._uuid_of_value[part.row[counts]]
        uuid[memory] = self._uuid_of_allocation[part.row[memory]]
        name[steps], category[steps] = self._step_names[part.row[steps] - first], STEP
        name[memory], category[memory] = self._memory_name, ALLOCATION
        slices = self._slices.iloc[part.row[rows]]
        is_module = (slices["category"] == "module").to_numpy().astype(np.int64)
        name[rows] = self._name_codes[is_module, slices["name"].cat.codes.to_numpy()]
        on_stream = slices["track"].isin(self._streams).to_numpy().astype(np.int64)
        category[rows] = self._category_codes[on_stream, slices["category"].cat.codes.to_numpy()]
        is_named, is_value = name > 0, part.kind == _COUNTER
        head = MessageColumn(n).constant(tag(9, VARINT))
        head.varint(np.where(part.kind == _MEMORY, _INSTANT, part.kind).astype(np.int64))
        head.constant(tag(11, VARINT)).varint(uuid)
        head.constant(tag(10, VARINT), is_named).varint(name, is_named)
        head.constant(tag(3, VARINT), is_named).varint(category, is_named)
        pieces = []
        if len(counts):
            value = np.zeros(n)
            value[counts] = self._trace.counters["value"].to_numpy()[part.row[counts]]
            head.constant(tag(44, FIXED64), is_value).fixed64(value, is_value)
        if len(memory):
            events = self._trace.allocations.iloc[part.row[memory]]
            pieces.append(_spread(_memory_annotations(events), memory, n))
        if len(rows):
            pieces.append(_spread(self._of_slices(slices, part.row[rows]), rows, n))
        return concatenated(head.array(), *pieces)

    def _of_slices(self, slices: pd.DataFrame, row: IntArray) -> Any:
        """Return annotations and flows of slices."""
        numbers = MessageColumn(len(slices))
        _put_number(numbers, ROW, row, np.ones(len(row), bool))
        for column in NUMBERS:
            values = slices[column].to_numpy(dtype=np.int64, na_value=-1)
            if (values >= 0).any():
                _put_number(numbers, column, values, values >= 0)
        for column in TEXTS:
            texts = self._text_codes[column].take(slices[column].cat.codes.to_numpy(), mode="wrap")
            if texts.any():
                _put_number(numbers, column, texts, texts > 0, field=17)
        columns = [numbers.constant(b"").array()]
        if self._told is not None:
            columns.append(_json_annotations(self._told[row]))
        for (ends, number), field in zip(self._flows, (47, 48), strict=True):
            columns.append(_flow_fields(row, ends, number, tag(field, FIXED64)))
        return concatenated(*[column for column in columns if column is not None])


def _spread(column: Any, rows: IntArray, count: int) -> Any:
    """Return the pieces at these positions of a longer column, which is empty elsewhere."""
    size = np.zeros(count, np.int64)
    size[rows] = lengths(column)
    content = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    start = np.frombuffer(column.buffers()[1], np.int64)[column.offset]
    return binary_array(content[start : start + int(size.sum())], size)


def _put_number(pieces: MessageColumn, name: str, values: IntArray, where: BoolArray, field: int = 4) -> None:
    """Add an annotation with an integer, or with the number of an interned text."""
    before = number_field(1, ANNOTATIONS.index(name) + 1) + tag(field, VARINT)
    pieces.constant(tag(4, LENGTH), where).varint(sizes(values) + len(before), where)
    pieces.constant(before, where).varint(values, where)


def _memory_annotations(events: pd.DataFrame) -> Any:
    pieces = MessageColumn(len(events))
    every = np.ones(len(events), bool)
    for name, column in zip(MEMORY, ("addr", "bytes", "allocated", "reserved", "device"), strict=True):
        values = np.ascontiguousarray(events[column].to_numpy())
        numbers = values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64)
        _put_number(pieces, name, numbers, every, 7 if name == "Addr" else 4)
    return pieces.array()


def _json_annotations(texts: npt.NDArray[np.object_]) -> Any:
    """Return an annotation with the further attributes of slices as JSON; None if there are none."""
    codes, distinct = pd.factorize(texts)
    before = number_field(1, ANNOTATIONS.index("args") + 1)
    content = [
        bytes_field(4, before + bytes_field(9, f"{{{text[1:]}}}")) if text else b"" for text in distinct
    ]
    return chosen(content, as_ints(codes)) if any(content) else None


def _flow_fields(row: IntArray, ends: IntArray, number: IntArray, before: bytes) -> Any:
    """Return the fields for flows that begin, or end, at these slices."""
    first, last = np.searchsorted(ends, row, "left"), np.searchsorted(ends, row, "right")
    count = last - first
    total = int(count.sum())
    if not total:
        return None
    at = consecutive(first, count)
    pieces = MessageColumn(total).constant(before).fixed64(number[at]).array()
    return binary_array(np.frombuffer(pieces.buffers()[2], np.uint8), count * (len(before) + 8))


def _packets(ts: IntArray, events: Any) -> Any:
    """Return complete packets around track events."""
    size = lengths(events)
    fixed = tag(_SEQUENCE_ID, VARINT) + bytes([SEQUENCE]) + tag(_FLAGS, VARINT) + bytes([_NEEDS_STATE])
    fixed += tag(_TRACK_EVENT, LENGTH)
    whole = 1 + sizes(ts) + len(fixed) + sizes(size) + size
    head = MessageColumn(len(ts)).constant(tag(1, LENGTH)).varint(whole)
    head.constant(tag(_TIMESTAMP, VARINT)).varint(ts).constant(fixed).varint(size)
    return concatenated(head.array(), events)


_CLOCK_SNAPSHOT, _TRACK_DESCRIPTOR, _INTERNED = 6, 60, 12
_CATEGORIES, _NAMES, _ANNOTATION_NAMES, _STRINGS = 1, 2, 3, 29
_BOOT, _REAL = 6, 1
_STATE_CLEARED = 1
_AT_ONCE: Final = 1 << 14


def write_perfetto(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a Trace as Perfetto protobuf, which ui.perfetto.dev and `read_trace` open; ``.gz`` compresses."""
    # Threads are threads of their process, streams tracks of their GPU, counters have their unit. Slices are
    # begins and ends, in order of time. If slices of a track cross, which Perfetto cannot show, the later
    # ones are on tracks beside it, named ``main (2)``. Flows are numbered. Phase, step, module, shapes,
    # correlation, device and stream are annotations, and so are the event's arguments and launch settings.
    # Allocations are ``[memory]`` instants, as in PyTorch's export. Times are nanoseconds of the boot clock,
    # from the start of the trace; a clock snapshot has the Unix time.
    # Call stacks, the metadata with its tables, and the import report are not written.
    with atomic_gzip(path) as file:
        _write(trace, file)


def _write(trace: Trace, file: Sink) -> None:
    events = PerfettoEvents(trace)
    start = int(trace.metadata.get("start_unix_ns", 0))
    clocks = (
        number_field(1, clock) + number_field(2, value) for clock, value in ((_BOOT, 0), (_REAL, start))
    )
    snapshot = b"".join(bytes_field(1, clock) for clock in clocks) + number_field(2, _BOOT)
    file.write(_packet(bytes_field(_CLOCK_SNAPSHOT, snapshot)))
    for message in events.descriptions.messages:
        file.write(_packet(bytes_field(_TRACK_DESCRIPTOR, message)))
    _write_interned(events, file)
    for column in events.packets():
        file.write(memoryview(column.buffers()[2] or b""))


def _write_interned(events: PerfettoEvents, file: Sink) -> None:
    """Write texts and their numbers, from 1; the first packet clears the sequence's earlier state."""
    flags = _STATE_CLEARED | _NEEDS_STATE
    for kind, texts in (
        (_CATEGORIES, CATEGORY_WORDS),
        (_ANNOTATION_NAMES, ANNOTATIONS),
        (_NAMES, events.names),
        (_STRINGS, events.texts),
    ):
        for first in range(0, len(texts), _AT_ONCE):
            entries = (
                bytes_field(kind, number_field(1, first + i + 1) + bytes_field(2, text))
                for i, text in enumerate(texts[first : first + _AT_ONCE])
            )
            file.write(_packet(bytes_field(_INTERNED, b"".join(entries)), flags))
            flags = _NEEDS_STATE


def _packet(content: bytes, flags: int = 0) -> bytes:
    head = number_field(10, SEQUENCE) + (number_field(13, flags) if flags else b"")
    return bytes_field(1, head + content)


__all__ = ["write_perfetto"]
