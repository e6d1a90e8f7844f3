"""Reads Kineto's JSON files: the events as columns, and the file's metadata."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from ...errors import FormatError
from ...trace.arrays import BoolArray, IntArray
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport
from ...trace.strings import Coded
from ..base import PiecesReader, Probe
from ..codec.columns import ValueInterner, marked
from ..codec.tolerant_json import UNDECODABLE, add_second_list, decoded, mend
from .activity_metadata import extra_text
from .arguments import module_path, to_json
from .assemble import assemble
from .column_builder import ColumnBuilder, add_pairs_and_marks
from .columns import BOOKKEEPING_TYPES, DEVICE, MAX_DEVICE, UNKNOWN, KinetoColumns, is_known
from .event_decoder import EVENTS, EventText, read_events

_MARKS: Final = re.compile(
    rb'"traceEvents"\s*:\s*\[\s*\]|"schemaVersion"|"deviceProperties"|"baseTimeNanoseconds"|PyTorch Profiler'
    rb'|"cat":\s*"(?:cpu_op|user_annotation|cuda_runtime|cuda_driver|kernel|python_function'
    rb'|Operator|Kernel|Runtime|Memcpy|Memset)"'
)
_FAR_NS: Final = 3_600_000_000_000
_LONGEST_TEXT: Final = 1000
_RANK_IN_NAME: Final = re.compile(r"(?:rank|worker)[-_]?(\d{1,6})(?!\d)", re.IGNORECASE)


class KinetoReader(PiecesReader):
    """Reads ``*.pt.trace.json`` of every torch since 1.8, compressed or not."""

    # Times are exact to the nanosecond. Bookkeeping rows (``PyTorch Profiler (0)``, the record window) are
    # left out. So are the file's flow arrows, which are computed from the correlation and sequence numbers
    # instead.

    name = "kineto"
    priority = 500
    describes = (
        "PyTorch profiler (Kineto) JSON: torch.profiler's export_chrome_trace, tensorboard_trace_handler"
    )

    def recognises(self, probe: Probe) -> bool:
        """Return whether the head is JSON with one of Kineto's keys or categories."""
        return probe.head.lstrip()[:1] in (b"{", b"[") and _MARKS.search(probe.head) is not None

    def read_pieces(self, pieces: Iterable[bytes], builder: TraceBuilder) -> None:
        file_name = str(builder.metadata.get("file", ""))
        columns, metadata = parse(pieces, builder.report, file_name)
        builder.metadata.update(metadata)
        assemble(columns, builder)


class Parsed(NamedTuple):
    """The rows of a file in its order, and its metadata."""

    columns: KinetoColumns
    metadata: dict[str, Any]  # what `_metadata` finds: ``devices rank world_size backend host`` and others


def read_columns(data: bytes, report: ImportReport) -> KinetoColumns:
    """Parse a Kineto file in memory; see `parse`."""
    return parse([data], report).columns


def parse(pieces: Iterable[bytes], report: ImportReport, file_name: str = "") -> Parsed:
    """Read a Kineto file: decompressed JSON, in object or array form."""
    # `file_name` gives the rank (``rank-3``, ``worker3``) if the file's ``distributedInfo`` does not. Memory
    # holds one piece, some hundred kilobytes of decoded events, and the columns, but never the whole text.
    # Invalid JSON is repaired within a few events at a time.
    text = EventText(pieces)
    if not text.has_list:
        start = bytes(text.head[:40])
        raise FormatError(f"there is no list 'traceEvents' in it: not a trace of torch.profiler ({start!r})")
    events = ColumnBuilder(report)
    tail = read_events(text, text.head.lstrip().startswith(b"["), events, report)
    add_pairs_and_marks(events, report)
    top_level = _top_level(text.head, tail, report)
    metadata = _metadata(top_level, file_name)
    return Parsed(_columns(events, _base_ns(top_level), metadata.get("rank"), report), metadata)


def _columns(events: ColumnBuilder, base: int, rank: int | None, report: ImportReport) -> KinetoColumns:
    column = events.column
    flags, pid, tid, dims = column("flags"), column("pid"), column("tid"), column("dims")
    kinds = [kind or "" for kind in events.types]
    unknown = sorted(kind for kind in kinds if not is_known(kind) and kind.lower() not in BOOKKEEPING_TYPES)
    example, effect = ", ".join(map(repr, unknown[:5])), "counted as operators"
    report.add("unknown-category", "info", len(unknown), example, effect)
    device, stream = np.minimum(column("device"), MAX_DEVICE), column("stream")
    on_device = (flags & DEVICE > 0) | ((flags & UNKNOWN > 0) & (device >= 0) & (stream >= 0))
    kind = Coded(column("kind"), kinds)
    # a wait for the whole device is on stream -1, whose absolute value Kineto writes as the thread
    waits = marked(kind, "cuda_sync".__eq__)
    columns = KinetoColumns(
        ts=column("ts") + base,
        dur=column("dur"),
        name=Coded(column("name"), [name or "" for name in events.names]),
        kind=kind,
        pid=pid,
        tid=tid,
        device=np.where(on_device, np.where(device >= 0, device, np.clip(pid, 0, MAX_DEVICE)), -1),
        stream=np.where(on_device & ((stream >= 0) | ~waits), np.where(stream >= 0, stream, tid), -1),
        correlation=column("correlation"),
        sequence=column("sequence"),
        fwd_thread=column("fwd_thread"),
        shapes=_texts(np.where(dims > 0, dims, column("old_dims")), events.dims, _normalized(repr)),
        dtypes=_texts(column("dtypes"), events.dtypes, _normalized(to_json)),
        concrete=_texts(column("concrete"), events.concrete, _normalized(to_json)),
        strides=_texts(column("strides"), events.strides, _normalized(to_json)),
        extra=_texts(column("extra"), events.extras, extra_text),
        call_stack=_texts(column("stack"), events.stacks, str),
        path=_texts(column("path"), events.paths, module_path),
        thread_names=events.instants.thread_names,
        memory=events.instants.memory(base),
        counters=events.instants.counters(base),
        ranges=events.ranges.columns(base),
        rank=rank,
    )
    return columns.where(~_without_time(columns.ts - base, columns.dur, report))


def _without_time(ts: IntArray, dur: IntArray, report: ImportReport) -> BoolArray:
    """Return a mask of the rows at time 0, far from all others: torch 2.12 wrote them without their times."""
    zero = (ts == 0) & (dur == 0)
    if not zero.any() or zero.all() or ts[~zero].min() < _FAR_NS:
        return np.zeros(len(ts), bool)
    effect = "these rows are left out"
    advice = "torch 2.12 loses times (pytorch#188481): record again with another version"
    report.add("row-without-time", "loss", int(zero.sum()), "ts 0.000, dur 0.000", effect, advice)
    return np.asarray(zero)


def _normalized(text_of: Callable[[Any], str]) -> Callable[[bytes], str]:
    """Return a function that respells JSON, ignoring the file's white space; empty for empty values."""

    def text(raw: bytes) -> str:
        value = decoded(raw)
        return text_of(value) if value else ""

    return text


def _texts(codes: IntArray, values: ValueInterner, text: Callable[[Any], str]) -> Coded | None:
    """Return a column of texts, converting each distinct value once; None if there are no values."""
    if not codes.any():
        return None
    distinct = ValueInterner({"": 0})
    lookup = distinct.column(map(text, values)) - 1
    return Coded(lookup[codes], list(distinct)[1:])


def _top_level(head: bytes, tail: bytes, report: ImportReport) -> dict[str, Any]:
    """Return the object around the events; empty for the array form and for text that cannot be repaired."""
    # `head` ends with the bracket that opens the list of events, and `tail` begins after the one that closes
    # it.
    tail, is_array = tail.strip(b"\x00 \t\r\n") or b"}", head.lstrip().startswith(b"[")
    if EVENTS.search(tail) or (is_array and tail != b"}"):
        add_second_list(report, tail.decode(errors="replace"))
    if is_array:
        return {}
    for text in (head + b"]" + tail, head + b"]}"):
        try:
            return _object(text)
        except UNDECODABLE as error:
            trial = ImportReport()
            mended = mend(text, str(error), trial)
        with suppress(*UNDECODABLE):
            top_level = _object(mended)
            report.extend(trial)
            return top_level
    return {}


def _object(text: bytes) -> dict[str, Any]:
    top_level = msgspec.json.decode(text, type=dict[str, Any])
    top_level.pop("traceEvents", None)
    return top_level


def _metadata(top_level: dict[str, Any], file_name: str) -> dict[str, Any]:
    """Return `Parsed.metadata` from the object around the events."""
    result: dict[str, Any] = {}
    devices = top_level.get("deviceProperties") or top_level.get("computeProperties")
    if isinstance(devices, list):
        devices = [device for device in devices if isinstance(device, dict)]
        result["devices"] = [str(device.get("name", "")) for device in devices]
        result["device_properties"] = devices
    distributed = top_level.get("distributedInfo")
    if isinstance(distributed, dict):
        result["distributed"] = distributed  # the whole ``distributedInfo``
        for key, kind in (("rank", int), ("world_size", int), ("backend", str)):
            if isinstance(distributed.get(key), kind):
                result[key] = distributed[key]
        if "rank" not in result and (match := _RANK_IN_NAME.search(file_name)):
            result["rank"] = int(match[1])
    if not 0 <= result.get("rank", 0) < 1 << 31:
        del result["rank"]
    if isinstance(top_level.get("host_name"), str):
        result["host"] = top_level["host_name"]
    others = {key: value for key, value in top_level.items() if _is_short(value)}
    if others:
        result["kineto"] = others  # every other entry of the file that is a number or a short text
    return result


def _base_ns(top_level: dict[str, Any]) -> int:
    """Return ``baseTimeNanoseconds``; 0 in files from before 2024, whose times are absolute."""
    value = top_level.get("baseTimeNanoseconds", 0)
    return value if isinstance(value, int) and abs(value) < 1 << 62 else 0


def _is_short(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= _LONGEST_TEXT)
