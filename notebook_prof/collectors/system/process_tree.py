"""Reads memory and CPU time of a process, its threads and its children from ``/proc``."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final

FIELDS: Final = ("kind", "pid", "tid", "ts", "a", "b", "c")
"""The integers of a record: its kind, process and thread, Unix ns, and three numbers."""
RSS, PROCESS, THREAD, CHILD, PASS, GONE, REAPED = range(7)
"""Kinds of records.

RSS: resident bytes and their maximum so far. PROCESS: CPU ns and wait ns of the process as a whole; THREAD:
of one thread; CHILD: of a child process as a whole, with its own resident bytes. These three are written only
when they change. PASS: all of them were read. GONE: a thread or child has ended. REAPED: CPU ns of all
children waited for, when it changes.
"""

_MOST_THREADS: Final = 300
_HIGH_WATER: Final = re.compile(rb"VmHWM:\s*(\d+) kB")
_THREADS: Final = re.compile(rb"Threads:\s*(\d+)")
_NAMED_AT: Final = (1, 2, 5, 20, 100)
"""Numbers of the readings at which a child's command is read. Once is not enough, since a forked child may
soon run another program."""
_TICK_NS: Final = 10**9 // (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_LIST_EVERY: Final = 10
_FORKED: Final = 0x40
"""PF_FORKNOEXEC of the kernel: a forked process that has not executed a program."""


def _reader() -> Callable[[int, int], bytes]:
    """Return a function that reads the beginning of an open file."""
    # `os.pread` releases the GIL. If another thread computes, each of the hundred reads of a look would wait
    # 5 ms to get it back.
    if sys.platform != "linux" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return lambda file, size: os.pread(file, size, 0)
    pread: Any = ctypes.PyDLL(None, use_errno=True).pread
    pread.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
    pread.restype = ctypes.c_ssize_t

    def read(file: int, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        count = pread(file, buffer, size, 0)
        if count < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return ctypes.string_at(buffer, count)

    return read


_pread: Final = _reader()


def _opened(path: str) -> int:
    """Return a descriptor of a file, or -1 if it cannot be read."""
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return -1


class Thread:
    """A thread's open files, and since its begin the times it ran on a core and was ready but had none."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.cpu_ns = self.wait_ns = 0
        self.exact = True
        try:
            self._file = os.open(f"{folder}/schedstat", os.O_RDONLY)
        except FileNotFoundError:  # no scheduler statistics in this kernel, only ticks of 10 ms without waits
            self.exact = False
            self._file = os.open(f"{folder}/stat", os.O_RDONLY)
        self._children = _opened(f"{folder}/children")

    def read(self) -> None:
        """Read the two times. Raises OSError if the thread has ended."""
        text = _pread(self._file, 256)
        if self.exact:
            ran, waited, _ = text.split(None, 2)
            self.cpu_ns, self.wait_ns = int(ran), int(waited)
        else:
            ran, waited = text.rpartition(b")")[2].split()[11:13]
            self.cpu_ns = (int(ran) + int(waited)) * _TICK_NS

    def children(self) -> list[int]:
        """Return processes forked by this thread. Raises OSError if it has ended."""
        return [int(word) for word in _pread(self._children, 16384).split()]

    def close(self) -> None:
        os.close(self._file)
        if self._children >= 0:
            os.close(self._children)


class WatchedProcess:
    """A process with its memory, threads and children. Its times include those of ended threads."""

    def __init__(self, root: str, pid: int) -> None:
        self.pid, self.folder = pid, f"{root}/{pid}"
        self.threads: dict[int, Thread] = {}
        self.passes = 0
        self.cpu_ns = self.wait_ns = 0
        self._ended_cpu_ns = self._ended_wait_ns = 0
        # the process's CPU clock, as in clock_getcpuclockid(3), which includes ended threads, to the ns
        self._clock: int | None = (~pid << 3) | 2 if root == "/proc" else None
        self._statm = os.open(f"{self.folder}/statm", os.O_RDONLY)
        self._status = _opened(f"{self.folder}/status")
        self._stat: int | None = None  # opened for children only, and closed once they execute a program
        self._inherited_bytes = -1

    def rss_bytes(self) -> int:
        """Return the current number of resident bytes."""
        return int(_pread(self._statm, 64).split(None, 2)[1]) * _PAGE_BYTES

    def anonymous_bytes(self) -> int:
        """Return the resident bytes that are neither file-backed nor shared memory."""
        _, resident, shared, _ = _pread(self._statm, 128).split(None, 3)
        return (int(resident) - int(shared)) * _PAGE_BYTES

    def own_bytes(self, parent: WatchedProcess) -> int:
        """Return a lower bound of the child's own resident bytes, without pages inherited from its parent."""
        # A forked child shares its parent's pages, so what its parent had at the first reading is subtracted.
        # Pages copied since, because the child wrote to them, are not counted. smaps_rollup would count them,
        # but takes milliseconds per gigabyte, during which the child cannot map memory.
        forked, level = self._is_forked(), self.anonymous_bytes()  # in this order: it may execute in between
        if not forked:
            return level
        if self._inherited_bytes < 0:
            self._inherited_bytes = parent.anonymous_bytes()
        self._inherited_bytes = min(self._inherited_bytes, level)
        return level - self._inherited_bytes

    def _is_forked(self) -> bool:
        if self._stat is None:
            self._stat = _opened(f"{self.folder}/stat")
        if self._stat < 0:
            return False
        flags = _pread(self._stat, 1024).rpartition(b")")[2].split()[6:7]
        if flags and int(flags[0]) & _FORKED:
            return True
        os.close(self._stat)
        self._stat = -1
        return False

    def status(self) -> tuple[int, int]:
        """Return the maximum number of resident bytes so far, and the number of threads; 0 if unknown."""
        text = _pread(self._status, 4096) if self._status >= 0 else b""
        high, threads = _HIGH_WATER.search(text), _THREADS.search(text)
        return int(high[1]) * 1024 if high else 0, int(threads[1]) if threads else 0

    def read(self, room: int) -> list[int]:
        """Read all known threads and at most `room` new ones. Returns the threads that have ended."""
        self.passes += 1
        for name in self._task_names():
            if (tid := int(name)) not in self.threads and room > 0:
                try:
                    self.threads[tid] = Thread(f"{self.folder}/task/{name}")
                    room -= 1
                except OSError:  # it has ended meanwhile, or there are too many open files
                    continue
        gone = []
        for tid, thread in self.threads.items():
            try:
                thread.read()
            except (OSError, ValueError):
                gone.append(tid)
        for tid in gone:
            ended = self.threads.pop(tid)
            ended.close()
            self._ended_cpu_ns += ended.cpu_ns
            self._ended_wait_ns += ended.wait_ns
        self.wait_ns = self._ended_wait_ns + sum(thread.wait_ns for thread in self.threads.values())
        self.cpu_ns = self.process_cpu_ns()
        return gone

    def _task_names(self) -> list[str]:
        """Return threads, perhaps new ones."""
        # `os.listdir` releases the GIL many times, so it is called rarely
        count = self.status()[1]
        if count and count == len(self.threads) and self.passes % _LIST_EVERY:
            return []
        return os.listdir(f"{self.folder}/task")

    def children(self) -> list[int]:
        """Return its child processes; none if the kernel does not list them."""
        pids: list[int] = []
        for thread in self.threads.values():
            with suppress(OSError):
                pids += thread.children()
        return pids

    def name(self, tid: int = -1) -> str:
        """Return the name of a thread, or the command of the process; empty if it has ended."""
        path = f"{self.folder}/cmdline" if tid < 0 else f"{self.folder}/task/{tid}/comm"
        try:
            with open(path, "rb") as file:
                return file.read(256).replace(b"\0", b" ").strip().decode("utf-8", "replace")
        except OSError:
            return ""

    def close(self) -> None:
        os.close(self._statm)
        for file in (self._status, self._stat):
            if file is not None and file >= 0:
                os.close(file)
        for thread in self.threads.values():
            thread.close()
        self.threads.clear()

    def process_cpu_ns(self) -> int:
        """Return the CPU time of the process, with that of ended threads."""
        if self._clock is not None:
            try:
                return time.clock_gettime_ns(self._clock)
            except OSError:
                self._clock = None
        return max(self.cpu_ns, self._ended_cpu_ns + sum(thread.cpu_ns for thread in self.threads.values()))


class ProcessTree:
    """A process, its threads and all descendants. Processes in `skip` and their descendants are left out."""

    def __init__(
        self, root: str, pid: int, emit: Callable[[tuple[int, ...]], object], skip: Collection[int] = ()
    ) -> None:
        self._root, self._emit, self._skip = root, emit, skip
        self.main = WatchedProcess(root, pid)
        self.descendants: dict[int, WatchedProcess] = {}
        self.names: dict[tuple[int, int], str] = {}  # the last one read of each thread and process
        self.has_news = False
        self.high_bytes = 0  # highest resident memory of the process, at the last reading
        self._last: dict[tuple[int, int], tuple[int, ...]] = {}

    def memory(self, now: int) -> int:
        """Emit the resident memory of the process, and return it in bytes."""
        level, self.high_bytes = self.main.rss_bytes(), self.main.status()[0]
        self._put(RSS, self.main.pid, -1, now, level, self.high_bytes)
        return level

    def look(self, now: int) -> None:
        """Emit changes since the last look, and a record that everything was read."""
        main = self.main
        for tid in main.read(_MOST_THREADS - len(main.threads)):
            self._put(GONE, main.pid, tid, now)
            self._last.pop((main.pid, tid), None)
        self._changed(PROCESS, main.pid, -1, now, main.cpu_ns, main.wait_ns)
        for tid, thread in main.threads.items():
            self._changed(THREAD, main.pid, tid, now, thread.cpu_ns, thread.wait_ns)
        alive = self._walk(now)
        for pid in [pid for pid in self.descendants if pid not in alive]:
            self.descendants.pop(pid).close()
            self._last.pop((pid, -1), None)
            self._put(GONE, pid, -1, now)
        self._put(PASS, main.pid, -1, now)

    def edge(self, now: int, tid: int) -> None:
        """Emit the CPU times of the process and of the calling thread, `tid`; a tenth of a look's work."""
        main = self.main
        main.cpu_ns = main.process_cpu_ns()
        self._changed(PROCESS, main.pid, -1, now, main.cpu_ns, main.wait_ns)
        if (thread := main.threads.get(tid)) is not None:
            thread.read()
            # the scheduler's value for a running thread is up to a tick old
            self._changed(THREAD, main.pid, tid, now, time.thread_time_ns(), thread.wait_ns)

    def name_threads(self) -> None:
        """Read the system's names of the process's threads."""
        for pid, tid in list(self._last):  # a look may be running
            if pid == self.main.pid and tid >= 0:
                self._name(self.main, tid)

    def close(self) -> None:
        for process in (self.main, *self.descendants.values()):
            process.close()
        self.descendants.clear()

    def _walk(self, now: int) -> set[int]:
        alive: set[int] = set()
        waiting = [(pid, self.main) for pid in self.main.children()]
        while waiting:
            pid, parent = waiting.pop()
            if pid in alive or pid in self._skip:
                continue
            try:
                process = self.descendants.get(pid) or WatchedProcess(self._root, pid)
                self.descendants[pid] = process
                process.read(_MOST_THREADS // 10 - len(process.threads))
                own_bytes = process.own_bytes(parent)
            except (OSError, ValueError):  # it has just ended, which a later look reports
                continue
            alive.add(pid)
            self._changed(CHILD, pid, -1, now, process.cpu_ns, process.wait_ns, own_bytes)
            if process.passes in _NAMED_AT:
                self._name(process, -1)
            waiting += [(child, process) for child in process.children()]
        return alive

    def _changed(self, kind: int, pid: int, tid: int, now: int, *numbers: int) -> None:
        before = self._last.get((pid, tid))
        if before == numbers:
            return
        if before is None:
            self.has_news = True
            if kind == THREAD and self.main.passes > 1:
                # now, since it may end at any time; `name_threads` names those of the first reading
                self._name(self.main, tid)
        self._last[pid, tid] = numbers
        self._put(kind, pid, tid, now, *numbers)

    def _name(self, process: WatchedProcess, tid: int) -> None:
        if name := process.name(tid):
            self.names[process.pid, tid] = name

    def _put(self, kind: int, pid: int, tid: int, now: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        self._emit((kind, pid, tid, now, a, b, c))
