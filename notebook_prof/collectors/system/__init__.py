"""The system collector: memory and CPU time of this process and its children."""

from __future__ import annotations

import os
import threading
import time
from typing import ClassVar, Final

import numpy as np

from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...units import format_bytes
from ..base import Availability, Collector
from ..machine import usable_cores
from . import polling
from .polling import MOVED_BYTES, UsageReader
from .process_tree import REAPED, RSS

INTERVAL_NS: Final = 10_000_000
"""Interval between readings of memory."""
STILL_EVERY: Final = 2
"""Number of intervals between readings while memory does not change."""
LOOK_NS: Final = 50_000_000
"""Interval between readings of threads and child processes."""
LOOK_SHARE: Final = 50
"""Readings may take at most one part in this many of the time, since the thread holds the GIL meanwhile."""
DOUBLE_EVERY: Final = 6_000
"""Number of readings after which the interval doubles: after a minute at 10 ms, two at 20 ms, and so on."""
CPU_INTERVAL_NS: Final = 100_000_000
LONG_GAP_NS: Final = 100_000_000
MUCH_FREED: Final = 64 * 2**20
"""Freed memory is returned to the system if more than this is still resident. torch's profiler scatters small
blocks among large ones, which keeps the pages resident."""
RSS_TRACK: Final = "process RSS"
CPU_TRACK: Final = "process CPU"
CHILDREN_TRACK: Final = "memory of child processes"


class SystemCollector(Collector):
    """Reads memory every 10 ms, or 20 ms while it does not change, and CPU times every 50 ms, in a thread."""

    # The thread waits while C code holds the GIL. Even so, a peak above all earlier ones is exact, because
    # the system keeps the highest value. Otherwise the peak is the highest reading.
    name: ClassVar[str] = "system"

    def __init__(self) -> None:
        self._reader: UsageReader | None = None
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self._freed_bytes = (0, 0)
        self._tid = 0
        self._failure: Exception | None = None

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True, "memory and CPU time of this process and its children")

    def start(self, clock: Clock) -> None:
        self._tid = threading.get_native_id()
        self._reader = UsageReader()
        self._read(self._reader, clock.now_ns())
        self._freed_bytes = polling.freed_bytes(), 0
        self._thread = threading.Thread(
            target=self._poll, args=(clock, self._reader), name="notebook_prof system", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None or self._reader is None:
            return
        self._quit.set()
        thread.join()
        self._read(self._reader, Clock().now_ns())
        self._freed_bytes = self._freed_bytes[0], polling.freed_bytes()
        self._reader.close()

    def result(self, builder: TraceBuilder) -> None:
        """Add counters of memory and CPU (share of all cores); tables ``cpu``, ``child_memory``."""
        reader, self._reader = self._reader, None
        if reader is None:
            return
        records = polling.decode(reader.data)
        if self._failure is not None:
            self.report.add("counters-cut-short", "loss", example=repr(self._failure))
        is_exact = put_readings(builder, reader)
        memory = records[records["kind"] == RSS]
        if len(memory):
            begin, end = self._freed_bytes
            builder.metadata["freed_bytes"] = [begin, end]
            if end - begin >= MUCH_FREED:
                polling.trim()
            if not is_exact:
                self._tell_gap(int(np.diff(memory["ts"]).max(initial=0)), int(memory["b"].max()))
        self._tell_unread_children(reader, int((records["kind"] == REAPED).sum()))
        builder.metadata["cpu"] = {"pid": os.getpid(), "tid": self._tid, "cores": usable_cores()}

    def abandon(self) -> None:
        self.stop()

    def _poll(self, clock: Clock, reader: UsageReader) -> None:
        """Read repeatedly until `stop`. Until then, the reader belongs to this thread."""
        interval, readings, level = INTERVAL_NS, 0, 0
        due = clock.now_ns() + interval
        next_look = due + LOOK_NS - interval
        try:
            while not self._quit.wait(max(0, due - clock.now_ns()) / 1e9):
                now = clock.now_ns()
                before, level = level, reader.memory(now)
                readings += 1
                if readings % DOUBLE_EVERY == 0:
                    interval *= 2
                if now >= next_look:
                    began = time.thread_time_ns()  # CPU time: wall time would include waits for the GIL
                    reader.look(now)
                    next_look = now + max(LOOK_NS, interval, (time.thread_time_ns() - began) * LOOK_SHARE)
                due = now + interval * (1 if abs(level - before) >= MOVED_BYTES else STILL_EVERY)
        except Exception as error:
            self._failure = error

    def _read(self, reader: UsageReader, now: int) -> None:
        """Read everything, in the thread of the recorded cell."""
        reader.memory(now)
        reader.look(now)
        reader.edge(now)

    def _tell_gap(self, gap_ns: int, highest_bytes: int) -> None:
        if gap_ns < LONG_GAP_NS or not highest_bytes:
            return
        self.report.add(
            "memory-peak-sampled",
            "info",
            example=f"C code held the GIL: memory was not read for {gap_ns / 1e6:.0f} ms",
            effect="the highest resident memory is the highest reading. In between it may have been "
            f"higher, at most {format_bytes(highest_bytes)}: the maximum since the process began",
        )

    def _tell_unread_children(self, reader: UsageReader, readings: int) -> None:
        are_listed = reader.tree is not None and os.path.exists("/proc/thread-self/children")
        if are_listed or (readings < 2 and not reader.children):
            return
        self.report.add(
            "children-not-read",
            "info",
            example="child processes ran",
            effect="their memory is unknown, and so is the CPU time of those that still run: it is read on "
            "Linux only, if the kernel was built with CONFIG_PROC_CHILDREN",
        )


def put_readings(builder: TraceBuilder, reader: UsageReader) -> bool:
    """Add counters of memory and CPU use, and their tables; return whether the peak of memory is exact."""
    pid, records, processes = os.getpid(), polling.decode(reader.data), reader.facts()
    ts, level, is_exact = polling.resident(records)
    if len(ts):
        builder.counter(builder.track(RSS_TRACK, "counter", pid=pid, unit="bytes"), ts, level)
    ts, share = polling.busy_share(records, usable_cores(), CPU_INTERVAL_NS)
    if len(ts):
        builder.counter(builder.track(CPU_TRACK, "counter", pid=pid, unit="share"), ts, share)
    builder.table("cpu", polling.cpu_table(records, processes))
    if len(memory := polling.child_memory(records, processes)):
        builder.table("child_memory", memory)
        total = polling.total_bytes(memory)
        track = builder.track(CHILDREN_TRACK, "counter", pid=pid, unit="bytes")
        builder.counter(track, total.index.to_numpy(np.int64), total.to_numpy(np.float64))
    return is_exact
