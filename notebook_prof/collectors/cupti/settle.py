"""Waiting for the cards before CUPTI is asked for its records."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ..contexts import driver, primary_context

_NOT_IN_USE: Final = (3, 201)
"""CUDA was never initialised in this process; this thread has no context. Source: ``cuda.h``."""


def settle(devices: Sequence[int] | None = None, load: Callable[[str], Any] = ctypes.CDLL) -> str:
    """Wait until the cards have done what this process gave them, as torch's profiler does when it stops.

    CUPTI writes a kernel's record when the kernel has ended, and its own flush waits for none: what still
    runs at the end of a cell would be missing. Cards that this process does not use are left alone, and CUDA
    is not initialised.

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
    cuda = driver(load)
    if cuda is None:
        return ""
    codes = [("this thread's context", int(cuda.cuCtxSynchronize()))] if devices is None else []
    codes += _cards(cuda, devices)
    return "; ".join(f"{what}: {_words(cuda, code)}" for what, code in codes if code not in (0, *_NOT_IN_USE))


def _cards(cuda: Any, devices: Sequence[int] | None) -> Iterator[tuple[str, int]]:
    count = ctypes.c_int()
    if cuda.cuDeviceGetCount(ctypes.byref(count)):
        return
    for number in range(count.value):
        if devices is None or number in devices:
            yield f"GPU {number}", _card(cuda, number)


def _card(cuda: Any, number: int) -> int:
    """Wait for the card's primary context, if it is active."""
    primary = primary_context(cuda, number)
    if not primary.active:
        return primary.code
    context, before = ctypes.c_void_p(), ctypes.c_void_p()
    if code := int(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), primary.device)):
        return code
    try:
        if code := int(cuda.cuCtxPushCurrent_v2(context)):
            return code
        try:
            return int(cuda.cuCtxSynchronize())
        finally:
            cuda.cuCtxPopCurrent_v2(ctypes.byref(before))
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(primary.device)


def _words(cuda: Any, code: int) -> str:
    name = ctypes.c_char_p()
    cuda.cuGetErrorName(ctypes.c_int(code), ctypes.byref(name))
    return f"{(name.value or b'error').decode(errors='replace')} ({code})"
