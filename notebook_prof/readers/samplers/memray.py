"""The table of ``memray transform csv``: blocks by the stack that allocated them."""

from __future__ import annotations

import io
import re
from typing import ClassVar, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

from ...errors import FormatError
from ...trace.builder import TraceBuilder
from ..base import Probe, Reader

_HEAD: Final = b"allocator,num_allocations,size,tid,thread_name,stack_trace"
_MAGIC: Final = b"memray\0"
_LZ4: Final = b"\x04\x22\x4d\x18"
_WITHIN: Final = 64
_LIBRARY: Final = re.compile(
    r"(?:site|dist)-packages[\\/]|[\\/]lib(?:64)?[\\/]python\d[\d.]*[\\/]|^<frozen |"
    r"[\\/]memray[\\/]commands[\\/]"
)
_IMPORTING: Final = "<frozen importlib"
_INSTEAD: Final = (
    "memray transform csv FILE makes a table of its blocks, which opens here; "
    "memray flamegraph FILE makes a page"
)


class MemrayReader(Reader):
    """Reads the table that ``memray transform csv`` makes: blocks at the peak of the heap, by stack.

    They are ``p.memory.heap()``: nothing in the table has a time. Recordings themselves (``.bin``) are
    refused with the command to use: their format is memray's own, and changes with its versions.
    """

    name: ClassVar[str] = "memray"
    priority: ClassVar[int] = 430
    describes: ClassVar[str] = "memray's blocks at the peak of the heap, by stack: memray transform csv"

    def recognises(self, probe: Probe) -> bool:
        """Return whether it is memray's table, or a recording of memray."""
        return probe.head.startswith(_HEAD) or _is_recording(probe.head)

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Put the table into `builder`."""
        if _is_recording(data):
            raise FormatError(
                f"it is a recording of memray, which only memray of its version reads. {_INSTEAD}"
            )
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
    """Return one row a line of the user's code and function that allocated for it."""
    code, stacks = pd.factorize(rows["stack"])
    keys = [_keys(str(stack)) for stack in stacks]
    names = pd.DataFrame(keys, columns=["line", "allocated_by"]).iloc[code].reset_index(drop=True)
    table = pd.DataFrame(
        {
            "line": names["line"],
            "text": "",
            "allocated_by": names["allocated_by"],
            "bytes": rows["bytes"].to_numpy(),
            "count": rows["count"].to_numpy(),
            "kept_bytes": np.int64(0),
            "kept_count": np.int64(0),
        }
    )
    keys_of = ["line", "text", "allocated_by"]
    return table.groupby(keys_of, sort=False).sum().reset_index()


def _keys(stack: str) -> tuple[str, str]:
    """Return the innermost line of the user's code, and the function that allocated.

    Examples
    --------
    >>> _keys("dumps;/usr/lib/python3.11/json/__init__.py;231|step;/home/me/train.py;9")
    ('train.py:9', 'dumps (__init__.py)')
    """
    frames = [frame.rsplit(";", 2) for frame in stack.split("|") if frame.count(";") >= 2]
    if not frames:
        return "", ""
    own = next((frame for frame in frames if not _LIBRARY.search(frame[1])), None)
    line = f"{_short(own[1])}:{own[2]}" if own is not None else ""
    if any(frame[1].startswith(_IMPORTING) for frame in frames):
        return line, "import"
    return line, f"{frames[0][0]} ({_short(frames[0][1])})"


def _short(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]
