"""Recordings of memray (``.bin``), read by memray itself: the heap at its peak, and memory over time."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from os import SEEK_END
from tempfile import NamedTemporaryFile
from typing import IO, Annotated, Final

import msgspec
import numpy as np
import pandas as pd

from ...errors import FormatError
from ...optional import installed
from ...own_processes import run
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from . import process
from .heap import INSTEAD, NUMBERS, StackFrame, heap_table

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
    frames: list[StackFrame]


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
        raise FormatError("memray's recording holds no allocations: none were made, or the file was cut")
    facts, table = contents.facts, _heap(contents)
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
    """Return what memray reads of a file, and the lines that it logs meanwhile."""
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
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"the file is damaged: memray reads what cannot be ({error})") from error


def _heap(contents: _Contents) -> pd.DataFrame:
    """Return one row a line and function; ``bytes`` sum to the peak."""
    columns = np.array([one[:4] for one in contents.blocks], np.int64).reshape(-1, 4).T
    stacks = [[contents.frames[number] for number in one[4]] for one in contents.blocks]
    return heap_table(stacks, np.arange(len(stacks)), dict(zip(NUMBERS, columns, strict=True)))


def _report_end(
    facts: _Facts, looks_ms: IntArray, errors: list[str], has_end: bool, builder: TraceBuilder
) -> None:
    """Say where the end of the recording is missing."""
    effect = "what follows is missing; the peak and what is kept are those of the part that is there"
    last_ms = int(looks_ms[-1]) if len(looks_ms) else facts.start_ms
    if errors:
        builder.report.add("truncated-file", "loss", example="memray found no end of it", effect=effect)
    elif facts.end_ms <= facts.start_ms or facts.end_ms < last_ms:  # at first it is the start, or 1 ms later
        builder.report.add(
            "truncated-file",
            "loss",
            example="the recording has no end: the program was killed, or still runs",
            effect=effect,
            advice="let the program end, or look at what is there",
        )
    elif not has_end:
        builder.report.add("truncated-file", "loss", example="its last record is missing", effect=effect)


def _report_unused(facts: _Facts, builder: TraceBuilder) -> None:
    builder.report.add(
        "no-time-line",
        "info",
        example=f"{facts.records:,} {'stacks' if facts.aggregated else 'allocations and frees'}",
        effect="blocks at the peak and at the end by line, and memory over time; not when each was allocated",
        advice="p.memory.heap() has the blocks, p.memory() the curve",
    )
    builder.report.add(
        "columns-not-used",
        "info",
        2,
        example="allocator, thread",
        effect="blocks of all allocators and threads are added up",
    )
    if facts.native_traces:
        builder.report.add(
            "native-stacks-not-used",
            "info",
            example="memray run --native",
            effect="blocks belong to the Python frames that called C code",
            advice="memray flamegraph FILE shows its functions",
        )
