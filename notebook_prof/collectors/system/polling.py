"""Reads memory and CPU time in a thread, where no process can watch this one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ...trace.clocks import Clock
from .watcher import PASS, PROCESS, RECORD, RSS, Tree

RSS_INTERVAL_S: Final = 0.01
CPU_INTERVAL_NS: Final = 100_000_000


class ResidentMemory:
    """Reads how many bytes of this process are in physical memory (RSS), quickly.

    On Linux from ``/proc/self/statm`` through one open file (1–2 µs); elsewhere through psutil.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._otherwise: Callable[[], int] | None = None
        self._page_bytes = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
        try:
            self._file = os.open("/proc/self/statm", os.O_RDONLY)
            self._from_statm()
        except (OSError, ValueError, IndexError):
            self.close()
            self._otherwise = _psutil_reader()

    def read_bytes(self) -> int:
        """Return resident bytes now."""
        return self._from_statm() if self._otherwise is None else self._otherwise()

    def close(self) -> None:
        """Close the file; safe to repeat."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _from_statm(self) -> int:
        assert self._file is not None
        return int(os.pread(self._file, 64, 0).split(None, 2)[1]) * self._page_bytes


def _psutil_reader() -> Callable[[], int]:
    import psutil

    process = psutil.Process()
    return lambda: int(process.memory_info().rss)


class Poller:
    """Records what the watcher would, every 10 and 100 ms, whenever its thread gets to run.

    Parameters
    ----------
    clock : Clock
    why : str
        Why there is no watcher.
    """

    def __init__(self, clock: Clock, why: str) -> None:
        self.why = why
        self.data = bytearray()
        self.failure: Exception | None = None
        self._clock = clock
        self._quit = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notebook_prof system poll", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Join the thread; safe to repeat."""
        self._quit.set()
        self._thread.join()

    def _run(self) -> None:
        memory = ResidentMemory()
        tree: Tree | None = None
        with suppress(OSError):
            tree = Tree("/proc", os.getpid(), self.data.extend)
        try:
            self._loop(memory, tree)
        except Exception as error:
            self.failure = error
        finally:
            memory.close()
            if tree is not None:
                tree.close()

    def _loop(self, memory: ResidentMemory, tree: Tree | None) -> None:
        pid, next_look = os.getpid(), 0
        while not self._quit.wait(RSS_INTERVAL_S):
            now = self._clock.now_ns()
            self.data += RECORD.pack(RSS, pid, -1, 0, now, memory.read_bytes(), 0, 0)
            if now < next_look:
                continue
            next_look = now + CPU_INTERVAL_NS
            if tree is not None:
                tree.look(now)
            else:
                self.data += RECORD.pack(PROCESS, pid, -1, 0, now, time.process_time_ns(), 0, 0)
                self.data += RECORD.pack(PASS, pid, -1, 0, now, 0, 0, 0)
