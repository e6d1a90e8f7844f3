"""Names that records point to: kernels, calls, NVTX ranges, copies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.strings import Coded

COPY: Final = ("unknown", *("HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"))
MEMORY: Final = (
    *("Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"),
)
SYNC: Final = ("Unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
OVERHEAD: Final = {
    0: "Unknown overhead",
    1: "Driver compiler",
    1 << 16: "Buffer flush",
    2 << 16: "Instrumentation",
    3 << 16: "Resource",
    4 << 16: "Runtime triggered module loading",
    5 << 16: "Lazy function loading",
    6 << 16: "Command buffer full",
    7 << 16: "Activity buffer request",
    8 << 16: "UVM activity init",
}
"""As Kineto spells them; numbers from ``cupti_activity.h``."""


def coded(numbers: npt.NDArray[Any], name: Callable[[int], str]) -> Coded:
    """Return a column of names, each distinct number being named once."""
    distinct, codes = np.unique(numbers, return_inverse=True)
    texts = [name(int(number)) for number in distinct]
    code_of: dict[str, int] = {}
    again = np.array([code_of.setdefault(text, len(code_of)) for text in texts], np.int64)
    return Coded(again[codes] if len(again) else codes, list(code_of))


def kernel_name(address: int) -> str:
    """Return the name of a kernel from the C string at `address`, demangled where that is possible."""
    return demangle(text_at(address)) or "kernel"


def text_at(address: int) -> str:
    """Return the C string at an address of this process; empty for none."""
    return ctypes.string_at(address).decode(errors="replace") if address else ""


def copy_name(code: int) -> str:
    """Name a copy as Kineto does; `code` is kind, source and target, a byte each.

    Examples
    --------
    >>> copy_name(1 << 16 | 2 << 8 | 3)
    'Memcpy HtoD (Pinned -> Device)'
    """
    kind, source, target = code >> 16 & 255, code >> 8 & 255, code & 255
    return f"Memcpy {_pick(COPY, kind)} ({_pick(MEMORY, source)} -> {_pick(MEMORY, target)})"


def memset_name(kind: int) -> str:
    """Name a fill as Kineto does."""
    return f"Memset ({_pick(MEMORY, kind)})"


def sync_name(kind: int) -> str:
    """Name a wait as Kineto does."""
    return _pick(SYNC, kind)


def overhead_name(kind: int) -> str:
    """Return what CUPTI or the driver did in the program's time."""
    return OVERHEAD.get(kind, OVERHEAD[0])


def demangle(name: str) -> str:
    """Write a C++ name in readable form, by the process's C++ library; as it is where that cannot be done.

    Examples
    --------
    >>> demangle("cupy_add__float32_float32_float32")
    'cupy_add__float32_float32_float32'
    """
    if not name.startswith("_Z") or (call := _demangler()) is None:
        return name
    status = ctypes.c_int()
    readable = call(name.encode(), None, None, ctypes.byref(status))
    if not readable:
        return name
    try:
        return ctypes.string_at(readable).decode(errors="replace") if status.value == 0 else name
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(readable))


@cache
def _demangler() -> Any:
    """Return ``__cxa_demangle`` of the C++ ABI."""
    for library in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            call = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        call.restype = ctypes.c_void_p
        call.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return call
    return None


def _pick(words: tuple[str, ...], number: int) -> str:
    return words[number] if number < len(words) else words[0]
