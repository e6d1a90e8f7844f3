"""The system collector: this process's memory and CPU share, as counters."""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections.abc import Callable
from typing import ClassVar, Final

import numpy as np

from ..trace.builder import TraceBuilder
from ..trace.clocks import Clock
from .base import Availability, Collector

RSS_INTERVAL_S: Final = 0.01
CPU_INTERVAL_S: Final = 0.1
RSS_TRACK: Final = "process RSS"
CPU_TRACK: Final = "process CPU"


class ResidentMemory:
    """Reads how many bytes of this process are in physical memory (RSS), quickly.

    On Linux from ``/proc/self/statm`` through one open file (1–2 µs); elsewhere through psutil.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._page_bytes = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
        try:
            self._file = os.open("/proc/self/statm", os.O_RDONLY)
            self._read: Callable[[], int] = self._from_statm
            self._read()
        except (OSError, ValueError, IndexError):
            self.close()
            self._read = _psutil_reader()

    def read_bytes(self) -> int:
        """Resident bytes now."""
        return self._read()

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


def usable_cpus() -> int:
    """Number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Readings:
    """Times and values of one counter, appended to by one thread."""

    def __init__(self) -> None:
        self.ts = array("q")
        self.values = array("d")

    def add(self, ts: int, value: float) -> None:
        """Append one reading."""
        self.ts.append(ts)
        self.values.append(value)

    def put(self, builder: TraceBuilder, track: int) -> None:
        """Give the readings to a counter track."""
        builder.counter(track, np.array(self.ts, dtype=np.int64), np.array(self.values, dtype=np.float64))


class SystemCollector(Collector):
    """Counts resident memory every 10 ms and CPU share every 100 ms, in its own thread.

    Parameters
    ----------
    rss : bool
        False if another collector reads resident memory, as the Python sampler does in its own tick;
        the thread then wakes ten times a second only.
    """

    name: ClassVar[str] = "system"

    def __init__(self, rss: bool = True) -> None:
        self._rss = rss
        self._memory: ResidentMemory | None = None
        self._rss_bytes = Readings()
        self._cpu_share = Readings()
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    @classmethod
    def availability(cls) -> Availability:
        """Always."""
        return Availability(True, "memory and CPU share of this process")

    def start(self, clock: Clock) -> None:
        """Take first readings and start the thread."""
        self._memory = ResidentMemory() if self._rss else None
        cpu_before = (clock.now_ns(), time.process_time_ns())
        if self._memory is not None:
            self._rss_bytes.add(cpu_before[0], self._memory.read_bytes())
        self._thread = threading.Thread(
            target=self._run, args=(clock, cpu_before), name="notebook_prof system", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Take last readings and join the thread."""
        self._quit.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def result(self, builder: TraceBuilder) -> None:
        """Add the counters ``process RSS`` in bytes and ``process CPU`` (0–1 of all cores)."""
        if self._failure is not None:
            self.report.add("counters-cut-short", "loss", example=repr(self._failure))
        pid = os.getpid()
        if len(self._rss_bytes.ts):
            self._rss_bytes.put(builder, builder.track(RSS_TRACK, "counter", pid=pid, unit="bytes"))
        if len(self._cpu_share.ts):
            self._cpu_share.put(builder, builder.track(CPU_TRACK, "counter", pid=pid, unit="share"))

    def abandon(self) -> None:
        """Join the thread and forget the readings."""
        self.stop()

    def _run(self, clock: Clock, cpu_before: tuple[int, int]) -> None:
        try:
            self._loop(clock, cpu_before)
        except Exception as error:
            self._failure = error
        finally:
            if self._memory is not None:
                self._memory.close()

    def _loop(self, clock: Clock, cpu_before: tuple[int, int]) -> None:
        interval_s = RSS_INTERVAL_S if self._memory is not None else CPU_INTERVAL_S
        cpus = usable_cpus()
        running = True
        while running:
            running = not self._quit.wait(interval_s)
            now = clock.now_ns()
            if self._memory is not None:
                self._rss_bytes.add(now, self._memory.read_bytes())
            wall_ns = now - cpu_before[0]
            if wall_ns >= CPU_INTERVAL_S * 1e9 or (not running and wall_ns > 0):
                cpu_ns = time.process_time_ns()
                self._cpu_share.add(now, min(1.0, (cpu_ns - cpu_before[1]) / wall_ns / cpus))
                cpu_before = (now, cpu_ns)
