"""Freed memory that is kept until a rank is done, in processes that were told to give it back at once."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Numbers of glibc's ``mallopt``."""
_ASKED: Final = "MALLOC_TRIM_THRESHOLD_"
_ASKED_MMAP: Final = "MALLOC_MMAP_THRESHOLD_"
_MMAP_BYTES: Final = 128 << 10
"""glibc's own; it stays so wherever the other threshold was asked for."""
_KEPT: Final = 256 << 20
_KEPT_MMAP: Final = 32 << 20
_lock = threading.Lock()
_inside = 0


@contextmanager
def heap_kept() -> Iterator[None]:
    """Give freed memory back at the end, not at every call, where the environment asks for the latter.

    Dask's nanny sets ``MALLOC_TRIM_THRESHOLD_`` for its workers, so that glibc gives every array back when it
    is freed, and the next one costs page faults again: about 10,000 for a rank of 6 MB, and 8 to 10 % of its
    CPU time. Inside, glibc keeps what is freed; at the end the thresholds are what they were, and what is
    free is given back, so that the process holds no more than before. Does nothing where the variable is
    not set, or there is no glibc.
    """
    library, asked = _glibc(), os.environ.get(_ASKED, "")
    if library is None or not asked.isdecimal():
        yield
        return
    _enter(library)
    try:
        yield
    finally:
        _leave(library, int(asked))


def _enter(library: Any) -> None:
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            library.mallopt(_TRIM_THRESHOLD, _KEPT)
            library.mallopt(_MMAP_THRESHOLD, _KEPT_MMAP)


def _leave(library: Any, asked: int) -> None:
    """The last thread that leaves sets what was asked for."""
    global _inside
    with _lock:
        _inside -= 1
        if _inside:
            return
        mmap = os.environ.get(_ASKED_MMAP, "")
        library.mallopt(_TRIM_THRESHOLD, asked)
        library.mallopt(_MMAP_THRESHOLD, int(mmap) if mmap.isdecimal() else _MMAP_BYTES)
        library.malloc_trim(0)


@cache
def _glibc() -> Any:
    """The C library of this process, if it is glibc."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # TypeError on Windows
        return None
    return library if hasattr(library, "gnu_get_libc_version") and hasattr(library, "malloc_trim") else None
