"""Sums by function or line, without a timeline: cProfile's statistics, and Tachyon's ``--jsonl``."""

from __future__ import annotations

import math
import struct
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw, Struct, field

from ...errors import FormatError
from ...readers.call_tree import CallFrame
from ...readers.codec.tolerant_json import UNDECODABLE
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded

_REF: Final = 0x80
_DEPTH: Final = 12
_NULL: Final = object()
_CONSTANTS: Final = {ord("N"): None, ord("T"): True, ord("F"): False, ord("0"): _NULL}
_LONG_DIGITS: Final = 8  # of 15 bits: more than any count or time


class _Marshalled:
    """A value in bytes, as written by marshal's versions 2 to 5."""

    # Made of dict, tuple, list, str, bytes, int, float, bool and None, with strings, numbers or tuples of
    # these as keys. Anything else, an early end, or a nesting of more than 12 is a FormatError.

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.refs: list[Any] = []

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise FormatError(f"the marshalled data breaks off at byte {len(self.data):,}")
        part = self.data[self.at : end]
        self.at = end
        return part

    def count(self, wide: bool) -> int:
        return int.from_bytes(self.take(4), "little", signed=True) if wide else self.take(1)[0]

    def value(self, depth: int) -> Any:
        if depth > _DEPTH:
            raise FormatError("the marshalled data is nested too deeply for statistics")
        mark, slot = self.take(1)[0], len(self.refs)
        if mark & _REF:
            self.refs.append(_NULL)
        result = self._of_kind(mark & ~_REF, depth)
        if mark & _REF:
            self.refs[slot] = result
        return result

    def _of_kind(self, kind: int, depth: int) -> Any:
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in b"ilg":
            return self._number(kind)
        if kind in b"zZaAuts":
            return self._text(kind)
        if kind in b"()[":
            size = self.count(kind != ord(")"))
            if not 0 <= size <= len(self.data) - self.at:
                raise FormatError(f"a tuple of {size:,} values cannot be in the rest of the data")
            items = [self._item(depth) for _ in range(size)]
            return items if kind == ord("[") else tuple(items)
        if kind == ord("{"):
            return self._dict(depth)
        if kind == ord("r"):
            number = self.count(True)
            if not 0 <= number < len(self.refs) or self.refs[number] is _NULL:
                raise FormatError("the marshalled data refers to a value that it does not have")
            return self.refs[number]
        raise FormatError(f"the marshalled data holds a value of type {chr(kind)!r}, which statistics do not")

    def _item(self, depth: int) -> Any:
        item = self.value(depth + 1)
        if item is _NULL:
            raise FormatError("the marshalled data has an end where a value should be")
        return item

    def _dict(self, depth: int) -> dict[Any, Any]:
        items: dict[Any, Any] = {}
        while (key := self.value(depth + 1)) is not _NULL:
            parts = key if isinstance(key, tuple) else (key,)
            # flat keys only: hashing tuples that share tuples can take for ever
            if len(parts) > 8 or not all(isinstance(part, str | bytes | int | float) for part in parts):
                raise FormatError(
                    "a key of the marshalled data is neither text, a number, nor a tuple of them"
                )
            items[key] = self._item(depth)
        return items

    def _text(self, kind: int) -> Any:
        raw = self.take(self.count(kind not in b"zZ"))
        if kind == ord("s"):
            return raw
        return raw.decode("utf-8", "replace") if kind in b"ut" else raw.decode("latin-1")

    def _number(self, kind: int) -> int | float:
        if kind == ord("i"):
            return self.count(True)
        if kind == ord("g"):
            return float(struct.unpack("<d", self.take(8))[0])
        size = self.count(True)
        if abs(size) > _LONG_DIGITS:
            raise FormatError("the marshalled data has a number that is too large for statistics")
        digits = struct.unpack(f"<{abs(size)}H", self.take(2 * abs(size)))
        total: int = sum(digit << (15 * i) for i, digit in enumerate(digits))
        return int(-total if size < 0 else total)


_LONGEST_S: Final = 4e9
_FUNCTIONS: Final = ("calls", "primitive_calls", "self_ns", "total_ns")
_SAMPLED: Final = ("__sampled__",)
"""Key of the entry that Python 3.15's sampling profiler adds to its statistics."""


def read_pstats(data: bytes, builder: TraceBuilder) -> None:
    """Put the file's functions into `builder`."""
    stats = _Marshalled(data).value(0)
    if not isinstance(stats, dict):
        raise FormatError(f"it holds a {type(stats).__name__}, not the statistics of functions")
    sampled = stats.pop(_SAMPLED, False)
    functions, callers, broken = _rows(stats)
    example = f"{len(functions):,} others are sound"
    builder.report.broken_rows(broken, example, "these functions are left out")
    if broken and not functions:
        raise FormatError("none of its entries is a function's statistics")
    table = _frame_table(functions, ["name", "file", "line", *_FUNCTIONS])
    table = table.sort_values("self_ns", ascending=False, kind="stable").reset_index(drop=True)
    by_caller = _frame_table(
        callers, ["name", "file", "line", "caller", "caller_file", "caller_line", *_FUNCTIONS]
    )
    builder.metadata.setdefault("tables", {}).update(functions=table, callers=by_caller)
    how = "sampled" if sampled else "exact"
    effect = f"own times are {how}; cumulative times and calls are in metadata['tables']['functions']"
    builder.report.add("no-time-line", "info", example="sums by function", effect=effect)
    _add(table, builder.track("main"), builder)


def _add(table: pd.DataFrame, track: int, builder: TraceBuilder) -> None:
    """Add a slice for each row with its own time, one after another."""
    frames = [CallFrame(*row) for row in zip(table["name"], table["file"], table["line"], strict=True)]
    dur = table["self_ns"].to_numpy(np.int64)
    builder.slices(
        ts=np.cumsum(dur) - dur,
        dur=dur,
        track=track,
        name=Coded(np.arange(len(frames)), [frame.label() for frame in frames]),
        category="python",
        stack=np.array([builder.stack([frame]) for frame in frames], np.int64),  # noqa: PD013
    )


def _rows(stats: dict[Any, Any]) -> tuple[list[list[Any]], list[list[Any]], int]:
    functions, callers, broken = [], [], 0
    for key, value in stats.items():
        function = _function(key)
        numbers = _numbers(value[:4]) if isinstance(value, tuple) and len(value) == 5 else None
        if function is None or numbers is None:
            broken += 1
            continue
        functions.append([*function, *numbers])
        for caller, counts in value[4].items() if isinstance(value[4], dict) else ():
            above = _function(caller)
            numbers = _numbers(counts[:4]) if isinstance(counts, tuple) and len(counts) == 4 else None
            if above is not None and numbers is not None:
                callers.append([*function, *above, *numbers])
    return functions, callers, broken


def _function(key: Any) -> tuple[str, str, int] | None:
    if not (isinstance(key, tuple) and len(key) == 3):
        return None
    file, line, name = key
    if not (isinstance(file, str) and isinstance(line, int) and isinstance(name, str)):
        return None
    # built-in functions have the file "~"
    return name, "" if file == "~" else file, line if 0 < line < 2**31 else 0


def _numbers(values: tuple[Any, ...]) -> tuple[int, int, int, int] | None:
    """Return calls, primitive calls, own and cumulative ns, from (primitive, calls, own s, cumulative s)."""
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
        return None
    primitive, calls, own, total = values
    if not (0 <= own < _LONGEST_S and 0 <= total < _LONGEST_S and abs(calls) < 2**62 > abs(primitive)):
        return None
    return int(calls), int(primitive), round(own * 1e9), round(total * 1e9)


def _frame_table(rows: list[list[Any]], columns: list[str]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=columns)
    whole = [name for name in columns if name in _FUNCTIONS or name.endswith("line")]
    return table.astype(dict.fromkeys(whole, "int64"))


# Tachyon's sums by line, ``profiling.sampling --jsonl`` of Python 3.15: one JSON record per line.

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


class _PositionSums(Struct):
    frame_id: int
    cumulative: _Count
    own: _Count = field(name="self")


class _TachyonFile(Struct):
    """The content of all lines of a file."""

    interval_us: float = 0.0
    mode: str = ""
    samples: int | None = None
    strings: dict[int, str] = field(default_factory=dict)
    positions: dict[int, _Position] = field(default_factory=dict)
    entries: list[_PositionSums] = field(default_factory=list)


def read_tachyon_sums(data: bytes, builder: TraceBuilder) -> None:
    file = _file(data, builder)
    if file.interval_us <= 0 or not file.entries:
        raise FormatError("Tachyon's lines have no sums of samples, or no sampling interval: was it cut?")
    if file.interval_us * 1000 * sum(entry.cumulative + entry.own for entry in file.entries) > _MOST_NS:
        raise FormatError("Tachyon's sums are longer than 70 years: the file is damaged")
    table = _table(file)
    builder.metadata["exporter"] = "tachyon"
    builder.metadata["tachyon"] = {"interval_us": file.interval_us, "mode": file.mode}
    builder.metadata["time_line"] = False
    builder.metadata.setdefault("tables", {})["frames"] = table
    _add(table[table["self_samples"] > 0], builder.track("all threads, summed", "process"), builder)
    _report(file, int(table["self_samples"].sum()), builder)


def _file(data: bytes, builder: TraceBuilder) -> _TachyonFile:
    file, broken, unused = _TachyonFile(), [], []
    for line in data.splitlines():
        try:
            record = msgspec.json.decode(line, type=_Record)
            if not _take(record, file):
                unused.append(record.type)
        except UNDECODABLE:
            broken.append(line)
    builder.report.broken_rows(
        len(broken), (broken or [b""])[0][:60].decode(errors="replace"), "the data in these lines is missing"
    )
    effect = "records of an unknown kind are left out"
    builder.report.add("row-not-used", "info", len(unused), (unused or [""])[0][:60], effect)
    return file


def _take(record: _Record, file: _TachyonFile) -> bool:
    """Put a record into `file`, and return whether its kind is known."""
    if record.type == "meta":
        file.interval_us, file.mode = record.sample_interval_usec, record.mode
    elif record.type in ("string_table", "str_def"):
        strings = _decoded(record.strings, list[_String]) + _decoded(record.defs, list[_String])
        file.strings |= {one.str_id: one.value for one in strings}
    elif record.type in ("frame_table", "frame_def"):
        positions = _decoded(record.frames, list[_Position]) + _decoded(record.defs, list[_Position])
        file.positions |= {one.frame_id: one for one in positions}
    elif record.type == "agg" and (record.kind, record.scope) == ("frame", "final"):
        file.entries += _decoded(record.entries, list[_PositionSums])
    elif record.type == "end":
        file.samples = record.samples_total
    else:
        return False
    return True


def _decoded(text: Raw, kind: Any) -> Any:
    return msgspec.json.decode(text, type=kind)


def _table(file: _TachyonFile) -> pd.DataFrame:
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


def _report(file: _TachyonFile, own: int, builder: TraceBuilder) -> None:
    """Report what such a file lacks, and what is missing from this one."""
    example = f"{own:,} samples of {file.interval_us:,g} µs"
    effect = "sums by line over all threads: who called whom, on which thread and when, is not in the file"
    advice = "record with --binary or --gecko, which have stacks and times"
    builder.report.add("no-time-line", "info", example=example, effect=effect, advice=advice)
    if file.samples is None:
        builder.report.truncated("no last line", "sums at the end are missing")
        return
    builder.report.broken_rows(
        max(file.samples - own, 0),
        f"{file.samples:,} samples by the last line, {own:,} by position",
        "samples without a position are missing",
    )
