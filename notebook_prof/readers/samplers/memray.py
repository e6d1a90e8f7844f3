"""Recordings of memray, and the table that ``memray transform csv`` makes of one: blocks by their stack."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import chain
from typing import ClassVar, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

from ...errors import FormatError
from ...optional import installed
from ...trace.builder import TraceBuilder
from ..base import PiecesReader, Probe
from .memray_heap import StackFrame, heap_table
from .memray_recording import read_recording

_HEAD: Final = b"allocator,num_allocations,size,tid,thread_name,stack_trace"
_MAGIC: Final = b"memray\0"
_LZ4: Final = b"\x04\x22\x4d\x18"
_WITHIN: Final = 64
_INSTEAD: Final = (
    "memray transform csv FILE makes a table of its blocks, which opens here; "
    "memray flamegraph FILE makes a page"
)


class MemrayReader(PiecesReader):
    """Reads recordings of memray (``.bin``), and the table that ``memray transform csv`` makes of one.

    Blocks at the peak of the heap are ``p.memory.heap()``. A recording is read by memray itself, in a process
    of its own; it has memory over time too, ``p.memory()``. Nothing in the table has a time.
    """

    name: ClassVar[str] = "memray"
    priority: ClassVar[int] = 430
    describes: ClassVar[str] = "memray's recordings, by memray itself, and its table: memray transform csv"

    def recognises(self, probe: Probe) -> bool:
        """Return whether it is memray's table, or a recording of memray."""
        return probe.head.startswith(_HEAD) or _is_recording(probe.head)

    def read_pieces(self, pieces: Iterable[bytes], builder: TraceBuilder) -> None:
        """Put the recording, or the table, into `builder`."""
        pieces = iter(pieces)
        first = next(pieces, b"")
        pieces = chain([first], pieces)
        if not _is_recording(first):
            _read_table(b"".join(pieces), builder)
        elif installed("memray"):
            read_recording(pieces, builder)
        else:
            raise FormatError(
                "it is a recording of memray, which only memray reads, and it is not installed here: "
                f'pip install "notebook-prof[heap]". Or {_INSTEAD}'
            )


def _read_table(data: bytes, builder: TraceBuilder) -> None:
    if not data.startswith(_HEAD):
        raise FormatError(f"it is no table of memray's. {_INSTEAD}")
    table = _rows(data, builder)
    if not len(table):
        raise FormatError("memray's table has no rows: nothing was allocated, or the file was cut")
    if not data.endswith(b"\n"):
        builder.report.add(
            "truncated-file",
            "loss",
            example="the last row has no end",
            effect="rows may be missing, and outer frames of the last one",
        )
    builder.table("heap", _by_line(table), times=())
    builder.metadata["heap"] = {"tool": "memray", "peak_bytes": int(table["bytes"].sum())}
    builder.report.add(
        "no-time-line",
        "info",
        example=f"{len(table):,} stacks",
        effect="blocks at the peak of the heap, or those of the option that the table was made with; "
        "what is kept at the end is not in it",
        advice="p.memory.heap() has them by line",
    )
    builder.report.add(
        "columns-not-used",
        "info",
        2,
        example="allocator, thread_name",
        effect="blocks of all allocators and threads are added up",
    )


def _is_recording(head: bytes) -> bool:
    return head.startswith(_MAGIC) or (head.startswith(_LZ4) and _MAGIC in head[:_WITHIN])


def _rows(data: bytes, builder: TraceBuilder) -> pd.DataFrame:
    """Return bytes, blocks and stack of each row; rows that cannot be read are counted."""
    lost: list[str] = []

    def skip(row: csv.InvalidRow) -> str:
        lost.append(str(row.text))
        return "skip"

    data = data.decode(errors="replace").encode()  # a row that is no UTF-8 could not be told
    texts = {name.decode(): pa.string() for name in _HEAD.split(b",")}
    try:
        table = csv.read_csv(
            io.BytesIO(data),
            parse_options=csv.ParseOptions(invalid_row_handler=skip, newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=texts),
        )
    except pa.ArrowInvalid as error:
        raise FormatError(f"it cannot be read as memray's table ({str(error)[:120]})") from error
    stacks = [text or "" for text in table["stack_trace"].to_pylist()]
    numbers = {
        name: pd.to_numeric(pd.Series(table[column].to_pylist(), dtype=object), errors="coerce")
        for name, column in (("bytes", "size"), ("count", "num_allocations"))
    }
    rows = pd.DataFrame({**numbers, "stack": stacks})
    ok = rows["bytes"].between(0, 2**53) & rows["count"].between(0, 2**53)
    broken = [*lost, *rows.loc[~ok, "stack"]]
    builder.report.add(
        "broken-row", "loss", len(broken), example=(broken or [""])[0][:80] or "a row without a size",
        effect="these rows are left out",
    )  # fmt: skip
    return rows[ok].astype({"bytes": "int64", "count": "int64"})


def _by_line(rows: pd.DataFrame) -> pd.DataFrame:
    code, texts = pd.factorize(rows["stack"])
    numbers = {name: rows[name].to_numpy() for name in ("bytes", "count")}
    return heap_table([_frames(str(text)) for text in texts], code.astype(np.int64), numbers)


def _frames(text: str) -> list[StackFrame]:
    """Return the frames of a stack of the table.

    Examples
    --------
    >>> _frames("dumps;/usr/lib/python3.11/json/__init__.py;231|step;/home/me/train.py;9")[1]
    StackFrame(function='step', file='/home/me/train.py', line='9')
    """
    frames = [frame.rsplit(";", 2) for frame in text.split("|") if frame.count(";") >= 2]
    return [StackFrame(*frame) for frame in frames]
