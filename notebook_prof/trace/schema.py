"""The tables of a Trace, declared once with dtype, unit and meaning, for validation and documentation."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ..background import checkpoint
from ..errors import FormatError
from .strings import as_text
from .taxonomy import CATEGORIES, PHASES, STEP_SOURCES, TRACK_KINDS


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    # A pandas dtype; those with a capital first letter (``Int64``) allow missing values.
    dtype: str
    # ``"ns"``, ``"bytes"``, ``"1"`` for shares, or empty.
    unit: str = ""
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A named list of columns."""

    name: str
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, name: str, columns: str) -> Table:
        """Make a table that its function's docstring describes, from ``name:dtype`` pairs with spaces."""
        return cls(name, tuple(Column(*pair.split(":")) for pair in columns.split()))

    @property
    def names(self) -> list[str]:
        """Column names, in order."""
        return [column.name for column in self.columns]

    def empty(self) -> pd.DataFrame:
        """Return a frame with these columns, the right dtypes and no rows."""
        return _empty(self).copy(deep=False)

    def frame(self, data: dict[str, Any]) -> pd.DataFrame:
        """Make a frame with this table's columns and dtypes; FormatError if one is missing or wrong."""
        # Undeclared columns follow at the end.
        checkpoint()  # each table takes milliseconds, and background work makes many
        if missing := [name for name in self.names if name not in data]:
            raise FormatError(f"table {self.name!r} lacks the column(s) {', '.join(missing)}")
        ready: dict[str, Any] = {}
        for column in self.columns:
            values = data[column.name]
            if isinstance(values, list) and not values:
                values = _empty_column(column.dtype)
            elif getattr(values, "dtype", None) != column.dtype:
                try:
                    integers = isinstance(values, np.ndarray) and values.dtype.kind in "iu"
                    if not integers or not column.dtype.startswith(("int", "uint")):
                        values = pd.Series(values)
                    values = as_text(values) if column.dtype == "str" else values.astype(column.dtype)
                except (TypeError, ValueError) as error:
                    raise FormatError(
                        f"column {column.name!r} of table {self.name!r} cannot be {column.dtype}: {error}"
                    ) from error
            ready[column.name] = values
        extra = {name: values for name, values in data.items() if name not in ready}
        return pd.DataFrame({**ready, **extra}, copy=False)

    def of_rows(self, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
        """Make a frame from rows (mappings), with the right dtypes even if there are no rows."""
        return self.frame({name: [row[name] for row in rows] for name in self.names})

    def of_tuples(self, rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
        """Make a frame from rows whose values are in the order of the columns."""
        return self.frame({name: [row[i] for row in rows] for i, name in enumerate(self.names)})

    def validate(self, frame: pd.DataFrame) -> None:
        """Raise FormatError unless `frame` has these columns with these dtypes."""
        dtypes = {name: str(dtype) for name, dtype in frame.dtypes.items()}
        for column in self.columns:
            if column.name not in dtypes:
                raise FormatError(f"table {self.name!r} lacks the column {column.name!r}")
            dtype = dtypes[column.name]
            if dtype != column.dtype and not (column.dtype == "str" and dtype in _TEXT):
                raise FormatError(
                    f"column {column.name!r} of table {self.name!r} is {dtype}; it must be {column.dtype}"
                )


@functools.cache
def _empty_column(dtype: str) -> pd.Series:
    """Return a column without values."""
    values = pd.Series([])
    return as_text(values) if dtype == "str" else values.astype(dtype)


@functools.cache
def _empty(table: Table) -> pd.DataFrame:
    """Return the frame without rows. Making it takes 4 ms, while a shallow copy is almost free."""
    return table.frame({column.name: [] for column in table.columns})


SLICES: Final = Table(
    "slices",
    (
        Column("ts", "int64", "ns", "Start, from the start of the trace."),
        Column("dur", "int64", "ns", "Duration; 0 for an instant."),
        Column("name", "category", "", "What ran: `aten::mm`, a kernel's or a function's name."),
        Column("category", "category", "", "One of " + " ".join(CATEGORIES) + "."),
        Column("track", "int32", "", "Row key into `tracks`."),
        Column("depth", "int16", "", "Number of slices of the track that are open around it."),
        Column("parent", "Int64", "", "Row of the enclosing slice; missing at the top."),
        Column(
            "self_ns",
            "int64",
            "ns",
            "Time in which it was the most recently started open slice of its track.",
        ),
        Column("step", "Int32", "", "Number of the step that it belongs to."),
        Column("phase", "category", "", "One of " + " ".join(PHASES) + "; missing outside known phases."),
        Column("correlation", "Int64", "", "The profiler's id that links a launch to its kernel."),
        Column("device", "Int16", "", "Device index; missing on the host."),
        Column("stream", "Int64", "", "Stream number; missing on the host."),
        Column("shapes", "category", "", "Input shapes as text, as in `[[32, 3, 8, 8], [16, 3, 3, 3]]`."),
        Column("module", "category", "", "Dotted path of the module, as in `layers.0.conv`."),
        Column("stack", "Int64", "", "Leaf row key into `stacks`."),
        Column(
            "line",
            "category",
            "",
            "Line of the user's source for which it ran, as in `cell:12`; device work has its launch's.",
        ),
    ),
)

TRACKS: Final = Table(
    "tracks",
    (
        Column("track", "int32", "", "Key."),
        Column("name", "str", "", "Thread, stream or counter name."),
        Column("kind", "category", "", "One of " + " ".join(TRACK_KINDS) + "."),
        Column("pid", "Int64", "", "Process id."),
        Column("tid", "Int64", "", "Native thread id."),
        Column("device", "Int16", "", "Device index."),
        Column("stream", "Int64", "", "Stream number."),
        Column("rank", "Int32", "", "Rank in a distributed job."),
        Column("unit", "str", "", "Unit of a counter's values: `bytes`, `1`, `W`, `MHz`; else empty."),
    ),
)

COUNTERS: Final = Table(
    "counters",
    (
        Column("track", "int32", "", "Row key into `tracks`."),
        Column("ts", "int64", "ns", "From the start of the trace."),
        Column("value", "float64", "", "In the track's unit."),
    ),
)

FLOWS: Final = Table(
    "flows",
    (
        Column("kind", "category", "", "`launch` (host → device) or `fwdbwd` (forward → backward)."),
        Column("src", "int64", "", "Row of the slice where it starts."),
        Column("dst", "int64", "", "Row of the slice where it ends."),
    ),
)

STACKS: Final = Table(
    "stacks",
    (
        Column("stack", "int64", "", "Key of this frame in its context."),
        Column("parent", "Int64", "", "Key of the calling frame; missing at the root."),
        Column("name", "str", "", "Function."),
        Column("file", "str", "", "File, or empty."),
        Column("line", "Int32", "", "Line, from 1."),
    ),
)

STEPS: Final = Table(
    "steps",
    (
        Column("step", "int32", "", "Number of the step, from 0."),
        Column("ts", "int64", "ns", "Start, from the start of the trace."),
        Column("dur", "int64", "ns", "Duration on the host."),
        Column("source", "category", "", "How it was found: " + " ".join(STEP_SOURCES) + "."),
        Column("loop", "int32", "", "Number of its loop, in order of the loops' first steps."),
    ),
)

ALLOCATIONS: Final = Table(
    "allocations",
    (
        Column("ts", "int64", "ns", "From the start of the trace."),
        Column("addr", "uint64", "", "Address of the block."),
        Column("bytes", "int64", "bytes", "Size; negative when it is freed."),
        Column("device", "int16", "", "Device index; -1 for the host."),
        Column("allocated", "int64", "bytes", "The allocator's total after this event."),
        Column("reserved", "int64", "bytes", "What the allocator holds of the system's memory after it."),
        Column("slice", "Int64", "", "Row of the innermost slice in which it happened."),
        Column("track", "int32", "", "Row key into `tracks` of its thread; -1 if unknown."),
    ),
)

_TEXT: Final = ("object", "str", "string")
"""Possible dtypes of text columns in pandas 2 and 3."""

TABLES: Final = (SLICES, TRACKS, COUNTERS, FLOWS, STACKS, STEPS, ALLOCATIONS)
