"""On which cards this process has a context already, so that looking at the others makes none."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final, NamedTuple

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
    """CUDA's driver; None where there is none. `load` makes a loaded library of a name."""
    try:
        return load("libcuda.so.1")
    except OSError:
        return None


def in_use(load: Callable[[str], Any] = ctypes.CDLL) -> set[int] | None:
    """Numbers of the cards whose primary context is active; None where the driver does not tell.

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
