"""Events of MegEngine's timeline, begin and end put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from msgspec import Raw, Struct, field

from ...readers.codec.numbers import to_ns
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.pairing import pair
from ...trace.report import ImportReport

_NOTHING: Final = Raw(b"")


class Row(Struct, gc=False):
    """One element of ``traceEvents``. Times stay text."""

    ph: str = ""
    name: str | None = None
    cat: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = _NOTHING
    dur: Raw = _NOTHING
    id: int | str | None = None
    args: dict[str, Any] | None = None


class File(Struct):
    """The object around the rows."""

    rows: list[Row] = field(name="traceEvents", default_factory=list)
    metadata: Any = None


@dataclass(frozen=True, slots=True)
class Ranges:
    """Everything with a begin and an end, as columns of equal length."""

    ts: IntArray  # Unix ns
    dur: IntArray
    thread: IntArray  # position in `Threads.keys`
    name: list[str]
    cat: list[str]
    args: list[dict[str, Any]]  # of the end event, where MegEngine puts them; else of the begin


@dataclass(frozen=True, slots=True)
class Timed:
    """Rows whose time is a number, with it (Unix ns), and the number of each one's thread."""

    rows: list[Row]
    ts: IntArray
    thread: IntArray
    keys: list[tuple[int, int]]
    names: dict[int, str]


def timed(rows: list[Row], base_ns: int, report: ImportReport) -> Timed:
    """Keep the rows with a time; others than descriptions are counted as ``broken-row``."""
    names = {
        (_number(row.pid), _number(row.tid)): str(row.args["name"])
        for row in rows
        if row.ph == "M" and row.name == "thread_name" and row.args and "name" in row.args
    }
    rows = [row for row in rows if row.ph not in ("M", "")]
    ts, ok = to_ns([row.ts for row in rows])
    ok &= np.fromiter((row.name is not None for row in rows), bool, len(rows))
    if not ok.all():
        broken = rows[int(np.flatnonzero(~ok)[0])]
        example = f"{broken.name!r}: ts {bytes(broken.ts)!r}"
        report.add("broken-row", "loss", int((~ok).sum()), example, "these rows are left out")
        rows = [row for row, good in zip(rows, ok.tolist(), strict=True) if good]
    threads = [(_number(row.pid), _number(row.tid)) for row in rows]
    code_of = {key: i for i, key in enumerate(dict.fromkeys([*names, *threads]))}
    thread = np.fromiter((code_of[key] for key in threads), np.int64, len(rows))
    labels = {code_of[key]: name for key, name in names.items()}
    return Timed(rows, ts[ok] + base_ns, thread, list(code_of), labels)


def thread_track(events: Timed, thread: int, builder: TraceBuilder) -> int:
    """Return the track of a host thread, by its position in `Timed.keys`."""
    pid, tid = events.keys[thread]
    return builder.track(events.names.get(thread, f"thread {tid}"), pid=pid, tid=tid)


def ranges(events: Timed, report: ImportReport) -> Ranges:
    """Put together what belongs together: B and E by thread, X as they are, instants with no duration."""
    phase = np.array([row.ph for row in events.rows], dtype=object)
    marks = np.flatnonzero((phase == "B") | (phase == "E"))
    pairs = pair(events.thread[marks], events.ts[marks], phase[marks] == "B")
    begin, end = marks[pairs.begin], marks[pairs.end]
    open_ = marks[pairs.unclosed]
    name = [str(events.rows[i].name) for i in begin]
    crossed = sum(name != events.rows[j].name for name, j in zip(name, end.tolist(), strict=True))
    report.add("crossed-ranges", "info", crossed, effect="ends have another name than their begins")

    def named(row: int) -> object:
        return events.rows[row].name

    report.add_where("unclosed-begin", "loss", open_, named, "kept until the end of the trace")
    report.add_where("end-without-begin", "loss", marks[pairs.unopened], named, "ignored")
    single = np.flatnonzero((phase == "X") | (phase == "i") | (phase == "I"))
    dur, ok = to_ns([events.rows[i].dur for i in single])
    last = int(events.ts.max()) if len(events.ts) else 0
    first = np.concatenate([begin, open_, single])
    order = np.argsort(first, kind="stable")
    source = np.concatenate([end, open_, single])[order]
    first = first[order]
    rows = events.rows
    return Ranges(
        ts=events.ts[first],
        dur=np.concatenate(
            [events.ts[end] - events.ts[begin], last - events.ts[open_], np.where(ok, dur, 0)]
        )[order],
        thread=events.thread[first],
        name=[str(rows[i].name) for i in first],
        cat=[rows[i].cat or "" for i in first],
        args=[
            rows[j].args or rows[i].args or {} for i, j in zip(first.tolist(), source.tolist(), strict=True)
        ],
    )


def links(events: Timed) -> pd.DataFrame:
    """List the arrows that follow a tensor, as in the file."""
    at = [
        i
        for i, row in enumerate(events.rows)
        if row.ph in ("s", "t", "f") and (row.cat or "")[:6] == "Tensor"
    ]
    return pd.DataFrame(
        {
            "kind": [events.rows[i].cat for i in at],
            "tensor": pd.array([_number(events.rows[i].id) for i in at], dtype="Int64"),
            # s (made), t (used) or f (deleted)
            "phase": [events.rows[i].ph for i in at],
            "start_unix_ns": events.ts[at] if at else np.empty(0, np.int64),
            "thread": [events.names.get(int(events.thread[i]), "") for i in at],
        }
    )


def _number(value: int | str | None) -> int:
    if isinstance(value, str):
        value = int(value) if value.lstrip("-").isdecimal() and len(value) < 20 else -1
    return value if value is not None and abs(value) < 1 << 62 else -1
