"""Polls memory and CPU time in a thread of this process, and what malloc keeps of freed memory."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final

from ... import own_processes
from ...trace.clocks import Clock
from .process_tree import PASS, PROCESS, REAPED, RECORD, RSS, Tree

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


INTERVAL_NS: Final = 10_000_000
"""Time between two readings of memory."""
STILL_EVERY: Final = 2
"""Number of intervals between readings while memory does not change."""
MOVED_BYTES: Final = 2**19
LOOK_NS: Final = 50_000_000
"""Time between two readings of threads and children."""
LOOK_SHARE: Final = 50
"""Readings may take at most one part in this many of the time, since the thread holds the GIL meanwhile."""
DOUBLE_EVERY: Final = 6_000
"""Number of readings after which the interval doubles: after a minute at 10 ms, two at 20 ms, and so on."""


def resident_bytes() -> int:
    """Return how many bytes of this process are in physical memory (RSS)."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split(None, 2)[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import psutil

        return int(psutil.Process().memory_info().rss)


class Reader:
    """Reads this process into records, from ``/proc`` or, without that, as a whole."""

    # `on_news` is called when a thread or child is seen for the first time. Processes in `skip` are left out.
    def __init__(
        self, emit: Callable[[bytes], object], on_news: Callable[[], object], skip: frozenset[int]
    ) -> None:
        self._emit, self._on_news, self._pid = emit, on_news, os.getpid()
        self._reaped_ns = -1
        self.tree: Tree | None = None
        with suppress(OSError):
            self.tree = Tree("/proc", self._pid, emit, skip)

    def memory(self, now: int) -> int:
        """Emit resident memory, and return it in bytes."""
        if self.tree is not None:
            return self.tree.memory(now)
        level = resident_bytes()
        self._put(RSS, now, level)
        return level

    def look(self, now: int) -> None:
        """Emit CPU times."""
        if self.tree is not None:
            self.tree.look(now)
            if self.tree.has_news:
                self.tree.has_news = False
                self._on_news()
        else:
            self._put(PROCESS, now, time.process_time_ns())
            self._put(PASS, now, 0)
        # read after the tree, so that the sum includes every child that it reports as ended
        if (reaped_ns := _reaped_ns()) != self._reaped_ns:
            self._reaped_ns = reaped_ns
            self._put(REAPED, now, reaped_ns)

    def _put(self, kind: int, now: int, number: int) -> None:
        self._emit(RECORD.pack(kind, self._pid, -1, 0, now, number, 0, 0))


def _reaped_ns() -> int:
    """Return the CPU time of the user's child processes that were reaped."""
    try:
        import resource
    except ImportError:
        return 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9) - own_processes.reaped_cpu_ns()


class Poller:
    """Reads repeatedly in a thread. Until `stop`, the reader belongs to that thread."""

    def __init__(self, clock: Clock, reader: Reader) -> None:
        self.failure: Exception | None = None
        self._clock, self._reader = clock, reader
        self._quit = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notebook_prof system", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Join the thread. Safe to repeat."""
        self._quit.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            self.failure = error

    def _loop(self) -> None:
        interval, readings, level = INTERVAL_NS, 0, 0
        due = self._clock.now_ns() + interval
        next_look = due + LOOK_NS - interval
        while not self._quit.wait(max(0, due - self._clock.now_ns()) / 1e9):
            now = self._clock.now_ns()
            before, level = level, self._reader.memory(now)
            readings += 1
            if readings % DOUBLE_EVERY == 0:
                interval *= 2
            if now >= next_look:
                began = time.thread_time_ns()  # CPU time: wall time would include waits for the GIL
                self._reader.look(now)
                next_look = now + max(LOOK_NS, interval, (time.thread_time_ns() - began) * LOOK_SHARE)
            due = now + interval * (1 if abs(level - before) >= MOVED_BYTES else STILL_EVERY)
