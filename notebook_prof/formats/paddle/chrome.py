"""Reads the bytes of a ``.paddle_trace.json`` file as columns."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from msgspec import UNSET, Raw, Struct, UnsetType, field

from ...errors import FormatError
from ...readers.codec.numbers import to_ns
from ...readers.codec.tolerant_json import NOTHING, decode_events, decoded
from ...trace.arrays import IntArray
from ...trace.nesting import nest
from ...trace.report import ImportReport
from .columns import (
    CATEGORY,
    DEVICE_COLUMNS,
    DEVICE_TYPES,
    INPUT_COLUMNS,
    MEMORY_COLUMNS,
    MEMORY_TYPES,
    ROW_COLUMNS,
    RUNTIME_TYPES,
    PaddleColumns,
    frame,
    shapes_text,
)

_CUT: Final = 999
_ROUNDS: Final = 8


def settle(rows: pd.DataFrame, offset: IntArray) -> None:
    """Move starts within their microsecond, so that consecutive events do not overlap."""
    # Paddle truncates `ts` to microseconds but writes `dur` to the nanosecond, so a tenth of all events would
    # be nested in their neighbour. `start_time` (`offset`: ns, -1 for none) has the start again, as a float32
    # relative to the first one. An event that then still begins less than a microsecond before its neighbour
    # ends is moved to that end.
    # Checked beside Paddle's protobuf of the same four runs (282 to 3,181 slices each). With the file's own
    # starts, 35 to 433 slices have a wrong parent. With neighbours moved, but `start_time` unused, 2 to 40
    # have, and self times are wrong by up to 42 µs. With both, none.
    cut = rows["ts"].to_numpy()
    low, high = _bounds(cut, offset)
    tid, is_call = rows["tid"].to_numpy(), rows["type"].isin(RUNTIME_TYPES).to_numpy()
    on_device = rows["device"].to_numpy() >= 0
    # the file has the events of a thread level by level, and calls of the runtime between the levels
    order = np.lexsort((np.arange(len(rows)), is_call, tid, on_device))
    neighbours = [np.diff(values[order].astype(np.int64)) == 0 for values in (tid, is_call, on_device)]
    same = np.logical_and.reduce(neighbours) & ~on_device[order][1:]
    first, last, dur = low[order], high[order], rows["dur"].to_numpy()[order]
    start = first.copy()
    for _ in range(_ROUNDS):
        end = (start + dur)[:-1]
        moved = np.where(same & (end > first[1:]) & (end <= last[1:]), end, first[1:])
        if (moved == start[1:]).all():
            break
        start[1:] = moved
    settled = low.copy()
    settled[order] = start
    rows["ts"] = settled


def starts_in_ns(ts: IntArray, owner: IntArray, tid: IntArray, rows: pd.DataFrame) -> IntArray:
    """Move instants, within their microsecond, into the slice to which they belong."""
    # `ts` is in whole microseconds, as ns; `owner` is the row of the event before each instant in the file,
    # -1 for none; `rows` are settled. An instant stays where no time of its microsecond is inside the owner
    # and outside its children.
    result = ts.copy()
    wrong = np.zeros(len(ts), bool)
    starts, dur = rows["ts"].to_numpy(), rows["dur"].to_numpy()
    host = np.flatnonzero(rows["device"].to_numpy() < 0)
    threads = np.concatenate([rows["tid"].to_numpy()[host], tid])
    n, durs = len(host), np.concatenate([dur[host], np.zeros(len(ts), np.int64)])
    for _ in range(_ROUNDS):
        parent = nest(threads, np.concatenate([starts[host], result]), durs).parent[n:]
        inner = np.append(host, -1)[np.where(parent < n, parent, -1)]
        wrong = (inner != owner) & (owner >= 0)
        late = wrong & (starts[owner] > result)
        past = wrong & ~late & (inner >= 0)
        moved = np.where(late, starts[owner], np.where(past, (starts + dur)[inner], result))
        moved = np.where(moved > ts + _CUT, result, moved)
        if (moved == result).all():
            break
        result = moved
    return np.asarray(np.where(wrong & (inner != owner), ts, result))


def _bounds(ts: IntArray, offset: IntArray) -> tuple[IntArray, IntArray]:
    """Return the earliest and latest start that the two representations of the time allow."""
    low, high = ts.copy(), ts + _CUT
    has_offset = np.flatnonzero(offset >= 0)
    if not len(has_offset):
        return low, high
    s = offset[has_offset]
    # rounded twice, to float32 and by the division, and printed in whole nanoseconds
    slack = np.ceil(2 * np.spacing(s.astype(np.float32)).astype(np.float64)).astype(np.int64) + 1
    first = int((ts[has_offset] - s - slack).max())
    last = int((ts[has_offset] + _CUT - s + slack).min())
    if first > last:
        return low, high
    low[has_offset] = np.maximum(low[has_offset], first + s - slack)
    high[has_offset] = np.minimum(high[has_offset], last + s + slack)
    return low, np.maximum(low, high)


class PaddleArguments(Struct, gc=False):
    """The arguments of a row; each kind of row has some of them."""

    start_time: str | None = None
    correlation: int | None = field(name="correlation id", default=None)
    device: int | None = None
    context: int | None = None
    stream: int | None = None
    registers: int | None = field(name="registers per thread", default=None)
    shared: int | None = field(name="shared memory", default=None)
    blocks_per_sm: float | None = field(name="blocks per SM", default=None)
    warps_per_sm: float | None = field(name="warps per SM", default=None)
    grid: Raw = NOTHING
    block: Raw = NOTHING
    occupancy: float | None = field(name="theoretical achieved occupancy %", default=None)
    bytes: int | None = None
    value: int | None = None
    place: str = ""
    addr: str | int = 0
    increase_bytes: int = 0
    current_allocated: int = 0
    current_reserved: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    input_shapes: Raw = NOTHING
    input_dtypes: Raw = NOTHING
    callstack: str | None = None
    name: str | int | None = None


class PaddleEvent(Struct, gc=False):
    """One element of ``traceEvents``; the last one is empty. Times stay text."""

    ph: str = ""
    cat: str | None = ""
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: PaddleArguments | None = None


class PaddleFile(Struct):
    """The object around the rows. The span number changed its spelling between 2.6.2 and 3.3.1."""

    rows: list[PaddleEvent] | UnsetType = field(name="traceEvents", default=UNSET)
    schema: Any = field(name="schemaVersion", default=None)
    span: Any = field(name="span_index", default=None)
    old_span: Any = field(name="span_indx", default=None)
    devices: Any = field(name="deviceProperties", default=None)
    extra: Any = field(name="ExtraInfo", default=None)


_DURATION: Final = re.compile(r"\[[^\[\]]*\]$")
_THREAD: Final = re.compile(r"(\d+)(?:\((?:Python|C\+\+)\))?")
_NO_ARGS: Final = PaddleArguments()
_MAX: Final = 1 << 63


def read_json(data: bytes, report: ImportReport) -> PaddleColumns:
    """Read the JSON that Paddle writes with ``export_chrome_tracing``, schema 1.0.0 to 1.0.2."""
    file = decode_events(data, PaddleFile, PaddleEvent, report)
    if (rows := file.rows) is UNSET:
        raise FormatError("there is no list 'traceEvents' in it: this is not a trace of paddle.profiler")
    events = _usable([row for row in rows if row.ph == "X"], report, "dur")
    memory = _usable([row for row in rows if row.ph == "i"], report, "ts")
    unused = Counter(row.ph for row in rows if row.ph and row.ph not in ("X", "i", "M", "s", "f"))
    for phase, count in unused.items():
        report.add("row-not-used", "loss", count, f"events of phase {phase!r}", "they are not in the tables")
    on_device = [row for row in events if row.cat in DEVICE_TYPES]
    columns = PaddleColumns(
        rows=frame(ROW_COLUMNS, [_row(row) for row in events]),
        device_events=frame(DEVICE_COLUMNS, [_device_event(row) for row in on_device]),
        memory=frame(MEMORY_COLUMNS, [_memory(row) for row in memory]),
        inputs=frame(INPUT_COLUMNS, _inputs(events)),
        extra={str(k): str(v) for k, v in file.extra.items()} if isinstance(file.extra, dict) else {},
        facts=_facts(file),
    )
    # starts are whole microseconds in the file: see `settle`
    columns.rows["ts"], columns.rows["dur"] = _ns(events, "ts"), _ns(events, "dur")
    columns.device_events["start_unix_ns"] = _ns(on_device, "ts")
    columns.memory["ts"] = _ns(memory, "ts")
    relative = [((row.args or _NO_ARGS).start_time or "").removesuffix(" us").encode() for row in events]
    offset, has_offset = to_ns(relative)
    settle(columns.rows, np.where(has_offset, offset, -1))
    instants = columns.memory
    tid = instants["tid"].to_numpy()
    owner = _owners(rows, events, memory)
    owner[np.append(columns.rows["tid"].to_numpy(), -1)[owner] != tid] = -1
    instants["ts"] = starts_in_ns(instants["ts"].to_numpy(), owner, tid, columns.rows)
    return columns


def _usable(rows: list[PaddleEvent], report: ImportReport, what: str) -> list[PaddleEvent]:
    """Return rows whose times are numbers, counting the others."""
    ok = np.ones(len(rows), bool)
    for part in ("ts", what):
        ok &= to_ns([getattr(row, part) for row in rows])[1]
    ok &= np.fromiter((row.name is not None for row in rows), bool, len(rows))
    if what == "ts":
        ok &= np.fromiter((row.cat in MEMORY_TYPES for row in rows), bool, len(rows))

    def shown(i: int) -> str:
        row = rows[i]
        return f"{row.name!r} of {row.cat!r}: ts {bytes(row.ts)!r}, dur {bytes(row.dur)!r}"

    report.broken_rows(~ok, shown)
    strange = {row.cat for row in rows if what == "dur" and (row.cat or "") not in CATEGORY}
    effect = "counted as operators"
    report.add("unknown-category", "info", len(strange), ", ".join(sorted(map(repr, strange))[:5]), effect)
    return [row for row, good in zip(rows, ok.tolist(), strict=True) if good]


def _ns(rows: list[PaddleEvent], part: str) -> Any:
    return to_ns([getattr(row, part) for row in rows])[0]


def _owners(rows: list[PaddleEvent], events: list[PaddleEvent], memory: list[PaddleEvent]) -> Any:
    """Return the host event of each memory event: the last one before it in the file."""
    position = {id(row): i for i, row in enumerate(rows)}
    host = [i for i, row in enumerate(events) if row.cat not in DEVICE_TYPES and row.cat not in RUNTIME_TYPES]
    named = np.array([position[id(events[i])] for i in host], np.int64)
    at = np.array([position[id(row)] for row in memory], np.int64)
    return np.append(np.array(host, np.int64), -1)[np.searchsorted(named, at) - 1]


def _name(row: PaddleEvent) -> str:
    return _DURATION.sub("", row.name or "")


def _row(row: PaddleEvent) -> tuple[Any, ...]:
    args, word = row.args or _NO_ARGS, row.cat or ""
    correlation = _in_range(args.correlation)
    if word in DEVICE_TYPES:
        return (0, 0, _name(row), word, -1, -1, *_device_and_stream(row), correlation, None, None)
    shapes = _shapes(args)
    thread = (_thread(row.pid), _thread(row.tid))
    text = shapes_text(shapes) if shapes else None
    return (0, 0, _name(row), word, *thread, -1, -1, correlation, text, args.callstack or None)


def _device_and_stream(row: PaddleEvent) -> tuple[int, int]:
    args = row.args or _NO_ARGS
    device = args.device if args.device is not None else _thread(row.pid)
    return _in_range(device), _in_range(args.stream if args.stream is not None else _thread(row.tid))


def _device_event(row: PaddleEvent) -> tuple[Any, ...]:
    a = row.args or _NO_ARGS
    floats = (a.blocks_per_sm, a.warps_per_sm, None if a.occupancy is None else a.occupancy / 100)
    return (
        _in_range(a.correlation),
        *_device_and_stream(row),
        0,
        _name(row),
        row.cat,
        _in_range_or_none(a.context),
        _list(a.grid),
        _list(a.block),
        *map(_in_range_or_none, (a.registers, a.shared)),
        *(float("nan") if value is None else value for value in floats),
        *map(_in_range_or_none, (a.bytes, a.value)),
    )


def _memory(row: PaddleEvent) -> tuple[Any, ...]:
    a = row.args or _NO_ARGS
    addr = int(a.addr) if isinstance(a.addr, int) or (a.addr.isdecimal() and len(a.addr) < 21) else 0
    addr = addr if 0 <= addr < 2 * _MAX else 0
    totals = (a.increase_bytes, a.current_allocated, a.current_reserved, a.peak_allocated, a.peak_reserved)
    return (0, row.cat, a.place, addr, *map(_in_range, totals), _thread(row.pid), _thread(row.tid))


def _inputs(rows: list[PaddleEvent]) -> list[tuple[str, str, str]]:
    described = ((row, row.args, _shapes(row.args)) for row in rows if row.args is not None)
    return [
        (_name(row), msgspec.json.encode(shapes).decode(), bytes(args.input_dtypes).decode(errors="replace"))
        for row, args, shapes in described
        if shapes
    ]


def _shapes(args: PaddleArguments) -> dict[str, Any] | None:
    value = decoded(args.input_shapes) if args.input_shapes else None
    return value if isinstance(value, dict) and value else None


def _facts(file: PaddleFile) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if isinstance(file.schema, str):
        facts["schema_version"] = file.schema
    span = file.span if file.span is not None else file.old_span
    if isinstance(span, str | int) and str(span).isdecimal():
        facts["span"] = int(span)
    if isinstance(file.devices, list):
        facts["device_properties"] = [device for device in file.devices if isinstance(device, dict)]
    return facts


def _thread(value: int | str | None) -> int:
    """Return the thread number in ``24588(Python)``; both spellings are the same thread."""
    if isinstance(value, str):
        match = _THREAD.fullmatch(value)
        value = int(match[1]) if match and len(match[1]) < 20 else -1
    return _in_range(value)


def _in_range(value: int | None) -> int:
    return value if value is not None and -_MAX <= value < _MAX else -1


def _in_range_or_none(value: int | None) -> int | None:
    return value if value is not None and -_MAX <= value < _MAX else None


def _list(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode(errors="replace")
    return re.sub(r"\s*,\s*", ", ", re.sub(r"(?<=\[)\s+|\s+(?=\])", "", text)) or None
