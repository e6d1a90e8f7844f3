"""What malloc keeps of memory that was freed: resident, but used by nobody."""

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
    """Return the C library of this process; None where it does not tell (glibc does from 2.33 on)."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return None
    libc.mallinfo2.restype = _Mallinfo2
    return libc


def freed_bytes() -> int:
    """Return freed blocks that malloc has not given back to the system; 0 where it does not tell.

    Examples
    --------
    >>> freed_bytes() >= 0
    True
    """
    libc = _libc()
    return 0 if libc is None else int(libc.mallinfo2().fordblks)


def trim() -> None:
    """Let malloc return whole free pages to the system, those between used blocks too."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)
