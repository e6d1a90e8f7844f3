"""AMD's databases: what their tables become."""

from __future__ import annotations

from ...errors import FormatError
from ...readers.codec.columns import INTS, TableSource
from ...readers.codec.rows import read_rows
from ...readers.codec.sqlite import Database
from ...trace.builder import TraceBuilder
from .rocpd import Rocpd, suffixes
from .rpd import read_rpd

_NOT_SHOWN = ("rocpd_pmc_event", "rocpd_sample", "rocpd_barrierop", "ext_callstack")


def read_database(database: Database, builder: TraceBuilder) -> None:
    """Put a database into `builder`."""
    if "rocpd_op" in database.tables or "rocpd_api" in database.tables:
        read_rpd(database, builder)
    else:
        processes = suffixes(set(database.tables))
        with_gpu = [suffix for suffix in processes if database.count(f"rocpd_kernel_dispatch{suffix}")]
        for suffix in sorted(processes, key=lambda suffix: _pid(database, suffix)):
            rank = with_gpu.index(suffix) if suffix in with_gpu and len(with_gpu) > 1 else None
            Rocpd(database, suffix, builder, rank).read()
    _report(database, builder)
    if builder.is_empty:
        raise FormatError(
            "the database of ROCm's profiler holds no kernels, calls or counters; record with "
            "rocprofv3 --runtime-trace"
        )


def _report(database: Database, builder: TraceBuilder) -> None:
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
