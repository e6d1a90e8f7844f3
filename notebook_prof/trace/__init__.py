"""The columnar model of a recording: schema, Trace, builder, nesting, intervals and report."""

from .builder import TraceBuilder
from .clocks import Clock
from .intervals import Intervals, Window, add, clip, complement, contains, length, overlap, subtract, union
from .nesting import Nesting, inherit, nest
from .report import ImportReport, Statement
from .schema import ALLOCATIONS, COUNTERS, FLOWS, SLICES, STACKS, STEPS, TABLES, TRACKS, Column, Table
from .strings import Coded
from .taxonomy import CATEGORIES, DEVICE_CATEGORIES, PHASES
from .trace import Trace

__all__ = [
    "ALLOCATIONS", "CATEGORIES", "COUNTERS", "DEVICE_CATEGORIES", "FLOWS", "PHASES", "SLICES", "STACKS",
    "STEPS", "TABLES", "TRACKS", "Clock", "Coded", "Column", "ImportReport", "Intervals",
    "Nesting", "Statement", "Table", "Trace", "TraceBuilder", "Window", "add", "clip", "complement",
    "contains", "inherit", "length", "nest", "overlap", "subtract", "union",
]  # fmt: skip
