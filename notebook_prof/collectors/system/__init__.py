"""The system collector: memory and CPU time of this process and its children, read from outside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from typing import ClassVar, Final

from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...units import format_bytes
from .. import own_processes
from ..base import Availability, Collector
from . import heap
from .cores import Energy, put_energy, read_energy, usable_cores, usable_cpus
from .polling import Poller, ResidentMemory
from .readings import ProcessFacts, busy_share, children_bytes, cpu_table, decode, resident, within
from .watcher import PASS, PROCESS, RECORD, RSS, THREAD, Tree
from .watching import Recorded, spare

__all__ = ["CPU_TRACK", "RSS_TRACK", "ResidentMemory", "SystemCollector", "spare", "usable_cpus"]

CPU_INTERVAL_NS: Final = 100_000_000
MUCH_FREED: Final = 64 * 2**20
"""More than this is told.

Torch's profiler keeps a small block for every tensor whose shape it saw. They lie between large blocks, whose
space is then not used again: 530 MiB in 40 steps of a GAN of 3 MiB, against 8 MiB when nothing recorded it.
"""
RSS_TRACK: Final = "process RSS"
CPU_TRACK: Final = "process CPU"
CHILDREN_TRACK: Final = "memory of child processes"


class SystemCollector(Collector):
    """Reads memory every 4 ms, 20 ms while it does not move, and CPU times every 40 ms, from outside.

    A process of its own needs no GIL of this one, so that nothing hides in a long call into C. Where it
    cannot run, or dies, a thread of this process reads what it gets to see, and the report says so.
    """

    name: ClassVar[str] = "system"

    def __init__(self) -> None:
        self._begin = bytearray()
        self._end = bytearray()
        self._recorded: Recorded | None = None
        self._poller: Poller | None = None
        self._high_water = (0, 0)
        self._freed_bytes = (0, 0)
        self._ended_ns = 0
        self._threads: dict[int, str] = {}
        self._children: dict[int, str] = {}
        self._tid = 0
        self._read_file = True
        self._lock = threading.Lock()
        self._stopped = False
        self._energy: list[Energy] = []

    @classmethod
    def availability(cls) -> Availability:
        """Return that it is always available."""
        return Availability(True, "memory and CPU time of this process and its children")

    def prepare(self) -> None:
        """Start the watcher, unless one waits from before."""
        spare.prepare()

    def start(self, clock: Clock) -> None:
        """Take first readings and let the watcher begin."""
        self._tid = threading.get_native_id()
        self._learn_names()
        self._ended_ns = -_ended_children_ns()
        self._read(self._begin, clock)
        self._energy = [read_energy(clock)]
        self._high_water = high_water_bytes(), 0
        self._freed_bytes = heap.freed_bytes(), 0
        try:
            self._recorded = Recorded(spare.take(), self._learn_names, lambda: self._poll(clock, "it died"))
            self._recorded.begin()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._poll(clock, f"{type(error).__name__}: {error}")

    def stop(self) -> None:
        """Take last readings and let the watcher end."""
        if self._stopped:
            return
        with self._lock:
            self._stopped = True
        if self._recorded is not None:
            self._recorded.end()
        if self._poller is not None:
            self._poller.stop()
        if self._tid:
            self._read(self._end, Clock())
            self._energy.append(read_energy(Clock()))
            self._high_water = self._high_water[0], high_water_bytes()
            self._freed_bytes = self._freed_bytes[0], heap.freed_bytes()
            self._ended_ns += _ended_children_ns()
            self._learn_names()

    def result(self, builder: TraceBuilder) -> None:
        """Add counters ``process RSS`` (bytes), ``process CPU`` (0–1 of all cores), energy; table ``cpu``."""
        watched = bytearray()
        recorded, self._recorded = self._recorded, None  # which holds this collector
        if recorded is not None:
            recorded.wait()
            watched += recorded.data
        if self._poller is not None:
            self._tell(self._poller)
            watched = watched[: len(watched) // RECORD.size * RECORD.size] + self._poller.data
        records = within(decode(self._begin), decode(watched), decode(self._end))
        if not len(records):
            return
        pid, cores, ours = os.getpid(), usable_cores(), own_processes.pids()
        ts, level = resident(records, self._high_water)
        if len(ts):
            builder.counter(builder.track(RSS_TRACK, "counter", pid=pid, unit="bytes"), ts, level)
            self._tell_freed(builder)
        ts, share = busy_share(records, cores, CPU_INTERVAL_NS)
        if len(ts):
            builder.counter(builder.track(CPU_TRACK, "counter", pid=pid, unit="share"), ts, share)
        ts, level = children_bytes(records, ours, pid)
        if len(ts):
            builder.counter(builder.track(CHILDREN_TRACK, "counter", pid=pid, unit="bytes"), ts, level)
        if len(self._energy) == 2:
            put_energy(builder, *self._energy)
        processes = ProcessFacts(pid, ours, self._threads, self._children, self._ended_ns)
        builder.table("cpu", cpu_table(records, processes))
        builder.metadata["cpu"] = {
            "pid": pid,
            "tid": self._tid,
            "cores": cores,
            "read_by": "a process" if self._poller is None else "a thread",
        }

    def abandon(self) -> None:
        """Let the watcher end and forget the readings."""
        self.stop()
        recorded, self._recorded = self._recorded, None
        if recorded is not None:
            recorded.wait()

    def _read(self, into: bytearray, clock: Clock) -> None:
        """Read all there is from inside, once."""
        pid, now = os.getpid(), clock.now_ns()
        try:
            tree = Tree("/proc", pid, into.extend, names=False, skip=own_processes.pids())
        except OSError:
            memory = ResidentMemory()
            into += RECORD.pack(RSS, pid, -1, 0, now, memory.read_bytes(), 0, 0)
            into += RECORD.pack(PROCESS, pid, -1, 0, now, time.process_time_ns(), 0, 0)
            into += RECORD.pack(PASS, pid, -1, 0, now, 0, 0, 0)
            memory.close()
            return
        try:
            tree.memory(now)
            tree.look(now)
            own_thread = tree.main.threads.get(self._tid)
            if own_thread is not None and threading.get_native_id() == self._tid:
                # the scheduler's own number of a running thread is up to a tick old
                ran = time.thread_time_ns()
                into += RECORD.pack(THREAD, pid, self._tid, 0, now, ran, own_thread.wait_ns, 0)
        finally:
            tree.close()

    def _poll(self, clock: Clock, why: str) -> None:
        with self._lock:
            if not self._stopped:
                self._poller = Poller(clock, why)
                self._poller.start()

    def _tell_freed(self, builder: TraceBuilder) -> None:
        begin, end = self._freed_bytes
        builder.metadata["freed_bytes"] = [begin, end]
        if end - begin >= MUCH_FREED:
            heap.trim()
            self.report.add(
                "freed-memory-kept",
                "info",
                example=f"{format_bytes(end - begin)} of what the cell freed were still resident at its end",
                effect="resident memory is higher than what was in use; it was given back to the system "
                "after the recording",
                advice="where torch records, shapes do most of it: %%profile --no-shapes",
            )

    def _tell(self, poller: Poller) -> None:
        if poller.failure is not None:
            self.report.add("counters-cut-short", "loss", example=repr(poller.failure))
        self.report.add(
            "memory-read-inside",
            "info",
            example=f"no process could watch this one: {poller.why}",
            effect="memory and CPU time were read by a thread, which waits while C code holds the GIL",
        )

    def _learn_names(self) -> None:
        for thread in threading.enumerate():
            if thread.native_id is not None:
                self._threads[thread.native_id] = thread.name
        processes = getattr(sys.modules.get("multiprocessing.process"), "_children", ())
        for process in tuple(processes):  # active_children() would wait for those that have ended
            self._children[getattr(process, "pid", None) or 0] = str(getattr(process, "name", ""))


def high_water_bytes() -> int:
    """Return the most that was ever resident of this process, as the kernel counts it; else 0.

    Examples
    --------
    >>> high_water_bytes() >= 0
    True
    """
    try:
        with open("/proc/self/status", "rb") as file:
            match = re.search(rb"VmHWM:\s*(\d+) kB", file.read())
    except OSError:
        return 0
    return int(match[1]) * 1024 if match else 0


def _ended_children_ns() -> int:
    """Return the CPU time of the user's children that were waited for."""
    try:
        import resource
    except ImportError:
        return 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9) - own_processes.reaped_cpu_ns()
