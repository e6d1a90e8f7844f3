"""Rows of MindSpore's and msprof's timelines: typed JSON, then columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw, Struct, field

from ...readers.codec.numbers import to_ns
from ...readers.codec.tolerant_json import decode_events
from ...trace.report import ImportReport

Scalar = int | float | str | None
_NOTHING: Final = Raw(b"")


class Args(Struct, gc=False):
    """The arguments that matter."""

    name: Scalar = None
    labels: Scalar = None
    type: Scalar = None
    fullname: Scalar = None
    op_full_name: Scalar = None
    task: Scalar = field(name="Task Type", default=None)
    stream: Scalar = field(name="Stream Id", default=None)
    connection: Scalar = field(name="connection_id", default=None)
    iteration: Scalar = field(name="Iteration ID", default=None)


class Described(NamedTuple):
    """Arguments as the file has them.

    Attributes
    ----------
    text : str
        A compact JSON object; empty for none.
    fields : Args
        Those that matter.
    """

    text: str
    fields: Args


class Row(Struct, gc=False):
    """One element of the list."""

    ph: str = ""
    name: Scalar = None
    cat: Scalar = None
    pid: Scalar = None
    tid: Scalar = None
    id: Scalar = None
    ts: Raw = _NOTHING
    dur: Raw = _NOTHING
    scope_level: Scalar = None
    args: Raw = _NOTHING


class Envelope(Struct):
    """The object form, which no version seen so far writes."""

    traceEvents: list[Row]


_NO_ARGUMENTS: Final = Described("", Args())


@dataclass(frozen=True, slots=True)
class Timeline:
    """A decoded file.

    Attributes
    ----------
    slices : DataFrame
        ``ts dur`` (int64 ns, as in the file), and text: ``name full type cat pid tid stream iteration args``
        (JSON objects), and ``scope`` (bool).
    ends : DataFrame
        Ends of arrows: ``ph cat id pid tid ts``.
    processes : dict of str to str
        Name or label of each process.
    threads : dict of (str, str) to str
        Name by process and thread.
    """

    slices: pd.DataFrame
    ends: pd.DataFrame
    processes: dict[str, str]
    threads: dict[tuple[str, str], str]


def timeline(data: bytes, report: ImportReport) -> Timeline:
    """Decode a timeline file.

    Parameters
    ----------
    data : bytes
        A JSON list of trace events; times are µs, as numbers or as strings.
    report : ImportReport
        Counts rows that cannot be used (``broken-row``, ``row-not-used``).

    Returns
    -------
    Timeline
        Rows in the order of the file.

    Raises
    ------
    FormatError
        If there are no rows at all.
    """
    envelope, listed = decode_events(data, Envelope, Row, report)
    rows = listed if listed is not None else (envelope.traceEvents if envelope else [])
    cache: dict[bytes, Described] = {}
    named = [row for row in rows if row.ph == "M"]
    labels = _names(named, "process_labels", "labels", cache)
    processes = {pid: name for (pid, _), name in [*labels, *_names(named, "process_name", "name", cache)]}
    threads = dict(_names(named, "thread_name", "name", cache))
    other = sum(row.ph not in "XMstf" or not row.ph for row in rows)
    report.add("row-not-used", "info", other, effect="rows of a kind that these tools do not write")
    return Timeline(_slices(rows, cache, report), _ends(rows, report), processes, threads)


def _names(
    rows: list[Row], kind: str, word: str, cache: dict[bytes, Described]
) -> list[tuple[tuple[str, str], str]]:
    """Return what the rows of a kind call their process and thread; the last one counts."""
    return [
        ((_text(row.pid), _text(row.tid)), _text(getattr(_described(row.args, cache).fields, word)))
        for row in rows
        if row.name == kind and len(row.args) > 2
    ]


def _described(raw: Raw, cache: dict[bytes, Described]) -> Described:
    """Take arguments apart, each distinct text once."""
    if len(raw) <= 2:
        return _NO_ARGUMENTS
    text = bytes(raw)
    if (described := cache.get(text)) is None:
        try:
            plain = msgspec.json.format(text, indent=-1)
            described = Described(plain.decode(errors="replace"), msgspec.json.decode(plain, type=Args))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            described = _NO_ARGUMENTS
        cache[text] = described
    return described


def _slices(rows: list[Row], cache: dict[bytes, Described], report: ImportReport) -> pd.DataFrame:
    rows = [row for row in rows if row.ph == "X"]
    ts, timed = to_ns([row.ts for row in rows])
    dur, lasting = to_ns([row.dur for row in rows])
    described = [_described(row.args, cache) for row in rows]
    args = [each.fields for each in described]
    frame = pd.DataFrame(
        {
            "ts": ts,
            "dur": dur,
            "name": _texts([row.name for row in rows]),
            "full": _texts([a.fullname or a.op_full_name or r.name for a, r in zip(args, rows, strict=True)]),
            "type": _texts([a.type or a.task for a in args]),
            "cat": _texts([row.cat for row in rows]),
            "pid": _texts([row.pid for row in rows]),
            "tid": _texts([row.tid for row in rows]),
            "stream": _texts([a.stream for a in args]),
            "iteration": _texts([a.iteration for a in args]),
            "args": pd.Series([each.text for each in described], dtype="object"),
            "scope": np.fromiter((row.scope_level is not None for row in rows), bool, len(rows)),
        }
    )
    good = timed & lasting & (frame["name"] != "").to_numpy()
    report.add_where(
        "broken-row",
        "loss",
        ~good,
        lambda i: frame["name"].iloc[i],
        "rows without a time or a name are left out",
    )
    return frame[good].reset_index(drop=True)


def _ends(rows: list[Row], report: ImportReport) -> pd.DataFrame:
    rows = [row for row in rows if row.ph in ("s", "f") and row.id is not None]
    ts, good = to_ns([row.ts for row in rows])
    frame = pd.DataFrame(
        {
            "ph": _texts([row.ph for row in rows]),
            "cat": _texts([row.cat for row in rows]),
            "id": _texts([row.id for row in rows]),
            "pid": _texts([row.pid for row in rows]),
            "tid": _texts([row.tid for row in rows]),
            "ts": ts,
        }
    )
    return frame[good].reset_index(drop=True)


def _text(value: Scalar) -> str:
    return "" if value is None else str(value)


def _texts(values: list[Scalar] | list[str]) -> pd.Series:
    return pd.Series([_text(value) for value in values], dtype="object")
