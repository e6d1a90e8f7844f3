"""Nsight Systems reports: SQLite exports, and folders or streams of Arrow and Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from ...errors import FormatError
from ...readers.base import DatabaseReader, Probe
from ...readers.codec.columns import TableSource
from ...readers.codec.sqlite import Database
from ...readers.folder import Folder, FolderReader
from ...trace.builder import TraceBuilder
from .arrow_tables import STREAM, ArrowTables, names_of_streams

_MARKS: Final = ("CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "OSRT_API", "NVTX_EVENTS", "COMPOSITE_EVENTS")
_HEADS: Final = (b"NVIDIA Tegra Profiler Report", b'{"data":["[Unknown]"')


class NsysReader(DatabaseReader, FolderReader):
    """Reads what ``nsys export`` writes: SQLite, and folders or streams of Arrow and Parquet."""

    # Kernels, copies and fills lie on the streams of their GPUs, calls of CUDA and of the operating system on
    # their threads, with arrows between them; NVTX ranges are annotations, those of PyTorch's `emit_nvtx`
    # operators. Several processes that use GPUs are ranks.
    name: ClassVar[str] = "nsys"
    priority: ClassVar[int] = 670
    describes: ClassVar[str] = (
        "NVIDIA Nsight Systems: nsys export --type sqlite, arrowdir, arrow or parquetdir"
    )

    def recognises(self, probe: Probe) -> bool:
        """Return whether the database or the stream has Nsight's tables; also what must be exported first."""
        if probe.tables:
            return _is_nsys(probe.tables)
        return probe.head.startswith((*_HEADS, STREAM))

    def recognises_folder(self, folder: Folder) -> bool:
        """Return whether there are tables of Nsight's in Arrow or Parquet files."""
        return _is_nsys(ArrowTables.names_in(folder))

    def read_database(self, database: Database, builder: TraceBuilder) -> None:
        """Put an SQLite export into `builder`."""
        _read_tables(database, builder)

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Put streams of Arrow into `builder`."""
        if not data.startswith(STREAM):
            raise FormatError(
                "it is a report of Nsight Systems in a form that only Nsight reads. Export it, and open the "
                "result: nsys export --type sqlite --include-blobs=true FILE"
            )
        source = ArrowTables.of_streams(data)
        if not _is_nsys(source.tables):
            raise FormatError(
                f"it is a stream of Arrow tables, but not of Nsight Systems: {names_of_streams(source)}"
            )
        _read_tables(source, builder)

    def read_folder(self, folder: Folder, builder: TraceBuilder) -> None:
        """Put a folder of tables into `builder`."""
        _read_tables(ArrowTables.of_folder(folder, builder.report), builder)


def _read_tables(source: TableSource, builder: TraceBuilder) -> None:
    """Put a report into `builder`, whatever its tables are stored in."""
    from .counters import (
        add_gpu_metrics,
        add_memory,
        add_network,
        add_page_faults,
        add_scheduling,
        report_diagnostics,
    )
    from .device import add_device_work
    from .ranges import add_ranges
    from .session import Session
    from .stacks import add_calls, add_overhead, add_stack_samples, add_system_calls

    session = Session(source, builder)
    work = add_device_work(session)
    add_ranges(session)  # it may name threads
    add_calls(session, work)
    add_system_calls(session)
    add_overhead(session)
    add_stack_samples(session)
    add_gpu_metrics(session)
    add_network(session)
    add_page_faults(session)
    add_scheduling(session)
    add_memory(session)
    report_diagnostics(session)
    session.report_unread()
    if builder.is_empty:
        raise FormatError(
            "the report of Nsight Systems holds no kernels, calls, ranges, samples or counters; record with "
            "--trace=cuda,nvtx,osrt"
        )


def _is_nsys(tables: Iterable[str]) -> bool:
    names = set(tables)
    return "StringIds" in names and any(name.startswith(_MARKS) for name in names)
