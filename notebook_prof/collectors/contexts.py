"""On which cards this process has a context already, so that looking at the others makes none."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


def in_use(load: Callable[[str], Any] = ctypes.CDLL) -> set[int] | None:
    """Numbers of the cards whose primary context is active; None where the driver does not tell.

    A context takes hundreds of megabytes of its card, and choosing a card makes one since CUDA 12. Nothing is
    initialised here: before CUDA is, no card is in use.

    Parameters
    ----------
    load : callable, optional
        From a name to a loaded library.
    """
    try:
        cuda = load("libcuda.so.1")
    except OSError:
        return None
    count = ctypes.c_int()
    if code := int(cuda.cuDeviceGetCount(ctypes.byref(count))):
        return set() if code == _NOT_INITIALIZED else None
    return {number for number in range(count.value) if _active(cuda, number)}


_NOT_INITIALIZED = 3


def _active(cuda: Any, number: int) -> bool:
    device, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
    if cuda.cuDeviceGet(ctypes.byref(device), number):
        return False
    state = cuda.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
    return not state and bool(active.value)
