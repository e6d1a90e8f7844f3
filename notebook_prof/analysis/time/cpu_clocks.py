"""Cumulative CPU time at any moment, from readings at some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace, Window
from ...trace.intervals import IntArray
from ..scope import WindowLike

_ALL: Final = ("pid", "tid", "name", "kind", "ts", "cpu_ns", "wait_ns")


def cpu_within(trace: Trace, begin: IntArray, end: IntArray) -> tuple[IntArray, IntArray, IntArray] | None:
    """CPU time and waits of a cell in stretches of time.

    Parameters
    ----------
    trace : Trace
    begin, end : ndarray of int64, shape (n,)
        ns from the start of the trace.

    Returns
    -------
    cpu_ns : ndarray of int64, shape (n,)
        Of the process and its children.
    thread_cpu_ns : ndarray of int64, shape (n,)
        Of the thread that was recorded.
    wait_ns : ndarray of int64, shape (n,)
        Time in which that thread neither ran nor stood ready to run: it slept, or waited for a thread, a
        device, a disk or a lock.
        None instead of the three where CPU time was not recorded. Parts of a stretch sum to the whole.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b, columns = TraceBuilder(), ["pid", "tid", "name", "kind", "ts", "cpu_ns", "wait_ns"]
    >>> b.table("cpu", pd.DataFrame([(1, -1, "process", "process", 0, 5, 0),
    ...     (1, -1, "process", "process", 100, 105, 0), (1, 7, "main", "python", 0, 0, 0),
    ...     (1, 7, "main", "python", 100, 40, 20)], columns=columns))
    >>> b.metadata["cpu"] = {"tid": 7}
    >>> found = cpu_within(b.seal(window=(0, 100)), np.array([0, 30]), np.array([30, 100]))
    >>> [part.tolist() for part in found]
    [[30, 70], [12, 28], [12, 28]]
    """
    clocks = cpu_clocks(trace)
    if not clocks:
        return None
    told: Any = trace.metadata.get("cpu") or {}
    spent = np.zeros(len(begin), np.int64)
    for clock in clocks:
        if clock.tid < 0:
            spent += at(clock.ts, clock.cpu_ns, end) - at(clock.ts, clock.cpu_ns, begin)
    mine = [clock for clock in clocks if clock.tid >= 0 and clock.tid == told.get("tid")]
    if not mine:
        return spent, np.zeros(len(begin), np.int64), end - begin
    thread = mine[0]
    ran = _at_most_elapsed(thread.ts, thread.cpu_ns)
    busy = _at_most_elapsed(thread.ts, thread.cpu_ns + thread.wait_ns)
    on_core = at(thread.ts, ran, end) - at(thread.ts, ran, begin)
    return spent, on_core, _idle(thread.ts, busy, end) - _idle(thread.ts, busy, begin)


@dataclass(frozen=True, slots=True)
class CpuClock:
    """CPU time and waits of one thread or process, by time."""

    pid: int
    tid: int
    name: str
    kind: str
    ts: IntArray
    cpu_ns: IntArray
    wait_ns: IntArray


def cpu_clocks(trace: Trace) -> list[CpuClock]:
    """The recorded clocks, the process's own first; empty where there are none."""
    table = (trace.metadata.get("tables") or {}).get("cpu")
    if not isinstance(table, pd.DataFrame) or not set(_ALL) <= set(table.columns) or not len(table):
        return []
    found = []
    for (pid, tid), own in table.groupby(["pid", "tid"], sort=True):
        ordered = own.sort_values("ts", kind="stable")
        ts, spent, waited = (ordered[name].to_numpy(dtype=np.int64) for name in ("ts", "cpu_ns", "wait_ns"))
        name, kind = str(ordered["name"].iloc[-1]), str(ordered["kind"].iloc[-1])
        spent, waited = np.maximum.accumulate(spent), np.maximum.accumulate(waited)
        found.append(CpuClock(int(pid), int(tid), name, kind, ts, spent, waited))
    return sorted(found, key=lambda clock: clock.kind != "process")


def at(ts: IntArray, value: IntArray, moments: Any) -> IntArray:
    """A cumulative column at some moments: straight lines between readings, whole numbers."""
    first = int(value[0])
    level: IntArray = first + np.rint(np.interp(moments, ts, value - first)).astype(np.int64)
    return level


def edges(clocks: list[CpuClock], window: WindowLike) -> tuple[int, int]:
    """First and last instant that was read, within the window."""
    start, end = min(int(clock.ts[0]) for clock in clocks), max(int(clock.ts[-1]) for clock in clocks)
    if window is None:
        return start, end
    cut = Window.of(window)
    start, end = max(start, cut.start), min(end, cut.end)
    return start, max(start, end)


def _at_most_elapsed(ts: IntArray, value: IntArray) -> IntArray:
    """What was counted late is moved on, so that nothing runs faster than time.

    The scheduler adds to a running thread's time at ticks, up to some milliseconds late.
    """
    late: IntArray = ts + np.minimum.accumulate(value - ts)
    return late


def _idle(ts: IntArray, busy: IntArray, moments: IntArray) -> IntArray:
    """Time not busy until some moments; rises with them, never by more than they do."""
    origin, first = int(ts[0]), int(busy[0])
    ran = np.interp(moments, ts, busy - first)
    return np.floor((moments - origin) - ran).astype(np.int64)
