"""Nsight Systems reports: SQLite exports, and folders or streams of Arrow and Parquet."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np

from ...errors import FormatError
from ...readers.base import DatabaseReader, Folder, FolderReader, Probe
from ...readers.codec.columns import FLOATS, INTS, MISSING, TEXTS, Column, Kind, TableSource, Texts
from ...readers.codec.sqlite import Database
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport

STREAM: Final = b"\xff\xff\xff\xff"
_PARQUET: Final = b"PAR1"
_ENDINGS: Final = (".arrow", ".arrows", ".parquet")


class ArrowTables:
    """Tables of a folder, one per file, or of one file with several streams."""

    def __init__(self, parts: Mapping[str, tuple[Callable[[list[str]], Any], Iterable[str], int]]) -> None:
        # by table: what returns a `pyarrow.Table` of some columns, the columns, and the number of rows
        self._parts = parts
        self.tables: Mapping[str, tuple[str, ...]] = {
            name: tuple(columns) for name, (_, columns, _) in parts.items()
        }

    @staticmethod
    def names_in(folder: Folder) -> set[str]:
        """Return the tables of a folder, by the names of those files that begin like Arrow or Parquet."""
        names = {PurePosixPath(name).stem: name for name in folder.names if name.endswith(_ENDINGS)}
        if "StringIds" not in names or not folder.head(names["StringIds"]).startswith((STREAM, _PARQUET)):
            return set()
        return set(names)

    @classmethod
    def of_folder(cls, folder: Folder, report: ImportReport) -> ArrowTables:
        """Return the tables of a folder; files that cannot be read are counted as ``broken-file``."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        parts: dict[str, Any] = {}
        for name in folder.names:
            if not name.endswith(_ENDINGS):
                continue
            table = PurePosixPath(name).stem
            try:
                if folder.head(name).startswith(_PARQUET):
                    # only the requested columns are read
                    file = pq.ParquetFile(folder.path_of(name))
                    parts[table] = file.read, file.schema_arrow.names, file.metadata.num_rows
                else:
                    whole = _checked(pa.ipc.open_stream(io.BytesIO(folder.read(name))).read_all())
                    parts[table] = whole.select, whole.column_names, whole.num_rows
            except (pa.ArrowException, OSError) as error:
                report.add("broken-file", "loss", example=f"{name}: {error}", effect="this table is missing")
        return cls(parts)

    @classmethod
    def of_streams(cls, data: bytes) -> ArrowTables:
        """Return the tables of streams that follow one another, as far as they are whole."""
        import pyarrow as pa

        parts: dict[str, Any] = {}
        source = pa.BufferReader(data)
        while source.tell() < len(data):
            try:
                whole = _checked(pa.ipc.open_stream(source).read_all())
            except (pa.ArrowException, OSError):
                break
            name = (whole.schema.metadata or {}).get(b"table_name", b"").decode(errors="replace")
            parts[name] = whole.select, whole.column_names, whole.num_rows
        return cls(parts)

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        return self._parts[table][2] if table in self._parts else 0

    def read(self, table: str, kinds: Mapping[str, Kind]) -> dict[str, Column]:
        """Return columns of a table. Columns that it lacks are left out."""
        columns = [name for name in kinds if name in self.tables.get(table, ())]
        if not columns:
            return {}
        whole = self._parts[table][0](columns)
        return {name: _column(whole.column(name), kinds[name]) for name in columns}


def _checked(table: Any) -> Any:
    table.validate(full=True)
    return table


def _column(column: Any, kind: Kind) -> Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if kind == TEXTS:
        is_text = not (numeric or pa.types.is_boolean(column.type) or pa.types.is_null(column.type))
        whole = column.cast(pa.large_string()) if is_text else pa.nulls(len(column), pa.large_string())
        return Texts(whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole)
    if pa.types.is_boolean(column.type):
        column, numeric = column.cast(pa.int8()), True
    if not numeric:
        missing = MISSING if kind == INTS else np.nan
        return np.full(len(column), missing)
    if kind == FLOATS:
        return np.asarray(pc.cast(column, pa.float64(), safe=False).fill_null(np.nan).to_numpy())
    # uint64 wraps as in SQLite, which has no unsigned numbers
    whole = pc.cast(column, pa.int64(), safe=False).fill_null(MISSING)
    return np.asarray(whole.to_numpy(), np.int64)


_MARKS: Final = ("CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "OSRT_API", "NVTX_EVENTS", "COMPOSITE_EVENTS")
_HEADS: Final = (b"NVIDIA Tegra Profiler Report", b'{"data":["[Unknown]"')


class NsysReader(DatabaseReader, FolderReader):
    """Reads what ``nsys export`` writes: SQLite, and folders or streams of Arrow and Parquet."""

    # Kernels, copies and fills lie on the streams of their GPUs, calls of CUDA and of the operating system on
    # their threads, with arrows between them; NVTX ranges are annotations, those of PyTorch's `emit_nvtx`
    # operators. Several processes that use GPUs are ranks.
    name = "nsys"
    priority = 670
    describes = "NVIDIA Nsight Systems: nsys export --type sqlite, arrowdir, arrow or parquetdir"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the database or the stream has Nsight's tables; also what must be exported first."""
        if probe.tables:
            return _is_nsys(probe.tables)
        return probe.head.startswith((*_HEADS, STREAM))

    def recognises_folder(self, folder: Folder) -> bool:
        return _is_nsys(ArrowTables.names_in(folder))

    def read_database(self, database: Database, builder: TraceBuilder) -> None:
        _read_tables(database, builder)

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Put streams of Arrow into `builder`."""
        if not data.startswith(STREAM):
            found = "it is neither SQLite nor Arrow of nsys export"
            if data.startswith(_HEADS):
                found = "it is a report of Nsight Systems in a form that only Nsight reads"
            raise FormatError(
                f"{found}. Export the report, and open the result: "
                "nsys export --type sqlite --include-blobs=true FILE"
            )
        source = ArrowTables.of_streams(data)
        if not _is_nsys(source.tables):
            names = ", ".join(map(repr, list(source.tables)[:5])) or "no table is complete"
            raise FormatError(f"it is a stream of Arrow tables, but not of Nsight Systems: {names}")
        _read_tables(source, builder)

    def read_folder(self, folder: Folder, builder: TraceBuilder) -> None:
        _read_tables(ArrowTables.of_folder(folder, builder.report), builder)


def _read_tables(source: TableSource, builder: TraceBuilder) -> None:
    """Put a report into `builder`, whatever its tables are stored in."""
    from . import samples
    from .ranges import add_ranges
    from .session import NsysSession, add_device_work

    session = NsysSession(source, builder)
    work = add_device_work(session)
    add_ranges(session)  # it may name threads
    samples.add_calls(session, work)
    samples.add_other_calls(session)
    samples.add_stack_samples(session)
    samples.add_gpu_metrics(session)
    samples.add_network(session)
    samples.add_page_faults(session)
    samples.add_scheduling(session)
    samples.add_memory(session)
    samples.report_diagnostics(session)
    session.report_unread()
    if builder.is_empty:
        raise FormatError(
            "the report of Nsight Systems has no kernels, calls, ranges, samples or counters; record with "
            "--trace=cuda,nvtx,osrt"
        )


def _is_nsys(tables: Iterable[str]) -> bool:
    names = set(tables)
    return "StringIds" in names and any(name.startswith(_MARKS) for name in names)
