"""Reads the bytes of a ``.paddle_trace.pb`` file as columns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from ...errors import FormatError
from ...readers.codec.columns import texts
from ...readers.codec.protobuf import PADDING, Fields, Span, WireError, fields, signed, text, text_column
from ...trace.arrays import BoolArray, FloatArray, IntArray, optional
from ...trace.nesting import inherit
from ...trace.report import ImportReport
from .columns import (
    DEVICE_COLUMNS,
    DEVICE_TYPES,
    EVENT_TYPES,
    INPUT_COLUMNS,
    MEMORY_COLUMNS,
    MEMORY_TYPES,
    ROW_COLUMNS,
    PaddleColumns,
    event_type,
    frame,
    shapes_text,
)

_LIMIT: Final = 1 << 62
_OPERATOR: Final = EVENT_TYPES.index("Operator")
_DEVICE_FACTS: Final = (
    "", "id", "name", "totalGlobalMem", "computeMajor", "computeMinor", "maxThreadsPerBlock",
    "maxThreadsPerMultiprocessor", "regsPerBlock", "regsPerMultiprocessor", "warpSize", "sharedMemPerBlock",
    "sharedMemPerMultiprocessor", "smCount", "sharedMemPerBlockOptin",
)  # fmt: skip
"""Names of the fields, numbered from 1."""
_IDS: Final = ("pid", "tid", "device", "stream", "correlation")
_LEFT_OUT: Final = "these events are left out"


def read_protobuf(data: bytes, report: ImportReport) -> PaddleColumns:
    """Read the tree of events, in exact nanoseconds, that Paddle writes with ``export_protobuf``."""
    raw = np.frombuffer(data + bytes(PADDING), np.uint8)
    root = Fields(raw, np.array([0]), np.array([len(data)]))
    if root.broken:
        effect = "the last thread's events, thread names and devices may be missing"
        advice = "the writing process was probably killed, or the copy is not complete"
        report.truncated("the last field is cut", effect, advice)
    facts, extra = _facts(data, root)
    threads = root.inside(root.occurrences(3))
    nodes = threads.inside(threads.occurrences(2))
    if not facts and not nodes.count:
        raise FormatError("it holds no version and no threads: this is not a trace of paddle.profiler")
    runtime, of_memory = (nodes.inside(nodes.occurrences(number)) for number in (4, 5))
    launched = runtime.inside(runtime.occurrences(2))
    of_calls, of_devices = runtime.occurrences(1), launched.occurrences(1)
    hosts, calls, devices = nodes.inner(3), runtime.inside(of_calls), launched.inside(of_devices)
    memory = of_memory.inside(of_memory.occurrences(1))
    messages = (threads, nodes, hosts, runtime, calls, launched, devices, of_memory, memory)
    broken = sum(message.broken for message in messages)
    report.broken_rows(broken, "a field that reaches beyond its message", _LEFT_OUT)
    # the event that stands for a whole thread has no times
    begin = np.where((hosts.ints(3, 0) == 0) & ~_is_time(hosts.ints(4, 0)), -1, nodes.contents(3)[0])
    host_rows = _rows(hosts, begin, 3, event_type, report, pid=5, tid=6)
    call_rows = _rows(calls, of_calls.begin, 2, lambda *_: "CudaRuntime", report, pid=4, tid=5, correlation=6)
    work = _rows(devices, of_devices.begin, 3, _work_type, report, device=5, stream=7, correlation=8)
    inputs = _add_supplements(data, threads.occurrences(2).owner, nodes, hosts.ints(2, 0), host_rows, report)
    rows = pd.concat([host_rows, call_rows, work]).sort_values("at", kind="stable", ignore_index=True)
    return PaddleColumns(
        rows=rows[list(ROW_COLUMNS)],
        device_events=_device_events(devices, work),
        memory=_memory(memory, report),
        inputs=frame(INPUT_COLUMNS, inputs),
        extra=extra,
        facts=facts,
    )


def _is_time(value: IntArray) -> BoolArray:
    return (value > 0) & (value < _LIMIT)


def _work_type(kind: int, name: str) -> str:
    word = event_type(kind, name)
    return word if word in DEVICE_TYPES else "Kernel"


def _facts(data: bytes, root: Fields) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the file says about the recording, and its ``ExtraInfo``."""
    facts: dict[str, Any] = {}
    if root.has(1).any():
        facts["schema_version"] = texts(text_column(root, 1))[0]
    if root.has(2).any():
        facts["span"] = int(root.ints(2)[0])
    devices = root.occurrences(5)
    for span in zip(devices.begin.tolist(), devices.end.tolist(), strict=True):
        with suppress(WireError):
            own = [(number, value) for number, value in fields(data, span) if 0 < number < len(_DEVICE_FACTS)]
            named = {_DEVICE_FACTS[n]: v if isinstance(v, int) else text(data, v) for n, v in own}
            facts.setdefault("device_properties", []).append(named)
    pairs = root.inside(root.occurrences(4))
    return facts, dict(zip(*(texts(text_column(pairs, number)) for number in (1, 2)), strict=True))


def _rows(
    events: Fields,
    begin: IntArray,  # position of each event in the file; -1 for none
    start: int,  # number of the field of starts; the next one is that of ends
    type_of: Callable[[int, str], str],
    report: ImportReport,
    **numbers: int,  # of the fields of other columns
) -> pd.DataFrame:
    """Return the events with times as `ROW_COLUMNS` and their position ``at``, by their number."""
    ts, end = events.ints(start, 0), events.ints(start + 1, 0)
    names = texts(text_column(events, 1))
    words = [type_of(kind, name) for kind, name in zip(events.ints(2, 0).tolist(), names, strict=True)]
    ids = {name: events.ints(numbers[name], 0) if name in numbers else -1 for name in _IDS}
    table = pd.DataFrame({"at": begin, "ts": ts, "dur": end - ts, "name": names, "type": words, **ids})
    table = table.assign(shapes=None, callstack=None).astype({"at": "int64", **ROW_COLUMNS})
    timed = _is_time(ts) & _is_time(end)
    report.broken_rows((begin >= 0) & ~timed, lambda i: f"{names[i]!r} has no time", _LEFT_OUT)
    return table[(begin >= 0) & timed]


def _device_events(devices: Fields, work: pd.DataFrame) -> pd.DataFrame:
    kernels, copies, fills = (devices.inner(number) for number in (9, 10, 11))
    is_kernel = devices.has(9)

    def size(first: int) -> list[str | None]:
        parts = np.stack([kernels.ints(first + axis, 0) for axis in range(3)], axis=1)
        return [str(part) if own else None for part, own in zip(parts.tolist(), is_kernel, strict=True)]

    def share(number: int) -> FloatArray:
        bits = kernels.ints(number, 0).astype(np.uint32)
        return np.where(is_kernel, bits.view(np.float32).astype(np.float64), np.nan)

    facts = {
        "context": devices.ints(6, 0),
        "grid": size(4),
        "block": size(1),
        "registers_per_thread": optional(np.where(is_kernel, kernels.ints(9, 0), -1)),
        "shared_memory_bytes": optional(np.where(is_kernel, kernels.ints(7, 0) + kernels.ints(8, 0), -1)),
        "blocks_per_sm": share(15),
        "warps_per_sm": share(16),
        "occupancy": share(17),
        "bytes": optional(np.where(devices.has(10), copies.ints(1), fills.ints(1))),
        "value": optional(fills.ints(3)),
    }
    table = pd.DataFrame(facts).loc[work.index].join(work.rename(columns={"ts": "start_unix_ns"}))
    return table[list(DEVICE_COLUMNS)].astype(dict(DEVICE_COLUMNS)).reset_index(drop=True)


def _memory(events: Fields, report: ImportReport) -> pd.DataFrame:
    kind = events.ints(2, 0)
    known = (kind >= 0) & (kind < len(MEMORY_TYPES)) & _is_time(events.ints(1, 0))
    report.broken_rows(~known, lambda i: f"no time, or no type {kind[i]} of memory events", _LEFT_OUT)
    numbers = {"bytes": 6, "allocated": 8, "reserved": 9, "peak_allocated": 10, "peak_reserved": 11}
    numbers |= {"ts": 1, "pid": 4, "tid": 5}
    table = pd.DataFrame({name: events.ints(number, 0) for name, number in numbers.items()})
    table["type"] = [MEMORY_TYPES[i] if ok else "" for i, ok in zip(kind.tolist(), known, strict=True)]
    table = table.assign(place=texts(text_column(events, 7)), addr=events.ints(3, 0).view(np.uint64))
    return table.loc[known, list(MEMORY_COLUMNS)].astype(dict(MEMORY_COLUMNS)).reset_index(drop=True)


def _add_supplements(
    data: bytes, thread: IntArray, nodes: Fields, kind: IntArray, rows: pd.DataFrame, report: ImportReport
) -> list[tuple[str, str, str]]:
    """Give shapes and stacks to the nearest operator around their event; return all inputs."""
    # Paddle records input shapes on an operator's inner event; here the operator itself has them.
    number = np.arange(nodes.count)
    keys, parents = (zip(thread.tolist(), nodes.ints(n, -1).tolist(), strict=True) for n in (1, 2))
    node_of = {key: i for i, key in enumerate(keys)}
    above = np.array([node_of.get(key, -1) for key in parents], np.int64)
    operator = np.where(nodes.has(3) & (kind == _OPERATOR), number, -1)
    # a parent comes before its children
    home = inherit(np.where(above < number, above, -1), operator)
    home = np.where(home >= 0, home, number)
    every = nodes.occurrences(6)
    lists = nodes.inside(every)
    owner = every.owner[lists.occurrences(1).owner]
    supplements = lists.inside(lists.occurrences(1))
    stacks = texts(text_column(supplements, 7))
    spans = (np.stack(supplements.contents(number), axis=1).tolist() for number in (5, 6))
    names, inputs = rows["name"].to_dict(), []
    shapes_of: dict[int, str] = {}
    stack_of: dict[int, str | None] = {}
    for row, stack, of_shapes, of_types in zip(home[owner].tolist(), stacks, *spans, strict=True):
        if row not in names:
            report.add("record-without-operator", "info", effect="the shapes of an event are left out")
            continue
        try:
            shapes = _by_argument(data, of_shapes, lambda span: _shape(data, span))
            types = _by_argument(data, of_types, lambda span: text(data, span))
        except WireError as error:
            report.broken_rows(1, str(error), "the shapes of an event are left out")
            continue
        if shapes:
            shapes_of[row] = shapes_text(shapes)
            words = (msgspec.json.encode(part).decode() for part in (shapes, types))
            inputs.append((names[row], *words))
        stack_of[row] = stack or None
    rows["shapes"], rows["callstack"] = rows.index.map(shapes_of.get), rows.index.map(stack_of.get)
    return inputs


def _by_argument(data: bytes, span: Span, decode: Callable[[Span], Any]) -> dict[str, Any]:
    """Return the lists in a message of names and lists, by name."""
    keys: list[str] = []
    lists: list[list[Any]] = []
    for number, part in fields(data, span):
        if number == 1:
            keys.append(text(data, part))
        elif isinstance(part, tuple):
            inner = (entry for _, entry in fields(data, part))
            lists.append([decode(entry) for entry in inner if isinstance(entry, tuple)])
    return dict(zip(keys, lists, strict=False))


def _shape(data: bytes, span: Span) -> list[int]:
    return [signed(size) for _, size in fields(data, span) if isinstance(size, int)]
