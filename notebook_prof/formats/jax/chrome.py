"""JAX's ``trace.json.gz``: the same planes, lines and events, all arguments as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from msgspec import Raw, Struct

from ...errors import FormatError
from ...readers.codec.numbers import to_ns
from ...readers.codec.tolerant_json import decode_events
from ...trace.arrays import number_rows
from ...trace.report import ImportReport
from .assemble import STATISTICS, Line, Space, as_arguments, coded

Scalar = int | float | str | None
_NOTHING: Final = Raw(b"")


class Row(Struct, gc=False):
    """One element of ``traceEvents``; the last one is empty."""

    ph: str = ""
    name: Scalar = None
    pid: int | None = None
    tid: int | None = None
    ts: Raw = _NOTHING
    dur: Raw = _NOTHING
    args: dict[str, Any] | None = None


class Envelope(Struct):
    """The file around the rows."""

    traceEvents: list[Row]


def read_space(data: bytes, report: ImportReport) -> Space:
    """Decode a file of JAX's trace viewer."""
    envelope, listed = decode_events(data, Envelope, Row, report)
    rows = listed if listed is not None else (envelope.traceEvents if envelope else [])
    if not rows:
        raise FormatError("there are no events in it")
    planes = _names_of(rows, "process_name", lambda row: _id(row.pid))
    lines = _names_of(rows, "thread_name", lambda row: (_id(row.pid), _id(row.tid)))
    other = sum(row.ph not in ("X", "M") and bool(row.ph) for row in rows)
    report.add("row-not-used", "info", other, effect="rows of a kind that JAX does not write")
    rows = [row for row in rows if row.ph == "X"]
    ts, timed = to_ns([row.ts for row in rows])
    dur, lasting = to_ns([row.dur for row in rows])
    good = timed & lasting & np.fromiter((row.name is not None for row in rows), bool, len(rows))
    report.add_where(
        "broken-row", "loss", ~good, lambda i: rows[i].name, "rows without a time or a name are left out"
    )
    usable = np.flatnonzero(good)
    ids = [[_id(rows[i].pid) for i in usable], [_id(rows[i].tid) for i in usable]]
    codes, threads = number_rows(*(np.array(part, np.int64) for part in ids))
    order = np.argsort(codes, kind="stable")
    parsed_lines = []
    for chosen in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []:
        pid, tid = threads[codes[chosen[0]]]
        rows_of_line = usable[chosen]
        args = [rows[i].args or {} for i in rows_of_line]
        columns: dict[str, list[Any]] = {
            name: [_scalar(own.get(name)) for own in args] for name in STATISTICS
        }
        stats = {name: values for name, values in columns.items() if any(v is not None for v in values)}
        names = coded([str(rows[i].name) for i in rows_of_line])
        line = lines.get((pid, tid), f"thread {tid}")
        arguments = as_arguments(args)
        parsed_lines.append(
            Line(
                planes.get(pid, ""),
                line,
                int(tid),
                ts[rows_of_line],
                dur[rows_of_line],
                names,
                stats,
                arguments,
            )
        )
    return Space(parsed_lines)


def _id(number: int | None) -> int:
    """Return the id of a process or thread; 0 for none, and for what no system gives."""
    return number if number is not None and abs(number) < 1 << 63 else 0


def _names_of(rows: list[Row], kind: str, key: Callable[[Row], Any]) -> dict[Any, str]:
    return {
        key(row): str(row.args["name"])
        for row in rows
        if row.ph == "M" and row.name == kind and row.args and row.args.get("name") is not None
    }


def _scalar(value: Any) -> Scalar:
    return value if isinstance(value, int | float | str) else None
