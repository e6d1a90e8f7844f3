"""MegEngine's timeline as columns: matched begins and ends, computing nodes, shapes as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import Raw, Struct, field

from ...readers.codec.numbers import to_ns
from ...readers.codec.tolerant_json import NOTHING
from ...readers.events import report_unpaired
from ...trace.arrays import IntArray, numbered
from ...trace.builder import TraceBuilder
from ...trace.nesting import nest, pair
from ...trace.report import ImportReport


class NodeRow(Struct, gc=False):
    """One element of ``traceEvents``. Times stay text."""

    ph: str = ""
    name: str | None = None
    cat: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    id: int | str | None = None
    args: dict[str, Any] | None = None


class TimelineFile(Struct):
    """The object around the rows."""

    rows: list[NodeRow] = field(name="traceEvents", default_factory=list)
    metadata: Any = None


class TimelineRanges(NamedTuple):
    """Everything with a begin and an end, as columns of equal length."""

    ts: IntArray  # Unix ns
    dur: IntArray
    thread: IntArray  # position in `TimedRows.keys`
    name: list[str]
    cat: list[str]
    args: list[dict[str, Any]]  # of the end event, where MegEngine puts them; else of the begin


class TimedRows(NamedTuple):
    """Rows whose time is a number, with their times (Unix ns) and thread numbers."""

    rows: list[NodeRow]
    ts: IntArray
    thread: IntArray
    keys: list[tuple[int, int]]
    names: dict[int, str]


def timed(rows: list[NodeRow], base_ns: int, report: ImportReport) -> TimedRows:
    """Keep the rows with a time; others than descriptions are counted as ``broken-row``."""
    names = {
        (_number(row.pid), _number(row.tid)): str(row.args["name"])
        for row in rows
        if row.ph == "M" and row.name == "thread_name" and row.args and "name" in row.args
    }
    rows = [row for row in rows if row.ph not in ("M", "")]
    ts, ok = to_ns([row.ts for row in rows])
    ok &= np.fromiter((row.name is not None for row in rows), bool, len(rows))
    report.broken_rows(~ok, lambda i: f"{rows[i].name!r}: ts {bytes(rows[i].ts)!r}")
    kept = [row for row, good in zip(rows, ok.tolist(), strict=True) if good]
    thread, keys = numbered(chain(names, ((_number(row.pid), _number(row.tid)) for row in kept)))
    labels = dict(enumerate(names.values()))  # named threads come first
    return TimedRows(kept, ts[ok] + base_ns, thread[len(names) :], keys, labels)


def thread_track(events: TimedRows, thread: int, builder: TraceBuilder) -> int:
    """Return the track of a host thread, by its position in `TimedRows.keys`."""
    pid, tid = events.keys[thread]
    return builder.track(events.names.get(thread, f"thread {tid}"), pid=pid, tid=tid)


def ranges(events: TimedRows, report: ImportReport) -> TimelineRanges:
    """Make ranges: from B and E matched by thread, from X, and from instants without a duration."""
    phase = np.array([row.ph for row in events.rows], dtype=object)
    marks = np.flatnonzero((phase == "B") | (phase == "E"))
    pairs = pair(events.thread[marks], events.ts[marks], phase[marks] == "B")
    rows, last = events.rows, int(events.ts.max(initial=0))
    opened, lasting = pairs.spans(events.ts[marks], last)
    # the event that ended each range or, if none did, the one that began it
    shut = np.concatenate([marks[pairs.end], marks[pairs.unclosed]])
    ends = zip(marks[pairs.begin].tolist(), marks[pairs.end].tolist(), strict=True)
    crossed = sum(str(rows[i].name) != rows[j].name for i, j in ends)
    report.add("crossed-ranges", "info", crossed, effect="ends and their begins have different names")
    report_unpaired(report, marks[pairs.unclosed], marks[pairs.unopened], lambda i: rows[i].name)
    single = np.flatnonzero(np.isin(phase, ("X", "i", "I")))
    dur, ok = to_ns([rows[i].dur for i in single])
    first = np.concatenate([marks[opened], single])
    order = np.argsort(first, kind="stable")
    source, first = np.concatenate([shut, single])[order], first[order]
    pairs_of_rows = zip(first.tolist(), source.tolist(), strict=True)
    return TimelineRanges(
        ts=events.ts[first],
        dur=np.concatenate([lasting, np.where(ok, dur, 0)])[order],
        thread=events.thread[first],
        name=[str(rows[i].name) for i in first],
        cat=[rows[i].cat or "" for i in first],
        args=[rows[j].args or rows[i].args or {} for i, j in pairs_of_rows],
    )


def _number(value: int | str | None) -> int:
    if isinstance(value, str):
        value = int(value) if value.lstrip("-").isdecimal() and len(value) < 20 else -1
    return value if value is not None and abs(value) < 1 << 62 else -1


PHASE_OF_SCOPE: Final = {"backward": "backward", "step": "optimizer", "clear_grad": "optimizer"}
_COMP_NODE: Final = re.compile(r'CompNode\("([^"]*)" from "([^"]*)"\)')
_NODE: Final = re.compile(r"([A-Za-z_]+?)(\d{1,4}|x)?(?::(\d{1,9}))?$")


class Nodes:
    """Gives every computing node a stream track; nodes of one physical device share the device number."""

    def __init__(self, builder: TraceBuilder, physical: Mapping[str, str] | None = None) -> None:
        self._builder = builder
        # by logical node, from `physical_nodes`
        self._physical = physical or {}
        self._devices: dict[tuple[str, str], int] = {}

    def track(self, node: str) -> int:
        """Return the track of a computing node, written in full or short."""
        match = self._match(node)
        stream = int(match[3] or 0) if match else 0
        return self._builder.track(short_name(node), "stream", device=self.device(node), stream=stream)

    def device(self, node: str) -> int:
        """Return the device number of a computing node."""
        match = self._match(node)
        kind, number = (match[1], match[2] or "x") if match else (short_name(node), "x")
        if (kind, number) not in self._devices:
            numbers = set(self._devices.values())
            index = int(number) if number.isdecimal() else 0
            while index in numbers:
                index += 1
            self._devices[kind, number] = index
        return self._devices[kind, number]

    def _match(self, node: str) -> re.Match[str] | None:
        return _NODE.match(self._physical.get(short_name(node), short_name(node)))


def physical_nodes(texts: Iterable[str]) -> dict[str, str]:
    """Return physical nodes by logical node, from texts like ``CompNode("cpu0:0" from "xpux:0")``."""
    matches = (_COMP_NODE.search(text) for text in dict.fromkeys(texts))
    return {match[2]: match[1] for match in matches if match}


def short_name(node: str) -> str:
    """Return the physical node's name if the text has it."""
    match = _COMP_NODE.search(node)
    return match[1] if match else node


def shape_list(text: str) -> str:
    """Return a shape in MegEngine's spelling as a list."""
    return "[" + ", ".join(part.strip() for part in text.strip("{} ").split(",") if part.strip()) + "]"


def shapes_text(shapes: Any) -> str | None:
    """Write a list of shapes as `slices.shapes` holds them; None for an empty one, and for anything else."""
    return repr(shapes) if isinstance(shapes, list) and shapes else None


# Operators and tensors of MegEngine's timeline, from the arguments of its events.

_COLUMNS: Final = ("id", "name", "device", "in_shapes", "in_dtypes", "out_shapes", "out_dtypes", "params")


def operators(
    ranges: TimelineRanges, category: npt.NDArray[np.object_]
) -> tuple[IntArray, npt.NDArray[np.object_], pd.DataFrame]:
    """Return each range's operator id (-1 for none), each range's input shapes, and a table of operators."""
    numbers = [args.get("__id__", -1) for args in ranges.args]
    key = np.array([n if isinstance(n, int) and 0 <= n < 1 << 62 else -1 for n in numbers], np.int64)
    _, parent, _ = nest(ranges.thread, ranges.ts, ranges.dur)
    rows_of_operators = np.flatnonzero(category == "operator")
    # an operator's inputs and outputs are the ranges directly inside its own on the worker's thread
    parts: dict[str, dict[int, list[dict[str, Any]]]] = {"Input ": {}, "Output ": {}}
    for word, args_of_parent in parts.items():
        for i in np.flatnonzero([name.startswith(word) for name in ranges.name]).tolist():
            args_of_parent.setdefault(int(parent[i]), []).append(ranges.args[i])
    shapes = np.full(len(key), None, object)
    rows = []
    for i in rows_of_operators.tolist():
        inputs, outputs = (parts[word].get(i, []) for word in ("Input ", "Output "))
        texts = [_shapes(side) for side in (inputs, outputs)]
        shapes[i] = texts[0]
        args = ranges.args[i]
        device = short_name(str((inputs or outputs or [{}])[0].get("device", args.get("__device__", ""))))
        dtypes = [[str(tensor.get("dtype", "")) for tensor in side] for side in (inputs, outputs)]
        own = {name: value for name, value in args.items() if not name.startswith("__")}
        tensors_of = (texts[0], dtypes[0], texts[1], dtypes[1])
        rows.append((int(key[i]), ranges.name[i], device, *tensors_of, msgspec.json.encode(own).decode()))
    return key, shapes, pd.DataFrame(rows, columns=list(_COLUMNS)).astype({"id": "int64"})


def tensors(ranges: TimelineRanges) -> pd.DataFrame:
    """Return one row per tensor, in order of first appearance."""
    tensors_by_id: dict[int, tuple[Any, ...]] = {}
    for args in ranges.args:
        if "shape" in args and isinstance(args.get("id"), int) and abs(args["id"]) < 1 << 62:
            before = tensors_by_id.get(args["id"])
            # the last one that is not empty: a tensor is named after the operator that made it
            name = str(args.get("name", "")) or (before[0] if before else "")
            elements = args.get("nr_elements")
            tensors_by_id[args["id"]] = (
                name,
                shape_list(str(args["shape"])),
                str(args.get("dtype", "")),
                short_name(str(args.get("device", ""))),
                elements if isinstance(elements, int) and abs(elements) < 1 << 62 else None,
            )
    columns = ["name", "shape", "dtype", "device", "elements"]
    table = pd.DataFrame(list(tensors_by_id.values()), columns=columns).astype({"elements": "Int64"})
    table.insert(0, "tensor", np.fromiter(tensors_by_id, np.int64, len(tensors_by_id)))
    return table


def _shapes(tensors: list[dict[str, Any]]) -> str | None:
    return f"[{', '.join(shape_list(str(t.get('shape', ''))) for t in tensors)}]" if tensors else None
