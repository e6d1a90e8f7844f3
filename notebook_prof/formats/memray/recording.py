"""memray's recordings (``.bin``), read by memray itself, and its table: the heap, and memory over time."""

from __future__ import annotations

import inspect
import io
import re
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from os import SEEK_END
from tempfile import NamedTemporaryFile
from typing import IO, Annotated, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

from ...errors import FormatError
from ...optional import installed
from ...own_processes import run
from ...readers.call_tree import CallFrame
from ...readers.codec.tolerant_json import UNDECODABLE
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from . import process

_HEAD: Final = b"allocator,num_allocations,size,tid,thread_name,stack_trace"


def read_table(data: bytes, builder: TraceBuilder) -> None:
    if not data.startswith(_HEAD):
        raise FormatError(f"it is not a table of memray. {INSTEAD}")
    table = _rows(data, builder)
    if not len(table):
        raise FormatError("memray's table has no rows: nothing was allocated, or the file was cut")
    if not data.endswith(b"\n"):
        effect = "rows may be missing, and so may outer frames of the last one"
        builder.report.truncated("the last row has no end", effect)
    code, texts = pd.factorize(table["stack"])
    numbers = {name: table[name].to_numpy() for name in ("bytes", "count")}
    heap = heap_table([_frames(str(text)) for text in texts], code.astype(np.int64), numbers)
    builder.table("heap", heap, times=())
    builder.metadata["heap"] = {"tool": "memray", "peak_bytes": int(table["bytes"].sum())}
    builder.report.add(
        "no-time-line",
        "info",
        example=f"{len(table):,} stacks",
        effect="blocks at the peak of the heap, or those of the option that the table was made with; "
        "it has no blocks kept at the end",
        advice="p.memory.heap() has them by line",
    )
    effect = "blocks of all allocators and threads are added up"
    builder.report.add("columns-not-used", "info", 2, "allocator, thread_name", effect)


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
    builder.report.broken_rows(len(broken), (broken or [""])[0][:80] or "a row without a size")
    return rows[ok].astype({"bytes": "int64", "count": "int64"})


def _frames(text: str) -> list[CallFrame]:
    """Return the frames of a stack of the table.

    >>> _frames("dumps;/usr/lib/python3.11/json/__init__.py;231|step;/home/me/train.py;9")[1]
    CallFrame(function='step', file='/home/me/train.py', line=9)
    """
    frames = [frame.rsplit(";", 2) for frame in text.split("|") if frame.count(";") >= 2]
    return [CallFrame(name, file, int(line) if line.isdecimal() else 0) for name, file, line in frames]


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


def heap_table(
    stacks: Sequence[Sequence[CallFrame]], code: IntArray, numbers: dict[str, IntArray]
) -> pd.DataFrame:
    """Return one row per line of user code and function that allocated for it, in order of appearance."""
    # Stacks have their innermost frame first; `code` is the stack of each row of `numbers`, which has any of
    # ``bytes count kept_bytes kept_count``, each of shape (n,); missing ones are 0.
    keys = [_keys(stack) for stack in stacks]
    names = pd.DataFrame(keys, columns=["line", "allocated_by"]).iloc[code].reset_index(drop=True)
    names.insert(1, "text", "")
    table = names.assign(**{name: numbers.get(name, 0) for name in NUMBERS})
    return table.groupby(["line", "text", "allocated_by"], sort=False).sum().reset_index()


def _keys(stack: Sequence[CallFrame]) -> tuple[str, str]:
    """Return the innermost line of the user's code, and the function that allocated."""
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


_NS_PER_MS: Final = 1_000_000
_MAGIC: Final = b"memray"
_LAST_RECORDS: Final = (b"\x01", b"\x0f")
"""The last byte of a recording of allocations and of an aggregated one, as memray 1.20 writes them."""
_BLOCK_BYTES: Final = 1 << 16

_Size = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=2**42)]


class _Facts(msgspec.Struct):
    memray: str
    command: str
    pid: int
    records: int
    start_ms: _Time
    end_ms: _Time
    aggregated: bool
    native_traces: bool
    python_allocator: str
    python_objects: bool


class _Contents(msgspec.Struct):
    facts: _Facts
    snapshots: list[tuple[_Time, _Size, _Size]]
    blocks: list[tuple[_Size, _Size, _Size, _Size, list[int]]]
    frames: list[CallFrame]


def read_recording(pieces: Iterable[bytes], builder: TraceBuilder) -> None:
    """Put a recording into `builder`: the table ``heap``, and counters of resident memory and the heap."""
    # FormatError also if memray cannot read the file: another version wrote it, or it is damaged or empty.
    # memray itself decompresses the file's LZ4.
    if not installed("memray"):
        raise FormatError(
            "it is a recording of memray, which only memray reads, and it is not installed here: "
            f'pip install "notebook-prof[heap]". Or {INSTEAD}'
        )
    with NamedTemporaryFile(prefix="notebook-prof-heap-", suffix=".bin") as file:
        file.writelines(pieces)
        file.flush()
        has_end = _has_end(file)
        contents, errors = _by_memray(file.name)
    if not contents.blocks and not contents.snapshots:
        raise FormatError("memray's recording has no allocations: none were made, or the file was cut")
    facts = contents.facts
    columns = np.array([one[:4] for one in contents.blocks], np.int64).reshape(-1, 4).T
    stacks = [[contents.frames[number] for number in one[4]] for one in contents.blocks]
    table = heap_table(stacks, np.arange(len(stacks)), dict(zip(NUMBERS, columns, strict=True)))
    builder.table("heap", table, times=())
    builder.metadata["heap"] = {"tool": f"memray {facts.memray}", "peak_bytes": int(table["bytes"].sum())}
    builder.metadata["memray"] = {
        name: getattr(facts, name)
        for name in ("command", "pid", "records", "aggregated", "python_allocator", "python_objects")
    }
    looks = np.array(contents.snapshots, np.int64).reshape(-1, 3)
    for name, values in (("process RSS", looks[:, 1]), ("heap traced by memray", looks[:, 2])):
        if len(looks):
            track = builder.track(name, "counter", pid=facts.pid, unit="bytes")
            builder.counter(track, looks[:, 0] * _NS_PER_MS, values)
    _report_end(facts, looks[:, 0], errors, has_end, builder)
    _report_unused(facts, builder)


def _has_end(file: IO[bytes]) -> bool:
    """Return whether the last record is there; memray itself refuses packed files that were cut."""
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        return True
    # memray grows a file ahead of what it writes, so zeros follow the last record
    position, last = file.seek(0, SEEK_END), b""
    while position and not last:
        position = max(0, position - _BLOCK_BYTES)
        file.seek(position)
        last = file.read(_BLOCK_BYTES).rstrip(b"\0")
    return last[-1:] in _LAST_RECORDS


def _by_memray(path: str) -> tuple[_Contents, list[str]]:
    """Return what memray reads from a file, and the lines that it logs."""
    folders = msgspec.json.encode([folder for folder in sys.path if isinstance(folder, str)]).decode()
    printed = run([sys.executable, "-I", "-c", inspect.getsource(process), folders, path])
    output, errors = printed if printed is not None else ("", "")
    lines = [line for line in errors.split("\n") if line.strip()]
    if not output and not lines:
        raise FormatError("the file is damaged: memray ended while it read it")
    if not output:
        why = "another version wrote it" if "incompatible" in errors else "it is cut or damaged"
        raise FormatError(
            f"memray cannot read it ({why}): it reads whole recordings of its own version. The one that "
            "recorded it makes a table, which opens here: memray transform csv FILE"
        )
    try:
        return msgspec.json.decode(output, type=_Contents), lines
    except UNDECODABLE as error:
        raise FormatError(f"the file is damaged: memray reads impossible values ({error})") from error


def _report_end(
    facts: _Facts, looks_ms: IntArray, errors: list[str], has_end: bool, builder: TraceBuilder
) -> None:
    effect = "the rest is missing; the peak and the kept blocks are those of the part that was read"
    last_ms = int(looks_ms[-1]) if len(looks_ms) else facts.start_ms
    if errors:
        builder.report.truncated("memray found no end of it", effect)
    elif facts.end_ms <= facts.start_ms or facts.end_ms < last_ms:  # at first it is the start, or 1 ms later
        builder.report.truncated(
            "the recording has no end: the program was killed, or still runs",
            effect,
            advice="let the program end, or use the part that was read",
        )
    elif not has_end:
        builder.report.truncated("its last record is missing", effect)


def _report_unused(facts: _Facts, builder: TraceBuilder) -> None:
    example = f"{facts.records:,} {'stacks' if facts.aggregated else 'allocations and frees'}"
    effect = "blocks at the peak and at the end by line, and memory over time; not when each was allocated"
    advice = "p.memory.heap() has the blocks, p.memory() the curve"
    builder.report.add("no-time-line", "info", example=example, effect=effect, advice=advice)
    effect = "blocks of all allocators and threads are added up"
    builder.report.add("columns-not-used", "info", 2, "allocator, thread", effect)
    if facts.native_traces:
        example = "memray run --native"
        effect = "blocks belong to the Python frames that called C code"
        advice = "memray flamegraph FILE shows its functions"
        builder.report.add("native-stacks-not-used", "info", example=example, effect=effect, advice=advice)
