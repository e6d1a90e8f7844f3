"""AMD's recordings: rocprofv3's databases (rocpd) and CSV files, and the ROCm Profiler Data tools' (RPD)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import FormatError
from ...readers.base import HEAD_BYTES, DatabaseReader, Folder, FolderReader, Probe
from ...readers.codec.columns import MISSING, Column, Rows, Texts
from ...readers.codec.sqlite import Database
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport

KERNELS, COUNTERS, CALLS, COPIES, ALLOCATIONS, SCRATCH, AGENTS = (
    "kernels",
    "counters",
    "calls",
    "copies",
    "allocations",
    "scratch",
    "agents",
)
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
_OURS: Final = {
    "start_timestamp": "start",
    "end_timestamp": "end",
    "process_id": "pid",
    "thread_id": "tid",
}
_LONGEST_HEAD: Final = 4_096


def kind_of(head: bytes) -> str | None:
    """Return what a file of rocprofv3 tells; None for any other file."""
    line = head[:_LONGEST_HEAD].partition(b"\n")[0]
    if b"," not in line or b"_" not in line:
        return None
    names = set(_names(line))
    return next((kind for kind, needed in _NEEDED if needed <= names), None)


def read_csv(data: bytes, report: ImportReport) -> Rows:
    """Return the rows of a file, their columns in lower case, times as ``start`` and ``end``."""
    line, _, content = data.partition(b"\n")
    names = _names(line)
    lost: list[str] = []
    table = _table(names, _readable(content), lost)
    columns: dict[str, Column] = {}
    for name in dict.fromkeys(names):
        if name in _TEXTS:
            columns[name] = Texts(table.column(name).combine_chunks())
        elif name == "address":
            columns[name] = hexadecimal(table.column(name).combine_chunks())
        elif name not in _SKIPPED:
            columns[name] = _integers(table.column(name).combine_chunks())
    rows = Rows(columns, table.num_rows)
    if "start" in names:
        whole = rows.ints("start", MISSING) != MISSING
        lost += [""] * int((~whole).sum())
        rows = rows.where(whole)
    report.add(
        "broken-row",
        "loss",
        len(lost),
        example=next((text for text in lost if text), "a row without a time")[:80],
        effect="these rows are left out",
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
            raise FormatError(f"the CSV cannot be taken apart: {error}") from error
        lost.append(content[len(whole) :].decode(errors="replace"))
        return _table(names, whole, lost)
    return table


def _readable(content: bytes) -> bytes:
    """Return the text with bytes that are not UTF-8 replaced: what is told of a line must be text."""
    import pyarrow as pa

    try:
        pa.array([content], pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return content.decode(errors="replace").encode()
    return content


def _integers(column: Any) -> IntArray:
    """Return whole numbers; of others, like ``Agent 4``, those at their ends."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        digits = pc.struct_field(pc.extract_regex(column, r"(?P<n>\d{1,18})\s*$"), 0)
        numbers = digits.cast(pa.int64())
    return np.asarray(pc.fill_null(numbers, MISSING).to_numpy(zero_copy_only=False), np.int64)


def hexadecimal(column: Any) -> IntArray:
    """Return numbers that are written like ``0x7ffb``, as signed ones; 0 for what is none.

    >>> import pyarrow as pa
    >>> hexadecimal(pa.array(["0x00007fFb", "", "0xq"])).tolist()
    [32763, 0, 0]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = pc.replace_substring_regex(column, r"^\s*0[xX]0*|\s+$", "")
    sound = pc.match_substring_regex(digits, r"^[0-9a-fA-F]{1,16}$")
    padded = pc.utf8_lpad(pc.if_else(sound, digits, "0"), 16, "0").cast(pa.large_binary())
    text = np.frombuffer(b"".join(padded.to_pylist()), np.uint8).reshape(-1, 16).astype(np.int64)
    nibbles = (text & 15) + 9 * (text >> 6)
    value = np.zeros(len(text), np.int64)
    for digit in range(16):
        value = (value << 4) | nibbles[:, digit]
    return value


def merged(parts: list[Rows], names: Mapping[str, str]) -> Rows:
    """Return the rows of files one behind another; `names` tells ``ints`` or ``texts`` of each column."""
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
    return Rows(columns, sum(map(len, parts)))


class RocmReader(DatabaseReader):
    """Reads ``*_results.db`` of rocprofv3 and rocprof-sys (rocpd), and ``.rpd`` of rocmProfileData."""

    # Kernels and copies are on the streams of their GPUs, HIP and HSA calls on their threads, with arrows
    # between them. roctx ranges become annotations, PyTorch's operators become operators. Times count from
    # when the machine was started, since neither format contains the date.
    name: ClassVar[str] = "rocm"
    priority: ClassVar[int] = 660
    describes: ClassVar[str] = "AMD ROCm: rocprofv3's database (rocpd, *_results.db), rocmProfileData's .rpd"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the database has AMD's tables."""
        return any(
            name.startswith(("rocpd_metadata", "rocpd_kernel_dispatch", "rocpd_api", "rocpd_op"))
            for name in probe.tables
        )

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Refuse anything but a database."""
        raise FormatError("it is no SQLite database, as ROCm's profilers write")

    def read_database(self, database: Database, builder: TraceBuilder) -> None:
        """Put a database into `builder`."""
        from .databases import read_database

        read_database(database, builder)


class RocmCsvReader(FolderReader):
    """Reads what ``rocprofv3 --output-format csv`` writes: a file a domain, from one process or several."""

    # Kernels, copies, calls and markers are treated as in its database. If several processes use GPUs, each
    # is a rank.
    name: ClassVar[str] = "rocm_csv"
    priority: ClassVar[int] = 655
    describes: ClassVar[str] = "AMD ROCm: CSV files of rocprofv3 (kernel, copy, HIP, HSA and marker traces)"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the file begins like one of rocprofv3's, in CSV or JSON."""
        return _is_json(probe.head) or kind_of(probe.head) not in (None, AGENTS)

    def recognises_folder(self, folder: Folder) -> bool:
        """Return whether a file of the folder has such a header."""
        return any(kind_of(folder.head(name)) not in (None, AGENTS) for name in _csv_files(folder))

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Put one file into `builder`."""
        if _is_json(data[:HEAD_BYTES]):
            raise FormatError(
                "it is rocprofv3's JSON, which is not read: record with --output-format rocpd, which has the "
                "same in one database, or with csv"
            )
        from .csv_files import read_file

        read_file(data, builder)

    def read_folder(self, folder: Folder, builder: TraceBuilder) -> None:
        """Put all files of a run into `builder`. Files of the same process have the same prefix."""
        from .csv_files import read_folder

        read_folder(folder, _csv_files(folder), builder)


def _is_json(head: bytes) -> bool:
    return head.lstrip()[:1] == b"{" and b'"rocprofiler-sdk-tool"' in head


def _csv_files(folder: Folder) -> list[str]:
    return [name for name in folder.names if ".csv" in name.rpartition("/")[2]]
