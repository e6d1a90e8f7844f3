"""Reads how much memory was freed but kept by malloc, and is therefore resident but unused."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any, Final

_FIELDS: Final = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Mallinfo2(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS.split())


@cache
def _libc() -> Any:
    """Return this process's C library; None if it lacks mallinfo2 (glibc before 2.33)."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return None
    libc.mallinfo2.restype = _Mallinfo2
    return libc


def freed_bytes() -> int:
    """Return the number of freed bytes that malloc has not returned to the system; 0 if unknown."""
    libc = _libc()
    return 0 if libc is None else int(libc.mallinfo2().fordblks)


def trim() -> None:
    """Make malloc return free pages to the system, even those between used blocks."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)
