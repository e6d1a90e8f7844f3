"""The system collector: memory and CPU time of this process and its children."""

from __future__ import annotations

import os
import threading
from typing import ClassVar, Final

import numpy as np

from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...units import format_bytes
from ..base import Availability, Collector
from ..machine import usable_cores
from . import polling
from .polling import Poller, UsageReader
from .process_tree import REAPED, RSS

CPU_INTERVAL_NS: Final = 100_000_000
LONG_GAP_NS: Final = 100_000_000
MUCH_FREED: Final = 64 * 2**20
"""Amount of freed but kept memory above which it is reported.

torch's profiler keeps a small block for every tensor with a recorded shape. These are scattered between large
blocks, whose space then cannot be reused: 530 MiB in 40 steps of a GAN of 3 MiB, compared with 8 MiB without
a recording.
"""
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
        self._poller: Poller | None = None
        self._freed_bytes = (0, 0)
        self._tid = 0
        self._failure: Exception | None = None

    @classmethod
    def availability(cls) -> Availability:
        """Return that this is always available."""
        return Availability(True, "memory and CPU time of this process and its children")

    def start(self, clock: Clock) -> None:
        """Take the first readings, and start the thread."""
        self._tid = threading.get_native_id()
        self._reader = UsageReader()
        self._read(self._reader, clock.now_ns())
        self._freed_bytes = polling.freed_bytes(), 0
        self._poller = Poller(clock, self._reader)
        self._poller.start()

    def stop(self) -> None:
        """End the thread, and take the last readings."""
        poller, self._poller = self._poller, None
        if poller is None or self._reader is None:
            return
        poller.stop()
        self._failure = poller.failure
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
        if (records["kind"] == RSS).any():
            self._tell_freed(builder)
            if not is_exact:
                highest = int(records["b"][records["kind"] == RSS].max())
                self._tell_gap(polling.longest_gap_ns(records), highest)
        self._tell_unread_children(reader, int((records["kind"] == REAPED).sum()))
        builder.metadata["cpu"] = {"pid": os.getpid(), "tid": self._tid, "cores": usable_cores()}

    def abandon(self) -> None:
        """End the thread, and drop the readings."""
        self.stop()

    def _read(self, reader: UsageReader, now: int) -> None:
        """Read everything, in the thread of the recorded cell."""
        reader.memory(now)
        reader.look(now)
        reader.edge(now)

    def _tell_freed(self, builder: TraceBuilder) -> None:
        begin, end = self._freed_bytes
        builder.metadata["freed_bytes"] = [begin, end]
        if end - begin >= MUCH_FREED:
            polling.trim()
            self.report.add(
                "freed-memory-kept",
                "info",
                example=f"{format_bytes(end - begin)} that the cell had freed were still resident at its end",
                effect="resident memory is higher than memory in use; it was returned to the system "
                "after the recording",
                advice="with torch, shapes cause most of it: %%profile --no-shapes",
            )

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
        if reader.tree is not None or (readings < 2 and not reader.children):
            return
        self.report.add(
            "children-not-read",
            "info",
            example="child processes ran",
            effect="their memory is unknown, and so is the CPU time of those that still run: it is read on "
            "Linux only",
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
