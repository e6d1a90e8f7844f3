"""On which of the devices that were asked for this process has a context."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ..trace.report import ImportReport

_NOT_INITIALIZED: Final = 3
_IDLE: Final = (0, _NOT_INITIALIZED, 201)
"""Done; CUDA was never initialised in this process; this thread has no context. Source: ``cuda.h``."""


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


def settle(devices: Sequence[int] | None = None, load: Callable[[str], Any] = ctypes.CDLL) -> str:
    """Wait until the cards have done what this process gave them, as torch's profiler does when it stops.

    CUPTI writes a kernel's record when the kernel has ended, and its flush waits for none. Cards that this
    process does not use are left alone, and CUDA is not initialised.

    Parameters
    ----------
    devices : sequence of int, optional
        Numbers of the cards to wait for; all unless given.
    load : callable, optional
        From a name to a loaded library.

    Returns
    -------
    str
        The driver's words for each wait that failed, as on a lost device; empty if none did.
    """
    cuda, count = driver(load), ctypes.c_int()
    if cuda is None or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return ""
    codes = {} if devices is not None else {"this thread's context": int(cuda.cuCtxSynchronize())}
    for number in range(count.value):
        if devices is None or number in devices:
            codes[f"GPU {number}"] = _settle_card(cuda, primary_context(cuda, number))
    return "; ".join(f"{what}: {_words(cuda, code)}" for what, code in codes.items() if code not in _IDLE)


def _settle_card(cuda: Any, primary: Primary) -> int:
    """Wait for the card's primary context, if it is active."""
    context, before = ctypes.c_void_p(), ctypes.c_void_p()
    if not primary.active:
        return primary.code
    if code := int(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), primary.device)):
        return code
    code = int(cuda.cuCtxPushCurrent_v2(context))
    if not code:
        code = int(cuda.cuCtxSynchronize())
        cuda.cuCtxPopCurrent_v2(ctypes.byref(before))
    cuda.cuDevicePrimaryCtxRelease_v2(primary.device)
    return code


def _words(cuda: Any, code: int) -> str:
    name = ctypes.c_char_p()
    cuda.cuGetErrorName(ctypes.c_int(code), ctypes.byref(name))
    return f"{(name.value or b'error').decode(errors='replace')} ({code})"


def tell_left_out(report: ImportReport, devices: Sequence[int], what: str, count: int) -> None:
    """Tell how much of other devices is left out."""
    report.add(
        "other-devices",
        "info",
        count,
        example=f"{what} on others than {', '.join(map(str, devices))}",
        effect="left out, with the calls that launched it, as was asked",
    )
