"""Keeping to the devices that were asked for, and on which of them this process has a context."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Final, NamedTuple

import numpy as np

from ..readers.kineto import KinetoColumns, MemoryColumns
from ..trace.report import ImportReport

_NOT_INITIALIZED: Final = 3


class Primary(NamedTuple):
    """The primary context of a card, which CUDA's runtime and so every library uses.

    Attributes
    ----------
    code : int
        What the driver said; 0 for success.
    device : c_int
        The card's handle.
    active : bool
    """

    code: int
    device: ctypes.c_int
    active: bool


def driver(load: Callable[[str], Any] = ctypes.CDLL) -> Any:
    """Return CUDA's driver; None where there is none. `load` makes a loaded library of a name."""
    try:
        return load("libcuda.so.1")
    except OSError:
        return None


def in_use(load: Callable[[str], Any] = ctypes.CDLL) -> set[int] | None:
    """Return numbers of the cards whose primary context is active; None where the driver does not tell.

    A context takes hundreds of megabytes of its card, and choosing a card makes one since CUDA 12. Nothing is
    initialised here: before CUDA is, no card is in use.

    Parameters
    ----------
    load : callable, optional
        From a name to a loaded library.
    """
    cuda, count = driver(load), ctypes.c_int()
    if cuda is None:
        return None
    if code := int(cuda.cuDeviceGetCount(ctypes.byref(count))):
        return set() if code == _NOT_INITIALIZED else None
    return {number for number in range(count.value) if primary_context(cuda, number).active}


def primary_context(cuda: Any, number: int) -> Primary:
    """Look whether a card's primary context is active, without making it so."""
    device, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
    code = int(cuda.cuDeviceGet(ctypes.byref(device), number)) or int(
        cuda.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
    )
    return Primary(code, device, not code and bool(active.value))


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
    on_chosen = on_device & np.isin(columns.device, devices)
    other = on_device & ~on_chosen
    theirs = np.setdiff1d(columns.correlation[other], columns.correlation[on_chosen])
    calls = ~on_device & np.isin(columns.correlation, theirs[theirs >= 0])
    memory = columns.memory
    kept = (memory.device < 0) | np.isin(memory.device, devices)
    tell_left_out(report, devices, "device work", int(other.sum()))
    left = MemoryColumns(*(getattr(memory, field.name)[kept] for field in fields(MemoryColumns)))
    return replace(columns.where(~(other | calls)), memory=left)


def tell_left_out(report: ImportReport, devices: Sequence[int], what: str, count: int) -> None:
    """Tell how much of other devices is left out."""
    report.add(
        "other-devices",
        "info",
        count,
        example=f"{what} on others than {', '.join(map(str, devices))}",
        effect="left out, with the calls that launched it, as was asked",
    )
