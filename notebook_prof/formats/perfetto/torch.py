"""PyTorch's traces in Perfetto's form: read into the same columns as its JSON."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import numpy as np

from ...readers.codec.columns import json_members, marked
from ...readers.kineto.activity_metadata import activity_metadata
from ...readers.kineto.arguments import to_json
from ...readers.kineto.assemble import assemble
from ...readers.kineto.columns import (
    BOOKKEEPING_TYPES,
    DEVICE_TYPES,
    MAX_DEVICE,
    KinetoColumns,
    MemoryColumns,
    concrete_matters,
    is_known,
)
from ...readers.kineto.event_types import EXTRA, AllArguments
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded, joined
from .events import Slices, Stages, TrackEvents
from .tracks import Annotations, PerfettoTracks

_MARKS: Final = ("Record function id", "Ev Idx", "External id")
_STAGES: Final = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
_CALLS: Final = ("cuda", "cu", "hip")
_OF_USERS: Final = ("ProfilerStep#", "##", "[param|", "Optimizer.", "enumerate(DataLoader)#")
_MEMORY: Final = "[memory]"
_EXTRA_WORDS: Final = frozenset(
    field.encode_name for field in msgspec.structs.fields(AllArguments) if field.name in EXTRA
)


def is_torch(events: TrackEvents, annotations: Annotations) -> bool:
    """Return whether PyTorch wrote the trace: by its categories, if it has any, and by its arguments."""
    words = events.category.values
    if len(words) and not any(is_known(word) for word in words):
        return False
    return any(name in _MARKS for name in annotations.names.values)


def add_torch(
    events: TrackEvents,
    slices: Slices,
    annotations: Annotations,
    stages: Stages,
    tracks: PerfettoTracks,
    builder: TraceBuilder,
) -> None:
    """Put a trace of PyTorch into the builder, with launches, phases, modules and steps."""
    row = slices.row
    device, stream = annotations.ints("device")[row], annotations.ints("stream")[row]
    correlation = annotations.ints("correlation")[row]
    pid, tid = tracks.threads(events.track[row])
    kind = _kinds(events, row, annotations, device, stream)
    on_device = marked(kind, lambda text: text.lower() in DEVICE_TYPES)
    device = np.where(on_device, np.where(device >= 0, device, np.maximum(pid, 0)), -1)
    stream = np.where(on_device, np.where(stream >= 0, stream, tid), -1)
    name = Coded(events.name.codes[row], events.name.values)
    none = np.full(len(stages.ts), -1, np.int64)
    stage_kinds = Coded(stages.stage.codes, [_STAGES[word] for word in stages.categories()])
    shapes, dtypes, concrete = _inputs(annotations, row, len(stages.ts), name)
    columns = KinetoColumns(
        np.concatenate([events.ts[row], stages.ts]),
        np.concatenate([slices.dur, stages.dur]),
        joined([name, stages.name]),
        joined([kind, stage_kinds]),
        np.concatenate([pid, none]),
        np.concatenate([tid, none]),
        np.minimum(np.concatenate([device, stages.device]), MAX_DEVICE),
        np.concatenate([stream, stages.stream]),
        np.concatenate([correlation, stages.number("correlation")]),
        np.concatenate([annotations.ints("Sequence number")[row], none]),
        np.concatenate([annotations.ints("Fwd thread id", 0)[row], np.zeros(len(none), np.int64)]),
        shapes=shapes,
        dtypes=dtypes,
        concrete=concrete,
        extra=joined([_extra_of_events(annotations, row), _extra_of_stages(stages)]),
        thread_names=tracks.thread_names(),
        memory=_memory(events, annotations, tracks),
    )
    bookkeeping = marked(columns.kind, lambda text: text.lower() in BOOKKEEPING_TYPES)
    unknown = sorted({text for text in kind.values if not is_known(text)})
    effect = "rows of these are operators on threads, and kernels on devices"
    builder.report.add("unknown-category", "info", len(unknown), ", ".join(unknown[:3]), effect)
    assemble(columns.where(~bookkeeping), builder)
    others = np.flatnonzero((events.kind == 3) & ~marked(events.name, _MEMORY.__eq__))
    if len(others):
        ts, name = events.ts[others], Coded(events.name.codes[others], events.name.values)
        track, dur = tracks.of(events.track[others]), np.zeros(len(others), np.int64)
        builder.slices(ts=ts, dur=dur, track=track, name=name, category="annotation")


def _kinds(
    events: TrackEvents, row: IntArray, annotations: Annotations, device: IntArray, stream: IntArray
) -> Coded:
    """Return Kineto's activity types; missing ones follow from names and arguments."""
    if len(events.category.values):
        codes = events.category.codes[row]
        values = [*events.category.values, "user_annotation"]
        return Coded(np.where(codes < 0, len(values) - 1, codes), values)
    words = ("user_annotation", "cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset")
    by_name = np.array([*(_kind_of(text) for text in events.name.values), 0], np.int64)[
        events.name.codes[row]
    ]
    on_device = (device >= 0) & (stream >= 0)
    has_operator = np.zeros(len(events.ts), bool)
    for mark in ("Record function id", "Sequence number", "Input Dims", "External id"):
        has_operator[annotations.event[annotations.rows_named(mark)]] = True
    call = (annotations.ints("cbid")[row] >= 0) | (by_name == 2)
    host = np.where(call, 2, np.where(has_operator[row] & (by_name != 0), 1, 0))
    return Coded(np.where(on_device, np.where(by_name > 3, by_name, 3), host), words)


def _kind_of(name: str) -> int:
    """Return 0 for users' ranges, 1 for other names, 2 for calls, and 4 or 5 for copies and fills."""
    if name.startswith("Memcpy"):
        return 4
    if name.startswith("Memset"):
        return 5
    if name.startswith(_CALLS) and "::" not in name and name[-1:].isalnum():
        return 2
    return 0 if name.startswith(_OF_USERS) else 1


def _inputs(
    annotations: Annotations, row: IntArray, more: int, name: Coded
) -> tuple[Coded | None, Coded | None, Coded | None]:
    """Return shapes, element types and values of operators' inputs, as for the JSON."""
    results: list[Coded | None] = []
    for words, spell in (
        (("Input Dims", "Input dims"), _shapes),
        (("Input type",), _list_json),
        (("Concrete Inputs",), _list_json),
    ):
        codes = np.full(len(row), -1, np.int64)
        values: list[Any] = []
        for word in words:
            own, decoded = annotations.values(word)
            codes = np.where(own[row] >= 0, own[row] + len(values), codes)
            values += decoded
        if words[0] == "Concrete Inputs":
            codes = np.where(marked(name, concrete_matters), codes, -1)
        texts = [spell(value) for value in values]
        missing = np.array([*(text == "" for text in texts), True])
        codes = np.append(np.where(missing[codes], -1, codes), np.full(more, -1))
        results.append(Coded(codes, texts) if (codes >= 0).any() else None)
    return results[0], results[1], results[2]


def _shapes(value: Any) -> str:
    """Return shapes as text; an array without elements has no value in this format."""
    return str(_without_none(value)) if isinstance(value, list) else ""


def _without_none(value: Any) -> Any:
    if value is None:
        return []
    return [_without_none(each) for each in value] if isinstance(value, list) else value


def _list_json(value: Any) -> str:
    if not isinstance(value, list):
        return ""
    return to_json(["" if each is None else each if isinstance(each, str) else str(each) for each in value])


def _extra_of_events(annotations: Annotations, row: IntArray) -> Coded:
    members = annotations.members(only=_EXTRA_WORDS)
    if members is None:
        return Coded(np.full(len(row), -1, np.int64), [])
    return _as_extra(Coded(members.codes[row], members.values))


def _extra_of_stages(stages: Stages) -> Coded:
    import pyarrow as pa

    stage, names, values = stages.pairs
    own = marked(names, _EXTRA_WORDS.__contains__)
    if not own.any():
        return Coded(np.full(len(stages.ts), -1, np.int64), [])
    keys = pa.array([json.dumps(text) for text in names.values], pa.string())
    words = [*values.values, ""]
    used, value = np.unique(values.codes[own], return_inverse=True)
    texts = pa.array([_json_value(words[code]) for code in used.tolist()], pa.string())
    words_of = keys.take(pa.array(names.codes[own])), texts.take(pa.array(value))
    return _as_extra(json_members(stage[own], len(stages.ts), *words_of))


def _json_value(text: str) -> str:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.dumps(text)
    return text


def _as_extra(members: Coded) -> Coded:
    extra, _ = activity_metadata(members.values)
    return Coded(np.append(extra.codes, -1)[members.codes], extra.values)


def _memory(events: TrackEvents, annotations: Annotations, tracks: PerfettoTracks) -> MemoryColumns:
    rows = np.flatnonzero((events.kind == 3) & marked(events.name, _MEMORY.__eq__))
    if not len(rows):
        return MemoryColumns.empty()
    own = (annotations.ints(word, missing)[rows] for word, missing in _MEMORY_WORDS.items())
    addr, size, allocated, reserved, device = own
    _, tid = tracks.threads(events.track[rows])
    return MemoryColumns(events.ts[rows], addr.view(np.uint64), size, allocated, reserved, device, tid)


_MEMORY_WORDS: Final = {"Addr": 0, "Bytes": 0, "Total Allocated": -1, "Total Reserved": -1, "Device Id": -1}
"""Arguments of memory events, and the value to use where one is missing."""
