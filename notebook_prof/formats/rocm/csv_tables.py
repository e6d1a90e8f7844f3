"""CSV files of rocprofv3: the header determines the kind, and columns are read like rocpd's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ...errors import FormatError
from ...readers.codec.columns import MISSING, Column, TableRows, Texts
from ...trace.arrays import IntArray
from ...trace.report import ImportReport

KERNELS, COUNTERS, CALLS, COPIES, ALLOCATIONS, SCRATCH, AGENTS = (
    "kernels", "counters", "calls", "copies", "allocations", "scratch", "agents",
)  # fmt: skip
_NEEDED: Final = (
    (COUNTERS, {"counter_name", "kernel_name", "start"}),
    (KERNELS, {"kernel_name", "start", "end"}),
    (CALLS, {"domain", "function", "start", "end"}),
    (COPIES, {"direction", "start", "end"}),
    (ALLOCATIONS, {"operation", "address", "start"}),
    (SCRATCH, {"operation", "alloc_flags", "start"}),
    (AGENTS, {"node_id", "agent_type"}),
)
_TEXTS: Final = frozenset({"kernel_name", "function", "domain", "direction", "operation", "agent_type"})
_SKIPPED: Final = frozenset({"kind", "guid", "address", "counter_name", "counter_value"})
_OURS: Final = {"start_timestamp": "start", "end_timestamp": "end", "process_id": "pid", "thread_id": "tid"}
_LONGEST_HEAD: Final = 4_096
_HEXADECIMAL: Final = re.compile(r"\s*(?:0[xX]0*)?([0-9a-fA-F]{1,16})\s*")


def kind_of(head: bytes) -> str | None:
    """Return the kind of a file of rocprofv3; None for any other file."""
    line = head[:_LONGEST_HEAD].partition(b"\n")[0]
    if b"," not in line or b"_" not in line:
        return None
    names = set(_names(line))
    return next((kind for kind, needed in _NEEDED if needed <= names), None)


def read_csv(data: bytes, report: ImportReport) -> TableRows:
    """Return the rows of a file, their columns in lower case, times as ``start`` and ``end``."""
    line, _, content = data.partition(b"\n")
    names = _names(line)
    lost: list[str] = []
    # what is told of a line must be text
    table = _table(names, content.decode(errors="replace").encode(), lost)
    columns: dict[str, Column] = {}
    for name in dict.fromkeys(names):
        if name in _TEXTS:
            columns[name] = Texts(table.column(name).combine_chunks())
        elif name == "address":
            columns[name] = hexadecimal(table.column(name).combine_chunks())
        elif name not in _SKIPPED:
            columns[name] = _integers(table.column(name).combine_chunks())
    rows = TableRows(columns, table.num_rows)
    if "start" in names:
        whole = rows.ints("start", MISSING) != MISSING
        lost += [""] * int((~whole).sum())
        rows = rows.where(whole)
    report.broken_rows(
        len(lost),
        next((text for text in lost if text), "a row without a time")[:80],
        advice="record again, or copy the file again",
    )
    return rows


def _names(line: bytes) -> list[str]:
    words = line.decode(errors="replace").strip().split(",")
    lowered = [word.strip(' "').lower() for word in words]
    return [_OURS.get(word, word) for word in lowered]


def _table(names: list[str], content: bytes, lost: list[str]) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    def skip(row: Any) -> str:
        lost.append(row.text or "a row with too few values")
        return "skip"

    own = list(dict.fromkeys(names))
    columns = [name if names.index(name) == i else f"{name} {i}" for i, name in enumerate(names)]
    read = arrow_csv.ReadOptions(column_names=columns, use_threads=False)
    parse = arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip)
    types = dict.fromkeys(columns, pa.large_string())
    convert = arrow_csv.ConvertOptions(column_types=types, include_columns=own, strings_can_be_null=False)
    if not content.strip():
        return pa.table({name: pa.array([], pa.large_string()) for name in own})
    try:
        table = arrow_csv.read_csv(pa.BufferReader(content), read, parse, convert)
    except pa.ArrowInvalid as error:
        whole = content[: content.rstrip(b"\n").rfind(b"\n") + 1]
        if not whole or len(whole) == len(content):
            raise FormatError(f"the CSV cannot be parsed: {error}") from error
        lost.append(content[len(whole) :].decode(errors="replace"))
        return _table(names, whole, lost)
    return table


def _integers(column: Any) -> IntArray:
    """Return whole numbers; for texts like ``Agent 4``, the number at the end."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        digits = pc.struct_field(pc.extract_regex(column, r"(?P<n>\d{1,18})\s*$"), 0)
        numbers = digits.cast(pa.int64())
    return np.asarray(pc.fill_null(numbers, MISSING).to_numpy(zero_copy_only=False), np.int64)


def hexadecimal(column: Any) -> IntArray:
    """Return numbers written like ``0x7ffb`` as signed ones; 0 for other texts.

    >>> import pyarrow as pa
    >>> hexadecimal(pa.array(["0x00007fFb", "", "0xq"])).tolist()
    [32763, 0, 0]
    """
    sound = (_HEXADECIMAL.fullmatch(text or "") for text in column.to_pylist())
    return np.array([int(match[1], 16) if match else 0 for match in sound], np.uint64).view(np.int64)


def merged(parts: list[TableRows], names: Mapping[str, str]) -> TableRows:
    """Return the rows of all files in order; `names` is ``ints`` or ``texts`` by column."""
    import pyarrow as pa

    columns: dict[str, Column] = {}
    for name, kind in names.items():
        if kind == "ints":
            columns[name] = np.concatenate(
                [np.empty(0, np.int64), *(part.ints(name, MISSING) for part in parts)]
            )
        else:
            texts = [part.texts(name) for part in parts]
            whole = [
                text.array if text is not None else pa.nulls(len(part), pa.large_string())
                for text, part in zip(texts, parts, strict=True)
            ]
            columns[name] = Texts(pa.concat_arrays([pa.array([], pa.large_string()), *whole]))
    return TableRows(columns, sum(map(len, parts)))
