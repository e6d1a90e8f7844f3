"""Reads Kineto's raw result into columns, once and in chunks, and chooses the rows to keep."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import compress, islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...background import checkpoint
from ...readers.codec.columns import ValueInterner, marked
from ...readers.kineto import KinetoColumns, MemoryColumns
from ...readers.kineto.activity_metadata import activity_metadata
from ...readers.kineto.arguments import to_json
from ...readers.kineto.columns import CALL_TYPES, DEVICE_TYPES, EXTRAS, concrete_matters, flags_of_name
from ...trace.arrays import IntArray
from ...trace.intervals import contains, union
from ...trace.report import ImportReport
from ...trace.strings import Coded
from ..devices import tell_left_out

_CHUNK: Final = 2048
"""Events per chunk. Each property is read for a whole chunk, so the events stay in the cache, which halves
the time."""

_MEMORY_EVENT: Final = "[memory]"
_ACCESSORS: Final = (
    "name", "activity_type", "start_ns", "duration_ns", "start_thread_id", "device_index",
    "device_resource_id", "correlation_id", "sequence_nr", "fwd_thread_id",
)  # fmt: skip


def readable(event: type, result: type) -> bool:
    """Return whether this torch has the (private) accessors that `take` needs."""
    return all(hasattr(event, name) for name in _ACCESSORS) and hasattr(result, "trace_activities")


def take(
    result: Any,
    event: type,
    report: ImportReport,
    *,
    shapes: bool,
    memory: bool,
    device: bool,
    pid: int,
    threads: dict[int, str],
) -> KinetoColumns:
    """Read a ``_ProfilerResult`` into columns, in pieces of a millisecond for `background.checkpoint`."""
    # Three calls cannot be split: copying the events, copying the activities, and freeing the result.
    # `threads` has the names of the live Python threads by native id. Shapes, memory and device work are read
    # only if `shapes`, `memory` and `device` are set.
    checkpoint()
    events = result.events()  # a copy, which is made while holding the GIL
    columns = _Columns(len(events), shapes, device)
    while events:  # from the end, so the list frees memory as the columns grow
        start = (len(events) - 1) // _CHUNK * _CHUNK
        columns.fill(events[start:], start, event)
        checkpoint()
        del events[start:]
    effect = "these events are called 'unknown', as in the files that torch writes"
    report.add("unreadable-name", "info", columns.unreadable, effect=effect)
    columns.drop_rows(columns.names.get(_MEMORY_EVENT, -2))
    on_devices, host = columns.device_activities()
    activities: list[Any] = []
    if memory or len(on_devices):
        checkpoint()
        activities = result.trace_activities()
    allocations = _memory(activities) if memory else MemoryColumns.empty()
    extra = details(activities, on_devices, host, len(columns.arrays["ts"]), report)
    read = columns.to_kineto(allocations, extra, pid, threads)
    checkpoint()  # next, the caller frees the result, in one piece
    return read


class _Columns:
    """Arrays filled chunk by chunk."""

    def __init__(self, n: int, shapes: bool, device: bool) -> None:
        self.with_device = device
        self.torch_thread: dict[int, int] = {}
        self.unreadable = 0
        self.arrays: dict[str, npt.NDArray[Any]] = {
            "name": np.empty(n, np.int32),
            "kind": np.empty(n, np.int8),
            "ts": np.empty(n, np.int64),
            "dur": np.empty(n, np.int64),
            "resource": np.empty(n, np.int64),
            "sequence": np.empty(n, np.int64),
            "fwd_thread": np.zeros(n, np.int64),
            "device": np.full(n, -1, np.int64),
            "correlation": np.full(n, -1, np.int64),
        }
        self.names, self.kinds, self.shapes = ValueInterner(), ValueInterner(), ValueInterner()
        self.dtypes, self.strides, self.concrete = ValueInterner(), ValueInterner(), ValueInterner()
        self.with_concrete: list[bool] = []
        self.first_calls: set[int] = set()  # combinations of name, shapes and element types
        if shapes:
            for key in ("shapes", "dtypes", "strides", "concrete"):
                self.arrays[key] = np.full(n, -1, np.int32)

    def fill(self, chunk: list[Any], start: int, event: Any) -> None:
        n = len(chunk)
        here = slice(start, start + n)
        self._put("name", here, map(self.names.__getitem__, self._names(event.name, chunk)), n)
        self._put("kind", here, map(self.kinds.__getitem__, map(event.activity_type, chunk)), n)
        self._put("ts", here, map(event.start_ns, chunk), n)
        self._put("dur", here, map(event.duration_ns, chunk), n)
        self._put("resource", here, map(event.device_resource_id, chunk), n)
        self._put("sequence", here, map(event.sequence_nr, chunk), n)
        numbered = self.arrays["sequence"][here] >= 0
        fwd = map(event.fwd_thread_id, compress(chunk, numbered.tolist()))
        self.arrays["fwd_thread"][here][numbered] = np.fromiter(fwd, np.int64, int(numbered.sum()))
        self._note_threads(chunk, here, event)
        if self.with_device:
            self._put("device", here, map(event.device_index, chunk), n)
            self._put("correlation", here, map(event.correlation_id, chunk), n)
        if "shapes" in self.arrays:
            read = getattr(event, "structured_input_shapes", None) or event.shapes
            texts_of = (self.shapes[repr(value)] if value else -1 for value in map(read, chunk))
            self._put("shapes", here, texts_of, n)
            self._fill_arguments(chunk, here, event)

    def _fill_arguments(self, chunk: list[Any], here: slice, event: Any) -> None:
        """Fill in element types of the inputs, and arguments of operators with data-dependent work."""
        if hasattr(event, "dtypes"):
            types = map(tuple, map(event.dtypes, chunk))
            self._put("dtypes", here, (self.dtypes[value] if value else -1 for value in types), len(chunk))
        name, shapes, dtypes = (self.arrays[key][here] for key in ("name", "shapes", "dtypes"))
        with_shapes = shapes >= 0
        first = self._new_calls(name, shapes, dtypes)  # all would cost 3 µs per event
        if hasattr(event, "structured_input_strides"):
            for i in first.tolist():
                text = to_json(event.structured_input_strides(chunk[i]))
                self.arrays["strides"][here.start + i] = self.strides[text]
        if hasattr(event, "concrete_inputs"):
            self.with_concrete += map(concrete_matters, islice(self.names, len(self.with_concrete), None))
            matters = np.array(self.with_concrete, bool)[self.arrays["name"][here]] & with_shapes
            matters[first] = True
            for i in np.flatnonzero(matters).tolist():  # spelled as in torch's files; empty for tensors
                values = ["" if value is None else str(value) for value in event.concrete_inputs(chunk[i])]
                self.arrays["concrete"][here.start + i] = self.concrete[to_json(values)]

    def _new_calls(
        self, name: npt.NDArray[Any], shapes: npt.NDArray[Any], dtypes: npt.NDArray[Any]
    ) -> IntArray:
        """Return the rows with shapes, in ascending order, that have a new combination of the three codes."""
        rows = np.flatnonzero(shapes >= 0)
        name, shapes, dtypes = (part.astype(np.int64)[rows] for part in (name, shapes, dtypes))
        keys, first = np.unique(name << 40 ^ shapes << 16 ^ dtypes, return_index=True)
        is_new = np.array([key not in self.first_calls for key in keys.tolist()], bool)
        self.first_calls.update(keys.tolist())
        return np.asarray(rows[np.sort(first[is_new])])

    def _put(self, name: str, here: slice, values: Any, n: int) -> None:
        checkpoint()
        column = self.arrays[name]
        column[here] = np.fromiter(values, column.dtype, n)

    def _names(self, read: Callable[[Any], str], chunk: list[Any]) -> list[str]:
        try:
            return list(map(read, chunk))
        except UnicodeDecodeError:  # torch 2.13 reads names of some frames from freed memory during imports
            return [self._name(read, one) for one in chunk]

    def _name(self, read: Callable[[Any], str], one: Any) -> str:
        try:
            return read(one)
        except UnicodeDecodeError:
            self.unreadable += 1
            return "unknown"

    def _note_threads(self, chunk: list[Any], here: slice, event: Any) -> None:
        """Store torch's number of each native thread, from one of its numbered rows."""
        rows = np.flatnonzero(self.arrays["sequence"][here] >= 0)
        tids, first = np.unique(self.arrays["resource"][here][rows], return_index=True)
        for tid, i in zip(tids.tolist(), rows[first].tolist(), strict=True):
            if tid not in self.torch_thread:
                self.torch_thread[tid] = int(event.start_thread_id(chunk[i]))

    def drop_rows(self, name: int) -> None:
        """Drop the rows of one name, which go to separate tables."""
        keep = self.arrays["name"] != name
        if not keep.all():
            self.arrays = {key: column[keep] for key, column in self.arrays.items()}

    def _on_device(self) -> npt.NDArray[np.bool_]:
        kinds = Coded(self.arrays["kind"], list(self.kinds))
        return marked(kinds, DEVICE_TYPES.__contains__) & self.with_device

    def device_activities(self) -> tuple[pd.DataFrame, frozenset[str]]:
        """Return the device rows, host rows that describe a launch or collective, and their names."""
        a, on_device = self.arrays, self._on_device()
        telling = [bool(flags_of_name(name) & EXTRAS) for name in self.names]
        host = np.array([*telling, False], bool)[a["name"]] & ~on_device
        rows = np.flatnonzero(on_device | host)
        called = frozenset(name for name, tells in zip(self.names, telling, strict=True) if tells)
        device = np.where(on_device, a["device"], -1)
        keys = {"device": device[rows], "resource": a["resource"][rows], "ts": a["ts"][rows]}
        return pd.DataFrame(keys, index=rows), called

    def to_kineto(
        self, memory: MemoryColumns, extra: Coded | None, pid: int, threads: dict[int, str]
    ) -> KinetoColumns:
        a = self.arrays
        n = len(a["ts"])
        on_device = self._on_device()
        return KinetoColumns(
            ts=a["ts"],
            dur=a["dur"],
            name=Coded(a["name"], list(self.names)),
            kind=Coded(a["kind"], list(self.kinds)),
            pid=np.full(n, pid, np.int64),
            tid=a["resource"],
            device=np.where(on_device, a["device"], -1),
            stream=np.where(on_device, a["resource"], -1),
            correlation=a["correlation"],
            sequence=a["sequence"],
            fwd_thread=a["fwd_thread"],
            torch_thread=self.torch_thread,
            shapes=Coded(a["shapes"], list(self.shapes)) if "shapes" in a else None,
            dtypes=Coded(a["dtypes"], list(map(to_json, self.dtypes))) if "dtypes" in a else None,
            concrete=Coded(a["concrete"], list(self.concrete)) if "concrete" in a else None,
            strides=Coded(a["strides"], list(self.strides)) if "strides" in a else None,
            extra=extra,
            thread_names={(pid, tid): name for tid, name in threads.items()},
            memory=memory,
        )


def _memory(activities: list[Any]) -> MemoryColumns:
    """Return the ``[memory]`` instants, whose addresses and totals are only in their JSON metadata."""
    parts = []
    for start in range(0, len(activities), _CHUNK):
        checkpoint()
        instants = [one for one in activities[start : start + _CHUNK] if one.type() == "cpu_instant_event"]
        of_memory = [one for one in instants if one.name() == _MEMORY_EVENT]
        if of_memory:
            parts.append(_allocations(of_memory))
    return MemoryColumns.joined(parts, 0)


def _allocations(instants: list[Any]) -> MemoryColumns:
    facts = json.loads("[" + ",".join("{" + activity.metadata_json() + "}" for activity in instants) + "]")

    def column(key: str, missing: int, dtype: Any = np.int64) -> npt.NDArray[Any]:
        return np.fromiter((fact.get(key, missing) for fact in facts), dtype, len(facts))

    return MemoryColumns(
        ts=_numbers(instants, "timestamp"),
        addr=column("Addr", 0, np.uint64),
        size=column("Bytes", 0),
        allocated=column("Total Allocated", -1),
        reserved=column("Total Reserved", -1),
        device=column("Device Id", -1),
        tid=_numbers(instants, "resource_id"),
    )


# Rows to keep: the user's Python calls, and the selected devices.

_CELL: Final = re.compile(r"(?:ipykernel_\d+[/\\]\d+\.py|<ipython-input-[^>]*>)\(\d+\): <module>$")
_KERNEL: Final = re.compile(r"(?:^|[/\\])ipykernel[/\\]")
_OURS: Final = re.compile(r"(?:^|[/\\])notebook_prof[/\\]")
_START_AND_STOP: Final = re.compile(r"notebook_prof[/\\]session[/\\]engine\.py\(\d+\): (?:start|stop)$")
# wrappers run the user's code: `fetch` in hooks.py, `ticking` in sources.py, all of `loader`
_NO_WRAPPER: Final = re.compile(
    r"(?:^|[/\\])notebook_prof[/\\](?:session[/\\](?:(?:engine|ticks|window)\.py|sources\.py.*: (?!ticking))|"
    r"collectors[/\\](?:base\.py|torch[/\\](?:(?:collector|session)\.py|hooks\.py.*: (?!fetch))))"
)


def users_only(columns: KinetoColumns) -> KinetoColumns:
    """Drop Python calls made by the recording and by ipykernel. Operators, ranges and device work stay."""
    # These are dropped: on a thread that runs a cell, calls outside the cell; on a thread that runs ipykernel
    # but no cell, every Python call; on all threads, our own calls but those that start and stop the
    # recording, and what they call, unless they are wrappers. In a script, only the last rule applies.
    python = marked(columns.kind, "python_function".__eq__)
    drop, bare, kept, kernel, cell = (
        python & marked(columns.name, test.search)
        for test in (_OURS, _NO_WRAPPER, _START_AND_STOP, _KERNEL, _CELL)
    )
    end = columns.ts + columns.dur
    for tid in pd.unique(columns.tid[python]):
        here = python & (columns.tid == tid)
        starts = columns.ts[bare & here]
        ours = union(starts, starts + np.maximum(columns.dur[bare & here], 1))
        drop |= here & contains(ours, columns.ts)
        if (cells := cell & here).any():
            inside = (columns.ts >= columns.ts[cells].min()) & (end <= end[cells].max())
            drop |= here & ~inside
        elif cell.any() and (kernel & here).any():
            drop |= here
    return columns.where(~drop | kept)


def of_devices(columns: KinetoColumns, devices: Sequence[int] | None, report: ImportReport) -> KinetoColumns:
    """Drop other devices' work and memory, and the calls that launched it. With None, keep everything."""
    # the launch calls are dropped too, since they would look like launches that lost their kernels; other
    # host rows stay
    if devices is None:
        return columns
    on_device = columns.device >= 0
    on_chosen = on_device & np.isin(columns.device, devices)
    other = on_device & ~on_chosen
    theirs = np.setdiff1d(columns.correlation[other], columns.correlation[on_chosen])
    # only calls, since operators have torch's numbers, which may coincide with CUPTI's
    is_call = marked(columns.kind, CALL_TYPES.__contains__)
    calls = ~on_device & is_call & np.isin(columns.correlation, theirs[theirs >= 0])
    memory = columns.memory
    kept = (memory.device < 0) | np.isin(memory.device, devices)
    tell_left_out(report, devices, "device work", int(other.sum()))
    left = MemoryColumns(*(getattr(memory, field.name)[kept] for field in fields(MemoryColumns)))
    return replace(columns.where(~(other | calls)), memory=left)


COMMUNICATION: Final = "record_param_comms"
"""Name of the range in which torch's process groups report the data they exchange."""
_KEY: Final = ["device", "resource", "ts"]


def details(
    activities: Sequence[Any], rows: pd.DataFrame, host: frozenset[str], n: int, report: ImportReport
) -> Coded | None:
    """Read the activities' JSON metadata as texts by row, like `KinetoColumns.extra`; None without any."""
    # `rows` can have details. They have row numbers as index, and the keys by which the details are found:
    # device (-1 for host rows), stream or native thread, and Unix ns. `host` has the names of host rows.
    if not len(rows):
        return None
    telling: list[Any] = []
    for start in range(0, len(activities), _CHUNK):
        checkpoint()
        part = activities[start : start + _CHUNK]
        telling += [one for one in part if one.type() in DEVICE_TYPES or (host and one.name() in host)]
    extra, unreadable = activity_metadata([_text(one) for one in telling])
    report.add(
        "details-unreadable", "info", unreadable, effect="their launch settings and bytes moved are unknown"
    )
    on_device = np.fromiter((one.type() in DEVICE_TYPES for one in telling), bool, len(telling))
    keys = {
        "device": np.where(on_device, _numbers(telling, "device_id"), -1),
        "resource": _numbers(telling, "resource_id"),
        "ts": _numbers(telling, "timestamp"),
    }
    coded = pd.DataFrame({**keys, "code": extra.codes}).drop_duplicates(_KEY)
    codes = np.full(n, -1, np.int64)
    codes[rows.index] = rows.merge(coded, on=_KEY, how="left")["code"].fillna(-1).to_numpy(np.int64)
    return Coded(codes, extra.values)


def _numbers(activities: list[Any], name: str) -> npt.NDArray[np.int64]:
    return np.fromiter((getattr(one, name)() for one in activities), np.int64, len(activities))


def _text(activity: Any) -> str:
    """Return the JSON metadata of an activity."""
    text: str = activity.metadata_json()
    # a collective's kernels also get that of its range, as in torch's files
    if activity.type() == "kernel" and (read := getattr(activity, "linked_activity", None)) is not None:
        linked = read()
        if linked is not None and linked.name() == COMMUNICATION and (more := linked.metadata_json()):
            return f"{text},{more}" if text else str(more)
    return text
