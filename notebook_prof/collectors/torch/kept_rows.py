"""Which rows of Kineto's result a recording keeps: the user's Python calls, the chosen devices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Final

import numpy as np
import pandas as pd

from ...readers.kineto import KinetoColumns, MemoryColumns
from ...readers.kineto.activity_types import CALL_TYPES, rows_of
from ...trace.arrays import BoolArray
from ...trace.intervals import contains, union
from ...trace.report import ImportReport
from ..devices import tell_left_out

_PYTHON: Final = "python_function"
_CELL: Final = re.compile(r"(?:ipykernel_\d+[/\\]\d+\.py|<ipython-input-[^>]*>)\(\d+\): <module>$")
_KERNEL: Final = re.compile(r"(?:^|[/\\])ipykernel[/\\]")
_OURS: Final = re.compile(r"(?:^|[/\\])notebook_prof[/\\]collectors[/\\](?:base\.py|torch[/\\](?!hooks\.py))")


def users_only(columns: KinetoColumns) -> KinetoColumns:
    """Drop Python calls made only by the recording or by the notebook's kernel; keep operators, ranges,
    device work."""
    # Dropped are: calls outside the cell on a thread that runs a cell; every Python call on a thread where
    # ipykernel runs and no cell does; calls of our own module hooks and of starting and stopping, everywhere.
    # Without a cell (a script, a function) only the last rule applies.
    python = rows_of(columns.kind, np.array([kind == _PYTHON for kind in columns.kind.values], bool))
    ours, kernel, cell = (python & _rows_named(columns, test) for test in (_OURS, _KERNEL, _CELL))
    end = columns.ts + columns.dur
    drop = np.zeros(len(columns), bool)
    for tid in pd.unique(columns.tid[python]):
        here = python & (columns.tid == tid)
        drop |= here & _rows_within(columns, ours & here)
        if (cells := cell & here).any():
            inside = (columns.ts >= columns.ts[cells].min()) & (end <= end[cells].max())
            drop |= here & ~inside
        elif cell.any() and (kernel & here).any():
            drop |= here
    return columns.where(~drop)


def of_devices(columns: KinetoColumns, devices: Sequence[int] | None, report: ImportReport) -> KinetoColumns:
    """Drop the work and memory of other devices, and the calls that launched that work. None keeps all
    devices."""
    # other host rows stay; the dropped calls would look like launches that lost their kernels
    if devices is None:
        return columns
    on_device = columns.device >= 0
    on_chosen = on_device & np.isin(columns.device, devices)
    other = on_device & ~on_chosen
    theirs = np.setdiff1d(columns.correlation[other], columns.correlation[on_chosen])
    is_call = np.array([kind in CALL_TYPES for kind in columns.kind.values] + [False])[columns.kind.codes]
    # Only calls, since an operator's number is torch's own and may coincide with one of CUPTI's.
    calls = ~on_device & is_call & np.isin(columns.correlation, theirs[theirs >= 0])
    memory = columns.memory
    kept = (memory.device < 0) | np.isin(memory.device, devices)
    tell_left_out(report, devices, "device work", int(other.sum()))
    left = MemoryColumns(*(getattr(memory, field.name)[kept] for field in fields(MemoryColumns)))
    return replace(columns.where(~(other | calls)), memory=left)


def _rows_named(columns: KinetoColumns, pattern: re.Pattern[str]) -> BoolArray:
    matches = [pattern.search(name) is not None for name in columns.name.values]
    return rows_of(columns.name, np.array(matches, bool))


def _rows_within(columns: KinetoColumns, outer: BoolArray) -> BoolArray:
    """Return which rows start inside one of the rows `outer`."""
    starts = columns.ts[outer]
    return contains(union(starts, starts + np.maximum(columns.dur[outer], 1)), columns.ts)
