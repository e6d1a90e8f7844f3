"""The heap table from memray's data: blocks by the line and the function that allocated them."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

from ...errors import FormatError
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder

_HEAD: Final = b"allocator,num_allocations,size,tid,thread_name,stack_trace"


def read_table(data: bytes, builder: TraceBuilder) -> None:
    """Put the blocks of a table into `builder`."""
    if not data.startswith(_HEAD):
        raise FormatError(f"it is no table of memray's. {INSTEAD}")
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

    >>> _frames("dumps;/usr/lib/python3.11/json/__init__.py;231|step;/home/me/train.py;9")[1]
    StackFrame(function='step', file='/home/me/train.py', line='9')
    """
    frames = [frame.rsplit(";", 2) for frame in text.split("|") if frame.count(";") >= 2]
    return [StackFrame(*frame) for frame in frames]


_LIBRARY: Final = re.compile(
    r"(?:site|dist)-packages[\\/]|[\\/]lib(?:64)?[\\/]python\d[\d.]*[\\/]|^<frozen |"
    r"[\\/]memray[\\/]commands[\\/]|\.(?:c|cc|cpp|cxx|h|hpp|pyx|rs)$|^<unknown>$"
)
"""Files that are not the user's own, including C sources, which appear in tables of ``memray run
--native``."""
_IMPORTING: Final = "<frozen importlib"
NUMBERS: Final = ("bytes", "count", "kept_bytes", "kept_count")
INSTEAD: Final = (
    "memray transform csv FILE makes a table of its blocks, which opens here; "
    "memray flamegraph FILE makes a page"
)


class StackFrame(NamedTuple):
    """A frame of a Python stack. If it was read from text, its line is text too."""

    function: str
    file: str
    line: int | str


def heap_table(
    stacks: Sequence[Sequence[StackFrame]], code: IntArray, numbers: dict[str, IntArray]
) -> pd.DataFrame:
    """Return one row per line of user code and function that allocated for it, in order of appearance."""
    # Stacks have their innermost frame first; `code` is the stack of each row of `numbers`, which has any of
    # ``bytes count kept_bytes kept_count``, each of shape (n,); missing ones are 0.
    keys = [_keys(stack) for stack in stacks]
    names = pd.DataFrame(keys, columns=["line", "allocated_by"]).iloc[code].reset_index(drop=True)
    zeros = np.zeros(len(code), np.int64)
    table = pd.DataFrame(
        {
            "line": names["line"],
            "text": "",
            "allocated_by": names["allocated_by"],
            **{name: numbers.get(name, zeros) for name in NUMBERS},
        }
    )
    return table.groupby(["line", "text", "allocated_by"], sort=False).sum().reset_index()


def _keys(stack: Sequence[StackFrame]) -> tuple[str, str]:
    """Return the innermost line of the user's code, and the function that allocated.

    >>> dumps = StackFrame("dumps", "/usr/lib/python3.11/json/__init__.py", 231)
    >>> _keys([dumps, StackFrame("step", "/home/me/train.py", 9)])
    ('train.py:9', 'dumps (__init__.py)')
    """
    if not stack:
        return "", ""
    own = next((frame for frame in stack if not _is_library(frame.file)), None)
    line = f"{_short(own.file)}:{own.line}" if own is not None else ""
    if any(frame.file.startswith(_IMPORTING) for frame in stack):
        return line, "import"
    return line, f"{stack[0].function} ({_short(stack[0].file)})"


@lru_cache(maxsize=4096)
def _is_library(file: str) -> bool:
    return _LIBRARY.search(file) is not None


def _short(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]
