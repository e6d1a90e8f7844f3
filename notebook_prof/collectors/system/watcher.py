"""Reads a process from outside its interpreter: resident memory and CPU time, at equal times.

This file is also a program, which `watching` starts: ``python -I -S -E watcher.py PID ROOT`` with a socket as
standard input. It needs no GIL of the process that it reads, so a long call into C hides nothing from it. It
waits, asleep, for ``s`` (start) and ``e`` (end), and writes records to the same socket. It ends when the
socket closes, when the process dies, and after some minutes without work. Standard library only.
"""

from __future__ import annotations

import os
import select
import struct
import sys
import time
from collections.abc import Callable, Collection
from typing import Any, Final

RECORD: Final = struct.Struct("<iiiiqqqq")
"""kind, pid, tid, place, ts (Unix ns), and three numbers."""
FIELDS: Final = ("kind", "pid", "tid", "place", "ts", "a", "b", "c")
RSS, PROCESS, THREAD, CHILD, PASS, NAME, GONE, END = range(8)
"""Kinds of records.

RSS: resident bytes. PROCESS: CPU ns and wait ns of the process as a whole; THREAD: of one thread; CHILD: of
a child process as a whole, with its resident bytes; these three only where they changed. PASS: all of them
were looked at. NAME: 24 bytes of a name that begin at `place`. GONE: a thread or child has ended. END: the
CPU time that the watcher took, its passes, its readings of memory.
"""

RSS_INTERVAL_NS: Final = 4_000_000
STILL_EVERY: Final = 5
"""Where memory does not move, or reading took more than its budget, so many intervals lie between readings.

To wake up is what costs: 60 to 150 µs of CPU time in a virtual machine.
"""
MOVED_BYTES: Final = 2**19
BUDGET_SHARE: Final = 100
BUDGET_NS: Final = 20_000_000
"""The watcher may use one part in `BUDGET_SHARE` of a core, and so much in advance."""
CPU_EVERY: Final = 2 * STILL_EVERY
"""Intervals between two looks at threads and children."""
LOOK_SHARE: Final = 200
"""A look may take one part in so many of the time between two."""
DOUBLE_EVERY: Final = 15_000
"""After so many readings of memory the interval doubles: a minute at 4 ms, two at 8 ms, and so on."""
IDLE_S: Final = 600.0
_FLUSH_NS: Final = 250_000_000
_MOST_THREADS: Final = 300
_SCAN_NS: Final = 500_000_000
_NAMED_AT: Final = (1, 2, 5, 20, 100)
_TICK_NS: Final = 10**9 // (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Thread:
    """One thread's files, kept open.

    Attributes
    ----------
    cpu_ns, wait_ns : int
        Time on a core, and time ready to run without one, since it began.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.cpu_ns = self.wait_ns = 0
        self.exact = True
        try:
            self._file = os.open(f"{folder}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # a kernel without scheduler statistics: ticks of 10 ms, no waits
            self.exact = False
            self._file = os.open(f"{folder}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._children = os.open(f"{folder}/children", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._children = -1

    def read(self) -> None:
        """Read the two times; OSError once the thread has ended."""
        text = os.pread(self._file, 1024, 0)
        if self.exact:
            ran, waited, _ = text.split(None, 2)
            self.cpu_ns, self.wait_ns = int(ran), int(waited)
        else:
            ran, waited = text.rpartition(b")")[2].split()[11:13]
            self.cpu_ns = (int(ran) + int(waited)) * _TICK_NS

    def children(self) -> list[int] | None:
        """Return processes that this thread forked; None where the kernel does not say."""
        if self._children < 0:
            return None
        return [int(word) for word in os.pread(self._children, 65536, 0).split()]

    def close(self) -> None:
        """Close the files."""
        os.close(self._file)
        if self._children >= 0:
            os.close(self._children)


class Process:
    """One process: its memory, its threads, its children.

    Attributes
    ----------
    threads : dict of int to Thread
    cpu_ns, wait_ns : int
        Of all its threads, ended ones as well.
    """

    def __init__(self, root: str, pid: int) -> None:
        self.pid, self.folder = pid, f"{root}/{pid}"
        self.threads: dict[int, Thread] = {}
        self.passes = 0
        self.cpu_ns = self.wait_ns = 0
        self.emitted: tuple[int, ...] = ()
        self._ended_cpu_ns = self._ended_wait_ns = 0
        # the process's CPU clock, as clock_getcpuclockid(3) names it; it counts ended threads, to the ns
        self._clock: int | None = (~pid << 3) | 2 if root == "/proc" else None
        self._statm = os.open(f"{self.folder}/statm", os.O_RDONLY | os.O_CLOEXEC)

    def rss_bytes(self) -> int:
        """Return resident bytes now."""
        return int(os.pread(self._statm, 64, 0).split(None, 2)[1]) * _PAGE_BYTES

    def read(self, room: int) -> list[int]:
        """Read all threads, at most `room` new ones; gives the threads that have ended."""
        self.passes += 1
        for name in os.listdir(f"{self.folder}/task"):
            if (tid := int(name)) not in self.threads and room > 0:
                try:
                    self.threads[tid] = Thread(f"{self.folder}/task/{name}")
                    room -= 1
                except OSError:  # ended meanwhile, or too many files
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
        self.cpu_ns = self._cpu_ns()
        return gone

    def children(self) -> list[int] | None:
        """Return its child processes; None where the kernel does not say."""
        pids: list[int] = []
        for thread in self.threads.values():
            try:
                part = thread.children()
            except OSError:
                continue
            if part is None:
                return None
            pids += part
        return pids

    def name(self, tid: int = -1) -> bytes:
        """Return what a thread calls itself, or the command of the process."""
        path = f"{self.folder}/cmdline" if tid < 0 else f"{self.folder}/task/{tid}/comm"
        try:
            with open(path, "rb") as file:
                return file.read(1024).replace(b"\0", b" ").strip()
        except OSError:
            return b""

    def close(self) -> None:
        """Close all files."""
        os.close(self._statm)
        for thread in self.threads.values():
            thread.close()
        self.threads.clear()

    def _cpu_ns(self) -> int:
        if self._clock is not None:
            try:
                return time.clock_gettime_ns(self._clock)
            except OSError:
                self._clock = None
        return max(
            self.cpu_ns,
            self._ended_cpu_ns + sum(thread.cpu_ns for thread in self.threads.values()),
        )


class Tree:
    """A process, its threads and all its descendants.

    Parameters
    ----------
    root : str
        ``/proc``, or a folder like it.
    pid : int
    emit : callable
        Gets each record.
    names : bool
        Whether to read names as well.
    skip : collection of int
        Processes that are left out, with all that they started.
    """

    def __init__(
        self,
        root: str,
        pid: int,
        emit: Callable[[bytes], object],
        names: bool = True,
        skip: Collection[int] = (),
    ) -> None:
        self._root, self._emit, self._names, self._skip = root, emit, names, skip
        self.main = Process(root, pid)
        self.descendants: dict[int, Process] = {}
        self.news = False
        self._last: dict[tuple[int, int], tuple[int, ...]] = {}
        self._scanned_ns = 0
        self._parents: dict[int, list[int]] = {}

    def memory(self, now: int) -> int:
        """Emit the resident memory of the process, in bytes, and give it."""
        level = self.main.rss_bytes()
        self._put(RSS, self.main.pid, -1, now, level)
        return level

    def look(self, now: int) -> None:
        """Emit what changed since the last look, and that everything was looked at."""
        main = self.main
        for tid in main.read(_MOST_THREADS - len(main.threads)):
            self._put(GONE, main.pid, tid, now)
            self._last.pop((main.pid, tid), None)
        self._changed(PROCESS, main.pid, -1, now, main.cpu_ns, main.wait_ns)
        for tid, thread in main.threads.items():
            self._changed(THREAD, main.pid, tid, now, thread.cpu_ns, thread.wait_ns)
            if main.passes in _NAMED_AT:
                self._name(main, tid, now)
        alive = self._walk(now)
        for pid in [pid for pid in self.descendants if pid not in alive]:
            self.descendants.pop(pid).close()
            self._last.pop((pid, -1), None)
            self._put(GONE, pid, -1, now)
        self._put(PASS, main.pid, -1, now)

    def close(self) -> None:
        """Close all files."""
        for process in (self.main, *self.descendants.values()):
            process.close()
        self.descendants.clear()

    def _walk(self, now: int) -> set[int]:
        alive: set[int] = set()
        waiting = self._children(self.main, now)
        while waiting:
            pid = waiting.pop()
            if pid in alive or pid in self._skip:
                continue
            try:
                process = self.descendants.get(pid) or Process(self._root, pid)
                self.descendants[pid] = process
                process.read(_MOST_THREADS // 10 - len(process.threads))
                rss = process.rss_bytes()
            except (OSError, ValueError):  # gone between two lines; a look later says so
                continue
            alive.add(pid)
            self._changed(CHILD, pid, -1, now, process.cpu_ns, process.wait_ns, rss)
            if process.passes in _NAMED_AT:
                self._name(process, -1, now)
            waiting += self._children(process, now)
        return alive

    def _children(self, process: Process, now: int) -> list[int]:
        children = process.children()
        if children is not None:
            return children
        if now - self._scanned_ns >= _SCAN_NS:
            self._scanned_ns = now
            self._parents = _parents(self._root)
        return self._parents.get(process.pid, [])

    def _changed(self, kind: int, pid: int, tid: int, now: int, *numbers: int) -> None:
        before = self._last.get((pid, tid))
        if before == numbers:
            return
        if before is None:
            self.news = True
            if kind == THREAD and self.main.passes not in _NAMED_AT:
                self._name(self.main, tid, now)
        self._last[pid, tid] = numbers
        self._put(kind, pid, tid, now, *numbers)

    def _name(self, process: Process, tid: int, now: int) -> None:
        if not self._names:
            return
        name = process.name(tid)[:256]
        for offset in range(0, len(name), 24):
            a, b, c = struct.unpack("<qqq", name[offset : offset + 24].ljust(24, b"\0"))
            self._emit(RECORD.pack(NAME, process.pid, tid, offset, now, a, b, c))

    def _put(self, kind: int, pid: int, tid: int, now: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        self._emit(RECORD.pack(kind, pid, tid, 0, now, a, b, c))


def _parents(root: str) -> dict[int, list[int]]:
    """Return children of every process, for kernels that do not list them."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(root):
        if name.isdigit():
            try:
                with open(f"{root}/{name}/stat", "rb") as file:
                    parent = int(file.read(1024).rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    return children


class Watcher:
    """Answers on a socket: waits for ``s``, records until ``e``.

    Parameters
    ----------
    control : socket
        Both ways; any object with ``fileno``, and file descriptors that can be read and written.
    pid : int
    root : str
    """

    def __init__(self, control: Any, pid: int, root: str = "/proc") -> None:
        self._control, self._pid, self._root = control, pid, root
        self._waiting = bytearray()
        self._flushed_ns = 0
        self._sources: list[Any] = [control]
        try:
            self._death = os.pidfd_open(pid) if root == "/proc" else -1
        except (AttributeError, OSError):
            self._death = -1
        if self._death >= 0:
            self._sources.append(self._death)

    def serve(self) -> None:
        """Wait and record until there is nothing left to do."""
        while self._wait(IDLE_S) == b"s":
            if not self._record():
                return

    def _wait(self, seconds: float) -> bytes:
        """Return the next command; empty at the end of all, or if the time is over."""
        ready = select.select(self._sources, [], [], max(0.0, seconds))[0]
        if self._death in ready or self._control not in ready:
            return b"" if seconds == IDLE_S or self._death in ready else b"-"
        return os.read(self._control.fileno(), 1)

    def _record(self) -> bool:
        """Record until told to end; False if nobody is there any more."""
        tree = Tree(self._root, self._pid, self._waiting.extend, skip=(os.getpid(),))
        began_cpu, began = time.process_time_ns(), time.time_ns()
        interval, due, next_look = RSS_INTERVAL_NS, began, began
        self._flushed_ns = began
        readings = passes = level = 0
        command = b"-"
        try:
            while command == b"-":
                now = time.time_ns()
                before, level = level, tree.memory(now)
                readings += 1
                if readings % DOUBLE_EVERY == 0:
                    interval *= 2
                if now >= next_look:
                    look_began_ns = time.process_time_ns()
                    tree.look(now)
                    passes += 1
                    took = time.process_time_ns() - look_began_ns
                    next_look = due + max(CPU_EVERY * interval, took * LOOK_SHARE) - interval // 2
                if tree.news or now - self._flushed_ns >= _FLUSH_NS:
                    tree.news = False
                    self._flush(now, False)
                used = time.process_time_ns() - began_cpu
                fast = abs(level - before) >= MOVED_BYTES and used < BUDGET_NS + (now - began) // BUDGET_SHARE
                due += interval * (1 if fast else STILL_EVERY)
                now = time.time_ns()
                due += interval * max(0, (now - due) // interval + 1)
                command = self._wait((due - now) / 1e9)
            now = time.time_ns()
            if command == b"e":
                tree.memory(now)
                tree.look(now)
            used = time.process_time_ns() - began_cpu
            self._waiting += RECORD.pack(END, self._pid, -1, 0, now, used, passes, readings)
            self._flush(now, True)
        except (ProcessLookupError, FileNotFoundError, BrokenPipeError, ConnectionError):
            return False  # the process, or who listens, is gone
        finally:
            tree.close()
        return command == b"e"

    def _flush(self, now: int, wholly: bool) -> None:
        self._flushed_ns = now
        while self._waiting:
            try:
                sent = os.write(self._control.fileno(), self._waiting)
                del self._waiting[:sent]
            except BlockingIOError:
                if not wholly:
                    return
                gone = self._sources[1:]
                if select.select(gone, [self._control], [], 1.0)[0]:
                    raise ConnectionError from None


class _Standard:
    """Standard input as a socket that is written to as well."""

    def __init__(self) -> None:
        os.set_blocking(0, False)

    def fileno(self) -> int:
        return 0


def main() -> None:
    """Leave the parent's session and its list of children, then serve."""
    if os.fork():
        os._exit(0)
    os.chdir("/")
    Watcher(_Standard(), int(sys.argv[1]), sys.argv[2]).serve()


if __name__ == "__main__":
    main()
