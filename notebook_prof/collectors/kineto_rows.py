"""Selects the rows of Kineto's columns that a recording keeps, for the torch and the cuda collector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from ..readers.kineto import KinetoColumns, MemoryColumns
from ..readers.kineto.activity_types import CALL_TYPES
from ..trace.report import ImportReport
from .devices import tell_left_out


def of_devices(columns: KinetoColumns, devices: Sequence[int] | None, report: ImportReport) -> KinetoColumns:
    """Drop work and memory of other devices, and the calls that launched it; None keeps all devices."""
    # other host rows stay; these calls would look like launches that lost their kernels
    if devices is None:
        return columns
    on_device = columns.device >= 0
    on_chosen = on_device & np.isin(columns.device, devices)
    other = on_device & ~on_chosen
    theirs = np.setdiff1d(columns.correlation[other], columns.correlation[on_chosen])
    is_call = np.array([kind in CALL_TYPES for kind in columns.kind.values] + [False])[columns.kind.codes]
    # Only calls: an operator's number is torch's own, and may be the same as one of CUPTI's.
    calls = ~on_device & is_call & np.isin(columns.correlation, theirs[theirs >= 0])
    memory = columns.memory
    kept = (memory.device < 0) | np.isin(memory.device, devices)
    tell_left_out(report, devices, "device work", int(other.sum()))
    left = MemoryColumns(*(getattr(memory, field.name)[kept] for field in fields(MemoryColumns)))
    return replace(columns.where(~(other | calls)), memory=left)
