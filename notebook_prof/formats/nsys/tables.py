"""What all tables of a report of Nsight Systems become."""

from __future__ import annotations

from ...errors import FormatError
from ...readers.codec.columns import TableSource
from ...trace.builder import TraceBuilder
from .counters import (
    add_gpu_metrics,
    add_memory,
    add_network,
    add_page_faults,
    add_scheduling,
    report_diagnostics,
)
from .device import add_device_work
from .host import add_calls, add_overhead, add_system_calls
from .ranges import add_ranges
from .session import Session
from .stacks import add_stack_samples


def read_tables(source: TableSource, builder: TraceBuilder) -> None:
    """Put a report into `builder`, wherever its tables lie.

    Raises
    ------
    FormatError
        If nothing was recorded.
    """
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
