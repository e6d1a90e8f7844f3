"""Records which code had allocated the heap at its peak and what is kept, with memray or else tracemalloc."""

from __future__ import annotations

import sys
from typing import ClassVar, Final

from ...optional import installed
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ..base import Availability, Collector
from ..options import CollectorOptions
from ..python.assemble import OTHER_CELLS
from .blocks import MemrayTracer, TracemallocTracer, blocks_table

# The heap collector runs only on request.

HEAP: Final = "heap"
"""Name of the table, and metadata key for the tool's name and the size of the peak."""


class HeapCollector(Collector):
    """Traces the process's allocations, with the Python stacks that made them."""

    # Uses memray if it is installed, otherwise tracemalloc, which is slower and sees less. Both slow down the
    # code, so times of Python functions in the same recording are too long.
    name: ClassVar[str] = "heap"
    holds: ClassVar[frozenset[str]] = frozenset({"tracing of the heap"})

    def __init__(self, options: CollectorOptions | None = None) -> None:
        del options
        self._tracer: MemrayTracer | TracemallocTracer | None = None
        self._in_the_way = ""

    @classmethod
    def availability(cls) -> Availability:
        """Return the tool that can trace the heap."""
        if installed("memray"):
            return Availability(True, "by memray: allocations of C code and Python, with their Python stack")
        return Availability(
            True,
            'by tracemalloc: lines of Python and NumPy; with memray, pip install "notebook-prof[heap]", also '
            "allocations of other C code, and faster",
        )

    def start(self, clock: Clock) -> None:
        """Start tracing, with tracemalloc if the user's code already occupies what memray needs."""
        del clock
        self._tracer = self._memray() if installed("memray") else None
        if self._tracer is None:
            self._tracer = TracemallocTracer()
            self._tracer.start()

    def _memray(self) -> MemrayTracer | None:
        """Start and return a memray tracer; None if one of the user's tools prevents that."""
        if sys.getprofile() is not None:
            self._in_the_way = "a profiler of the user's code (sys.getprofile() is not None)"
            return None
        tracer = MemrayTracer()
        try:
            tracer.start()
        except RuntimeError:
            tracer.close()
            self._in_the_way = "memray's Tracker in the user's code"
            return None
        return tracer

    def stop(self) -> None:
        """End tracing."""
        if self._tracer is not None:
            self._tracer.stop()

    def result(self, builder: TraceBuilder) -> None:
        """Add the table of blocks by line, and the name of the tool that traced them."""
        tracer, self._tracer = self._tracer, None
        if tracer is None:
            return
        try:
            blocks = tracer.blocks()
            self._tell(tracer)
        finally:
            tracer.close()
        builder.table(HEAP, blocks_table(blocks, builder.metadata.get(OTHER_CELLS, {})), times=())
        builder.metadata[HEAP] = {"tool": blocks.tool, "peak_bytes": blocks.peak_bytes}
        self.report.add(
            "heap-traced",
            "info",
            example=blocks.tool,
            effect="code that calls many functions, or makes many objects, ran slower than it does alone",
            advice="take times from a recording without --heap",
        )

    def _tell(self, tracer: MemrayTracer | TracemallocTracer) -> None:
        if self._in_the_way:
            self.report.add(
                "heap-gave-way",
                "info",
                example=f"{self._in_the_way} was running",
                effect="the heap was traced by tracemalloc, which does not see allocations of other C code",
            )
        if tracer.gave_way_to:
            self.report.add(
                "heap-gave-way",
                "loss",
                example=f"the code used {tracer.gave_way_to}, which excludes tracing the heap",
                effect="the heap was traced until then",
            )

    def abandon(self) -> None:
        """Stop tracing, and delete the result."""
        if self._tracer is not None:
            self._tracer.close()
            self._tracer = None


__all__ = ["HeapCollector"]
