"""The reader of AMD's databases."""

from __future__ import annotations

from typing import ClassVar

from ...errors import FormatError
from ...trace.builder import TraceBuilder
from ..base import DatabaseReader, Probe
from ..codec.columns import INTS, TableSource
from ..codec.rows import read_rows
from ..codec.sqlite import Database
from .rocpd import Rocpd, suffixes
from .rpd import read_rpd

_NOT_SHOWN = ("rocpd_pmc_event", "rocpd_sample", "rocpd_barrierop", "ext_callstack")


class RocmReader(DatabaseReader):
    """Reads ``*_results.db`` of rocprofv3 and rocprof-sys (rocpd), and ``.rpd`` of rocmProfileData.

    Kernels and copies lie on the streams of their GPUs, calls of HIP and HSA on their threads, with arrows
    between them; roctx ranges are annotations, PyTorch's operators operators. Times count from when the
    machine was started: neither tells the date.
    """

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
        """Refuse what is no database."""
        raise FormatError("it is no SQLite database, as ROCm's profilers write")

    def read_database(self, database: Database, builder: TraceBuilder) -> None:
        """Put a database into `builder`."""
        if "rocpd_op" in database.tables or "rocpd_api" in database.tables:
            read_rpd(database, builder)
        else:
            processes = suffixes(set(database.tables))
            with_gpu = [suffix for suffix in processes if database.count(f"rocpd_kernel_dispatch{suffix}")]
            for suffix in sorted(processes, key=lambda suffix: _pid(database, suffix)):
                rank = with_gpu.index(suffix) if suffix in with_gpu and len(with_gpu) > 1 else None
                Rocpd(database, suffix, builder, rank).read()
        self._report(database, builder)
        if builder.is_empty:
            raise FormatError(
                "the database of ROCm's profiler holds no kernels, calls or counters; record with "
                "rocprofv3 --runtime-trace"
            )

    def _report(self, database: Database, builder: TraceBuilder) -> None:
        counts = {
            name: count
            for name in sorted(database.tables)
            if name.startswith(_NOT_SHOWN) and (count := database.count(name))
        }
        builder.report.add(
            "table-not-used",
            "info",
            sum(counts.values()),
            example=", ".join(f"{name} ({count:,} rows)" for name, count in list(counts.items())[:3]),
            effect="what these tables tell is not shown",
            advice="nothing needs to be done",
        )


def _pid(source: TableSource, suffix: str) -> int:
    rows = read_rows(source, f"rocpd_info_process{suffix}", {"pid": INTS})
    return int(rows.ints("pid").min(initial=1 << 31))
