"""The heap collector: who allocated what was there at the peak, and what is kept, only when asked for."""

from __future__ import annotations

import sys
from typing import ClassVar, Final

from ...errors import RecordingError
from ...optional import installed
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ..base import Availability, Collector
from ..options import CollectorOptions
from ..python.assemble import OTHER_CELLS
from .blocks import blocks_table
from .memray_tracer import MemrayTracer
from .tracemalloc_tracer import TracemallocTracer

HEAP: Final = "heap"
"""Name of the table, and key of the metadata that says which tool traced and how high the peak was."""


class HeapCollector(Collector):
    """Traces allocations of the process with the Python stack that made them.

    With memray where it is installed; else with tracemalloc, which is slower and sees less.
    Both follow the code as it runs: times of Python functions in the same recording are too long.

    Parameters
    ----------
    options : CollectorOptions, optional
        Of these none matters.
    """

    name: ClassVar[str] = "heap"
    holds: ClassVar[frozenset[str]] = frozenset({"tracing of the heap"})

    def __init__(self, options: CollectorOptions | None = None) -> None:
        del options
        self._tracer: MemrayTracer | TracemallocTracer | None = None

    @classmethod
    def availability(cls) -> Availability:
        """Return with which tool the heap can be traced."""
        if installed("memray"):
            return Availability(True, "by memray: what C code and Python allocate, with its Python stack")
        return Availability(
            True,
            'by tracemalloc: lines of Python and NumPy; with memray, pip install "notebook-prof[heap]", also '
            "what other C code allocates, and sooner",
        )

    def start(self, clock: Clock) -> None:
        """Begin to trace.

        Raises
        ------
        RecordingError
            If another profiler uses the interpreter's profile function, or memray is at work already.
        """
        del clock
        if not installed("memray"):
            self._tracer = TracemallocTracer()
        elif sys.getprofile() is not None:
            raise RecordingError(
                "memray needs the interpreter's profile function, and another profiler has it "
                "(sys.getprofile() is not None); end that one first"
            )
        else:
            self._tracer = MemrayTracer()
        try:
            self._tracer.start()
        except RuntimeError as error:
            self._tracer.close()
            self._tracer = None
            raise RecordingError(f"the heap cannot be traced: {error}; end the other tracer first") from error

    def stop(self) -> None:
        """End tracing."""
        if self._tracer is not None:
            self._tracer.stop()

    def result(self, builder: TraceBuilder) -> None:
        """Add the table of blocks by line, and which tool saw them."""
        tracer, self._tracer = self._tracer, None
        if tracer is None:
            return
        try:
            blocks = tracer.blocks()
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

    def abandon(self) -> None:
        """End tracing, and delete what was seen."""
        if self._tracer is not None:
            self._tracer.close()
            self._tracer = None
