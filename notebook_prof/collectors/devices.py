"""Keeping to the devices that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from ..readers.kineto import KinetoColumns, MemoryColumns
from ..trace.report import ImportReport


def of_devices(columns: KinetoColumns, devices: Sequence[int] | None, report: ImportReport) -> KinetoColumns:
    """Leave out what ran on other devices, the calls that launched only that, and their memory.

    Parameters
    ----------
    columns : KinetoColumns
    devices : sequence of int or None
        Numbers to keep; None keeps all.
    report : ImportReport
        Told how much is left out.

    Returns
    -------
    KinetoColumns
        The host's rows stay, but for those calls: they would look like launches that lost their kernels.
    """
    if devices is None:
        return columns
    on_device = columns.device >= 0
    mine = on_device & np.isin(columns.device, devices)
    other = on_device & ~mine
    theirs = np.setdiff1d(columns.correlation[other], columns.correlation[mine])
    calls = ~on_device & np.isin(columns.correlation, theirs[theirs >= 0])
    memory = columns.memory
    kept = (memory.device < 0) | np.isin(memory.device, devices)
    left_out(report, devices, "device work", int(other.sum()))
    left = MemoryColumns(*(getattr(memory, field.name)[kept] for field in fields(MemoryColumns)))
    return replace(columns.where(~(other | calls)), memory=left)


def left_out(report: ImportReport, devices: Sequence[int], what: str, count: int) -> None:
    """Tell how much of other devices is left out."""
    report.add(
        "other-devices",
        "info",
        count,
        example=f"{what} on others than {', '.join(map(str, devices))}",
        effect="left out, with the calls that launched it, as was asked",
    )
