"""Which thread of which process a part of a Firefox profile belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from ...trace.arrays import FloatArray
from ...trace.builder import TraceBuilder
from .stacks import NO_TIME, GeckoTable

_LARGEST = 2**62


class GeckoThread(NamedTuple):
    """A thread of a profile."""

    track: int
    name: str  # unique within the profile
    pid: int | None  # None if the profile has made one up

    @property
    def markers(self) -> str:
        """Name of the track of its markers."""
        return f"{self.name} · markers"


class GeckoTracks:
    """Makes a track of each thread, also of those without numbers or with the same ones."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._names: set[tuple[int | None, str]] = set()
        self._ids: set[tuple[int, int]] = set()
        self._processes: dict[str, str] = {}

    def add(self, name: Any, pid: Any, tid: Any, process: Any) -> GeckoThread:
        """Return the track of a thread, always a new one."""
        number, thread = process_id(pid), process_id(tid)
        if number is not None and isinstance(process, str) and process:
            self._processes.setdefault(str(number), process)
            self._builder.metadata["processes"] = self._processes
        label = name if isinstance(name, str) and name else "thread"
        if number is None and isinstance(pid, str) and pid:
            label = f"{label} of {pid}"
        label = self.unique(label, number)
        if number is None or thread is None or (number, thread) in self._ids:
            return GeckoThread(self._builder.track(label, pid=number), label, number)
        self._ids.add((number, thread))
        return GeckoThread(self._builder.track(label, pid=number, tid=thread), label, number)

    def unique(self, name: str, pid: int | None) -> str:
        """Return a name that nothing else of this process has."""
        count, unique = 1, name
        while (pid, unique) in self._names:
            count += 1
            unique = f"{name} {count}"
        self._names.add((pid, unique))
        return unique


def process_id(value: Any) -> int | None:
    """Return the number of a process or thread; None for names such as ``"Unknown Process 1"``.

    >>> process_id("5127"), process_id(12), process_id("5127.1"), process_id(None)
    (5127, 12, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < _LARGEST else None


# Counters of the Firefox Profiler, and how much of a processor its threads used.

CPU_SCALE: Final = {"ns": 1, "µs": 1_000, "us": 1_000, "ms": 1_000_000}
"""Nanoseconds in each unit of CPU time that ``sampleUnits`` may name. Cycles are not a unit of time."""
_SUMMED: Final = {"Memory", "Bandwidth"}
_JOULES: Final = 3.6e-9
"""Joules in a picowatt-hour."""


def add_counters(
    builder: TraceBuilder, tracks: GeckoTracks, counters: Sequence[Any], pid: Any, base: int, units: Any
) -> None:
    """Put the counters of a process into `builder`."""
    # The file has what was added since the previous value. Of memory and traffic, the sum is shown in bytes,
    # from 0 at its lowest; of power, watts; of the process's CPU time, the share of a processor; of anything
    # else, what the file has. `pid` is used for counters that name no process, `base` is where times
    # begin in absolute ns, and `units` is ``sampleUnits`` of the profile.
    for number, counter in enumerate(counters):
        if not isinstance(counter, dict):
            builder.report.add("broken-row", "loss", example=f"counter {number}", effect="left out")
            continue
        process = process_id(counter.get("pid", pid))
        scale = CPU_SCALE.get(str(units.get("threadCPUDelta"))) if isinstance(units, dict) else None
        for table in _samples(counter):
            name = tracks.unique(str(counter.get("name") or "counter"), process)
            _add(builder, name, process, str(counter.get("category", "")), table, base, scale)


def _samples(counter: dict[str, Any]) -> list[GeckoTable]:
    groups = counter.get("sampleGroups", counter.get("sample_groups"))
    if groups is None:
        groups = [counter]
    listed = groups if isinstance(groups, list) else [groups]
    parts = [each.get("samples") for each in listed if isinstance(each, dict)]
    return [GeckoTable(msgspec.json.encode(part)) for part in parts]


def _add(
    builder: TraceBuilder,
    name: str,
    pid: int | None,
    category: str,
    table: GeckoTable,
    base: int,
    scale: int | None,
) -> None:
    ts, added = table.times(), table.numbers("count")
    ok = (ts != NO_TIME) & np.isfinite(added)
    builder.report.add_where(
        "broken-row", "loss", ~ok, lambda i: f"value {i} of the counter {name}", "these values are left out"
    )
    order = np.argsort(ts[ok], kind="stable")
    ts, added = ts[ok][order], added[ok][order]
    if not len(ts):
        return
    unit, value = "", added
    if category in _SUMMED:
        total = np.cumsum(added)
        unit, value = "bytes", total - min(float(total.min()), 0.0)
    elif category.lower() == "power":
        ts, value = _rate(ts, added * _JOULES * 1e9)
        unit = "W"
    elif category == "CPU" and scale:
        ts, value = _rate(ts, added * scale)
        unit = "1"
    builder.counter(builder.track(name, "counter", pid=pid, unit=unit), ts + base, value)


def _rate(ts: Any, added: FloatArray) -> tuple[Any, FloatArray]:
    """Return where each stretch between two values begins, and what was added in it a nanosecond."""
    dur = np.diff(ts)
    value = np.divide(added[1:], dur, out=np.zeros(len(dur)), where=dur > 0)
    return ts[:-1][dur > 0], value[dur > 0]


def add_cpu_use(
    builder: TraceBuilder, thread: GeckoThread, samples: GeckoTable, scale: int | None, base: int
) -> None:
    """Put the share of a processor that a thread used between two samples into `builder`."""
    if "threadCPUDelta" not in samples:
        return
    ts, used = samples.times(), samples.numbers("threadCPUDelta")
    ok = (ts != NO_TIME) & np.isfinite(used)
    if scale is None:
        builder.report.add(
            "cpu-use-not-told",
            "info",
            int(ok.sum()),
            example=thread.name,
            effect="CPU use in cycles has no share of a processor: it is left out",
        )
        return
    ts, value = _rate(ts[ok], used[ok] * scale)
    if len(ts):
        track = builder.track(f"CPU of {thread.name}", "counter", pid=thread.pid, unit="1")
        builder.counter(track, ts + base, value)
