"""Tachyon's sums by line, ``profiling.sampling --jsonl`` of Python 3.15: a record of JSON a line."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw, Struct, field

from ...errors import FormatError
from ...readers.call_tree import Frame
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded

_MOST_NS: Final = 1 << 61
_NOTHING: Final = Raw(b"[]")
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Record(Struct):
    """A line; ``string_table`` and ``frame_table`` of 3.15.2 are ``str_def`` and ``frame_def`` later."""

    type: str
    sample_interval_usec: float = 0.0
    mode: str = ""
    samples_total: int = 0
    kind: str = ""
    scope: str = ""
    strings: Raw = _NOTHING
    frames: Raw = _NOTHING
    defs: Raw = _NOTHING
    entries: Raw = _NOTHING


class _String(Struct):
    str_id: int
    value: str


class _Position(Struct):
    frame_id: int
    path_str_id: int
    func_str_id: int
    line: int = 0
    col: int = -1


class _Entry(Struct):
    frame_id: int
    cumulative: _Count
    own: _Count = field(name="self")


class _File(Struct):
    """What all lines of a file tell together."""

    interval_us: float = 0.0
    mode: str = ""
    samples: int | None = None
    strings: dict[int, str] = field(default_factory=dict)
    positions: dict[int, _Position] = field(default_factory=dict)
    entries: list[_Entry] = field(default_factory=list)


def read_tachyon_sums(data: bytes, builder: TraceBuilder) -> None:
    """Put the sums of the file into `builder`."""
    file = _file(data, builder)
    if file.interval_us <= 0 or not file.entries:
        raise FormatError("Tachyon's lines hold no sums of samples, or no interval of them: was it cut?")
    if file.interval_us * 1000 * sum(entry.cumulative + entry.own for entry in file.entries) > _MOST_NS:
        raise FormatError("Tachyon's sums are longer than 70 years: the file is damaged")
    table = _table(file)
    builder.metadata["exporter"] = "tachyon"
    builder.metadata["tachyon"] = {"interval_us": file.interval_us, "mode": file.mode}
    builder.metadata["time_line"] = False
    builder.metadata.setdefault("tables", {})["frames"] = table
    _add(table[table["self_samples"] > 0], builder)
    _report(file, int(table["self_samples"].sum()), builder)


def _file(data: bytes, builder: TraceBuilder) -> _File:
    file, broken, unused = _File(), [], []
    for line in data.splitlines():
        try:
            record = msgspec.json.decode(line, type=_Record)
            if not _take(record, file):
                unused.append(record.type)
        except (msgspec.DecodeError, UnicodeDecodeError):
            broken.append(line)
    builder.report.add(
        "broken-row",
        "loss",
        len(broken),
        example=(broken or [b""])[0][:60].decode(errors="replace"),
        effect="what these lines tell is missing",
    )
    builder.report.add(
        "row-not-used",
        "info",
        len(unused),
        example=(unused or [""])[0][:60],
        effect="records of a kind that is not known are left out",
    )
    return file


def _take(record: _Record, file: _File) -> bool:
    """Put a record into `file`, and return whether it is of a kind that is known."""
    if record.type == "meta":
        file.interval_us, file.mode = record.sample_interval_usec, record.mode
    elif record.type in ("string_table", "str_def"):
        strings = _decoded(record.strings, list[_String]) + _decoded(record.defs, list[_String])
        file.strings |= {one.str_id: one.value for one in strings}
    elif record.type in ("frame_table", "frame_def"):
        positions = _decoded(record.frames, list[_Position]) + _decoded(record.defs, list[_Position])
        file.positions |= {one.frame_id: one for one in positions}
    elif record.type == "agg" and (record.kind, record.scope) == ("frame", "final"):
        file.entries += _decoded(record.entries, list[_Entry])
    elif record.type == "end":
        file.samples = record.samples_total
    else:
        return False
    return True


def _decoded(text: Raw, kind: Any) -> Any:
    return msgspec.json.decode(text, type=kind)


def _table(file: _File) -> pd.DataFrame:
    """Return the rows of all positions, most own samples first."""
    unknown = _Position(-1, -1, -1)
    rows = []
    for entry in file.entries:
        at = file.positions.get(entry.frame_id, unknown)
        function = file.strings.get(at.func_str_id, "[unknown]")
        line = at.line if 0 < at.line < 2**31 else 0
        path = file.strings.get(at.path_str_id, "")
        rows.append((function, path, line, at.col, entry.own, entry.cumulative))
    names = ["name", "file", "line", "column", "self_samples", "cumulative_samples"]
    table = pd.DataFrame(rows, columns=names)
    table = table.sort_values("self_samples", ascending=False, kind="stable").reset_index(drop=True)
    for part in ("self", "cumulative"):
        table[f"{part}_ns"] = (table[f"{part}_samples"] * (file.interval_us * 1000)).round().astype("int64")
    return table


def _add(table: pd.DataFrame, builder: TraceBuilder) -> None:
    frames = [Frame(*row) for row in zip(table["name"], table["file"], table["line"], strict=True)]
    dur = table["self_ns"].to_numpy(np.int64)
    builder.slices(
        ts=np.cumsum(dur) - dur,
        dur=dur,
        track=builder.track("all threads, summed", "process"),
        name=Coded(np.arange(len(frames)), [frame.label() for frame in frames]),
        category="python",
        stack=np.array([builder.stack([frame]) for frame in frames], np.int64),  # noqa: PD013
    )


def _report(file: _File, own: int, builder: TraceBuilder) -> None:
    """Say what such a file does not tell, and what of it is missing."""
    builder.report.add(
        "no-time-line",
        "info",
        example=f"{own:,} samples of {file.interval_us:,g} µs",
        effect="sums by line over all threads: who called whom, on which thread and when, is not in the file",
        advice="record with --binary or --gecko, which have stacks and times",
    )
    if file.samples is None:
        builder.report.add(
            "truncated-file", "loss", example="no last line", effect="sums at the end are missing"
        )
        return
    builder.report.add(
        "broken-row",
        "loss",
        max(file.samples - own, 0),
        example=f"{file.samples:,} samples by the last line, {own:,} by position",
        effect="samples without a position are missing",
    )
