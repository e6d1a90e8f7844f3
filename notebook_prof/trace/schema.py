"""The tables of a Trace, declared once."""

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
    values = pd.Series([])
    return as_text(values) if dtype == "str" else values.astype(dtype)


@functools.cache
def _empty(table: Table) -> pd.DataFrame:
    """Return the frame without rows. Making it takes 4 ms, while a shallow copy is almost free."""
    return table.frame({column.name: [] for column in table.columns})


SLICES: Final = Table.of(
    "slices",
    "ts:int64 dur:int64 "  # ns from the start of the trace; the duration of an instant is 0
    "name:category "  # what ran: `aten::mm`, a kernel's or a function's name
    "category:category "  # one of `CATEGORIES`
    "track:int32 "  # row key into `tracks`
    "depth:int16 "  # number of slices of the track that are open around it
    "parent:Int64 "  # row of the enclosing slice; missing at the top
    "self_ns:int64 "  # time in which it was the most recently started open slice of its track
    "step:Int32 "  # number of the step that it belongs to
    "phase:category "  # one of `PHASES`; missing outside known phases
    "correlation:Int64 "  # the profiler's id that links a launch to its kernel
    "device:Int16 stream:Int64 "  # missing on the host
    "shapes:category module:category "  # such as `[[32, 3, 8, 8], [16, 3, 3, 3]]` and `layers.0.conv`
    "stack:Int64 "  # leaf row key into `stacks`
    "line:category",  # line of the user's source for which it ran: `cell:12`; device work has its launch's
)
TRACKS: Final = Table.of(
    "tracks",
    "track:int32 name:str "  # key, and name of the thread, stream or counter
    "kind:category "  # one of `TRACK_KINDS`
    "pid:Int64 tid:Int64 device:Int16 stream:Int64 rank:Int32 "
    "unit:str",  # of a counter's values: `bytes`, `1`, `W`, `MHz`; else empty
)
COUNTERS: Final = Table.of("counters", "track:int32 ts:int64 value:float64")
FLOWS: Final = Table.of(
    "flows",
    "kind:category "  # one of `FLOW_KINDS`
    "src:int64 dst:int64",  # rows of the slices where it starts and ends
)
STACKS: Final = Table.of(
    "stacks",
    "stack:int64 parent:Int64 "  # key of this frame in its context, and of the calling frame
    "name:str file:str line:Int32",  # function, file (or empty), and line from 1
)
STEPS: Final = Table.of(
    "steps",
    "step:int32 ts:int64 dur:int64 "  # number from 0, start, and duration on the host
    "source:category "  # how it was found: one of `STEP_SOURCES`
    "loop:int32",  # number of its loop, in order of the loops' first steps
)
ALLOCATIONS: Final = Table.of(
    "allocations",
    "ts:int64 addr:uint64 "
    "bytes:int64 "  # size; negative when it is freed
    "device:int16 "  # -1 for the host
    "allocated:int64 reserved:int64 "  # the allocator's total after it, and what it holds of the system's
    "slice:Int64 "  # row of the innermost slice in which it happened
    "track:int32",  # row key into `tracks` of its thread; -1 if unknown
)

_TEXT: Final = ("object", "str", "string")
"""Possible dtypes of text columns in pandas 2 and 3."""

TABLES: Final = (SLICES, TRACKS, COUNTERS, FLOWS, STACKS, STEPS, ALLOCATIONS)
