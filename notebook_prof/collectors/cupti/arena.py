"""The bounded store of activity buffers, and the two callbacks through which CUPTI uses it.

CUPTI calls back while it holds a lock of its own. A callback in Python would wait for the GIL there, and a
thread that has the GIL and enters CUDA waits for that lock: neither goes on (pytorch#186295). So no Python
runs in the callbacks. Both are a few instructions of machine code, written out below, that count with atomic
additions in a block of numbers; there is nothing in them that can wait or fail. They work at any time, also
between recordings and while the interpreter shuts down.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from typing import Any, Final

import numpy as np

from ...errors import RecordingError
from .walk import WORD, Words

BUFFER_BYTES: Final = 4 << 20
"""NVIDIA advises 1 to 10 MB: few calls back; pages that stay empty take no memory."""
MOST_BYTES: Final = 1 << 30
"""About seven million records."""

_NEXT, _LIMIT, _SIZE, _BASE, _DONE, _VALID = range(6)
"""Places in the block of numbers, 8 bytes each; `_VALID` is the first of many."""
_HERE: Final = bytes(8)
"""In the code, where the address of the block goes."""

_REQUEST: Final = (
    bytes.fromhex("f30f1efa 48b8"),  # endbr64; mov rax, block
    _HERE,
    bytes.fromhex("b901000000"),  # mov ecx, 1
    bytes.fromhex("f0480fc108"),  # lock xadd [rax + next], rcx
    bytes.fromhex("4c8b4008"),  # mov r8, [rax + limit]
    bytes.fromhex("4c39c1"),  # cmp rcx, r8
    bytes.fromhex("490f47c8"),  # cmova rcx, r8: behind the limit, all get the last buffer
    bytes.fromhex("480faf4810"),  # imul rcx, [rax + size]
    bytes.fromhex("48034818"),  # add rcx, [rax + base]
    bytes.fromhex("48890f"),  # mov [rdi], rcx: *buffer
    bytes.fromhex("488b4810"),  # mov rcx, [rax + size]
    bytes.fromhex("48890e"),  # mov [rsi], rcx: *size
    bytes.fromhex("48c70200000000"),  # mov qword [rdx], 0: *most, as many records as fit
    bytes.fromhex("c3"),  # ret
)
_COMPLETE: Final = (
    bytes.fromhex("f30f1efa 48b8"),  # endbr64; mov rax, block
    _HERE,
    bytes.fromhex("482b5018"),  # sub rdx, [rax + base]
    bytes.fromhex("48c1ea16"),  # shr rdx, 22: which buffer
    bytes.fromhex("f04c0144d028"),  # lock add [rax + valid + 8 rdx], r8
    bytes.fromhex("f048ff4020"),  # lock inc [rax + done]
    bytes.fromhex("c3"),  # ret
)
"""x86-64, calling convention of Linux; tests run them from many threads."""

_READ_AND_RUN: Final = 1 | 4


def possible() -> bool:
    """Return whether the callbacks exist for this processor and system."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")


class Arena:
    """Buffers for CUPTI, handed out until a bound; behind it, one that nobody reads.

    It is never freed: CUPTI keeps the callbacks' addresses. Requests at the bound are not declined, since
    CUPTI before 12.9 crashes on that (kineto#1534).

    Parameters
    ----------
    most_bytes : int

    Attributes
    ----------
    request, complete : int
        Addresses of the callbacks.

    Raises
    ------
    RecordingError
        If this processor or system does not allow it.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        if not possible():
            raise RecordingError(
                "reading CUPTI's records needs Linux on x86-64; elsewhere install a torch built for CUDA"
            )
        count = max(most_bytes // BUFFER_BYTES, 1)
        self._count = count
        self._numbers = np.zeros(_VALID + count + 1, np.int64)
        try:
            reserve = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
            self._region = mmap.mmap(-1, (count + 1) * BUFFER_BYTES, flags=reserve)
            self._code = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise RecordingError(f"there is no memory for CUPTI's buffers: {error}") from error
        self._words: Words = np.frombuffer(self._region, np.uint64)
        self._numbers[[_SIZE, _BASE]] = BUFFER_BYTES, self._words.ctypes.data
        self.request, self.complete = self._write()
        _arenas.append(self)

    def open(self) -> None:
        """Hand out buffers from the first one on."""
        self._numbers[_VALID:] = 0
        self._numbers[_DONE] = self._numbers[_NEXT] = 0
        self._numbers[_LIMIT] = self._count

    def close(self) -> None:
        """Hand out the buffer that nobody reads from now on; for when none is outstanding."""
        self._numbers[_LIMIT] = self._count
        self._numbers[_NEXT] = self._numbers[_DONE] = max(int(self._numbers[_NEXT]), self._count) + 1

    @property
    def outstanding(self) -> int:
        """Buffers that CUPTI still has."""
        return max(int(self._numbers[_NEXT] - self._numbers[_DONE]), 0)

    @property
    def refused(self) -> int:
        """Requests that met the bound."""
        return max(int(self._numbers[_NEXT]) - self._count, 0)

    @property
    def wasted_bytes(self) -> int:
        """Records that went into the buffer that nobody reads."""
        return int(self._numbers[_VALID + self._count])

    def take(self) -> list[Words]:
        """Copy what came back, in the order in which buffers were handed out, and give pages back."""
        each = BUFFER_BYTES // WORD
        valid = np.minimum(self._numbers[_VALID : _VALID + self._count], BUFFER_BYTES) // WORD
        copies = [
            self._words[at * each : at * each + int(valid[at])].copy()
            for at in np.flatnonzero(valid).tolist()
        ]
        if not self.outstanding:
            self._region.madvise(mmap.MADV_DONTNEED)
        return copies

    def _write(self) -> tuple[int, int]:
        """Put the code into a page, and make the page one that can run and not be written."""
        block = int(self._numbers.ctypes.data).to_bytes(8, "little")
        parts = [
            b"".join(block if part is _HERE else part for part in code) for code in (_REQUEST, _COMPLETE)
        ]
        self._code.write(b"".join(parts))
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        libc: Any = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(mmap.PAGESIZE), _READ_AND_RUN):
            raise RecordingError(
                "this system does not let a program make code of its own (SELinux's execmem), which CUPTI's "
                "callbacks are; install a torch built for CUDA"
            )
        return start, start + len(parts[0])


_arenas: Final[list[Arena]] = []


def arena(most_bytes: int = MOST_BYTES) -> Arena:
    """Return the arena of the process, or a new one while CUPTI keeps buffers of the old."""
    if _arenas and not _arenas[-1].outstanding and _arenas[-1]._count == max(most_bytes // BUFFER_BYTES, 1):
        return _arenas[-1]
    return Arena(most_bytes)
