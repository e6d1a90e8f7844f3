"""CPU time of the process, its threads and its children, and their share of the cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace, Window
from ...trace.arrays import IntArray
from ...trace.schema import Table
from ..scope import WindowLike, recorded_table

_ALL: Final = ("pid", "tid", "name", "kind", "ts", "cpu_ns", "wait_ns")


def cpu_within(
    trace: Trace, begin: IntArray, end: IntArray
) -> tuple[IntArray, IntArray | None, IntArray | None] | None:
    """Return, by span, CPU ns of the process and its children, and CPU and blocked ns of the recorded thread.

    None if CPU time was not recorded, or not by thread, as on macOS and Windows. If a span is divided, its
    parts sum to the same values.
    """
    # Blocked: neither running nor ready to run, but asleep or waiting for a thread, a device, a disk, a lock.
    clocks = cpu_clocks(trace)
    if not clocks:
        return None
    facts: Any = trace.metadata.get("cpu") or {}
    spent = np.zeros(len(begin), np.int64)
    for clock in clocks:
        if clock.tid < 0:
            spent += at(clock.ts, clock.cpu_ns, end) - at(clock.ts, clock.cpu_ns, begin)
    cell_clocks = [clock for clock in clocks if clock.tid >= 0 and clock.tid == facts.get("tid")]
    if not cell_clocks:
        return spent, None, None
    thread = cell_clocks[0]
    ran = _at_most_elapsed(thread.ts, thread.cpu_ns)
    busy = _at_most_elapsed(thread.ts, thread.cpu_ns + thread.wait_ns)
    on_core = at(thread.ts, ran, end) - at(thread.ts, ran, begin)
    return spent, on_core, _idle(thread.ts, busy, end) - _idle(thread.ts, busy, begin)


@dataclass(frozen=True, slots=True)
class CpuClock:
    """Cumulative CPU time and waits of one thread or process, by time."""

    pid: int
    tid: int
    name: str
    kind: str
    ts: IntArray
    cpu_ns: IntArray
    wait_ns: IntArray

    def between(self, start: int, end: int) -> tuple[int, int]:
        """Return CPU time and waits from one instant to another."""
        spent, waited = (np.diff(at(self.ts, total, (start, end))) for total in (self.cpu_ns, self.wait_ns))
        return int(spent[0]), int(waited[0])


def cpu_clocks(trace: Trace) -> list[CpuClock]:
    """Return the recorded clocks, that of the process first; empty if there are none."""
    table = recorded_table(trace, "cpu")
    if table is None or not len(table) or not set(_ALL) <= set(table.columns):
        return []
    columns = ("pid", "tid", "ts", "cpu_ns", "wait_ns")
    pid, tid, ts, spent, waited = (table[name].to_numpy(np.int64) for name in columns)
    names, kinds = table["name"].astype(str).tolist(), table["kind"].astype(str).tolist()
    order = np.lexsort((ts, tid, pid))  # with arrays, since a frame per thread takes a millisecond each
    other = np.flatnonzero(np.diff(pid[order]) | np.diff(tid[order])) + 1
    clocks = []
    for own in np.split(order, other):
        rising = np.maximum.accumulate(spent[own]), np.maximum.accumulate(waited[own])
        last = own[-1]
        clocks.append(CpuClock(int(pid[last]), int(tid[last]), names[last], kinds[last], ts[own], *rising))
    return sorted(clocks, key=lambda clock: clock.kind != "process")


def at(ts: IntArray, value: IntArray, moments: Any) -> IntArray:
    """Return a cumulative column at these moments, linearly interpolated, in whole numbers."""
    first = int(value[0])
    level: IntArray = first + np.rint(np.interp(moments, ts, value - first)).astype(np.int64)
    return level


def edges(clocks: list[CpuClock], window: WindowLike) -> tuple[int, int]:
    """Return the times of the first and the last reading, cut at the window."""
    start, end = min(int(clock.ts[0]) for clock in clocks), max(int(clock.ts[-1]) for clock in clocks)
    if window is None:
        return start, end
    cut = Window.of(window)
    start, end = max(start, cut.start), min(end, cut.end)
    return start, max(start, end)


def _at_most_elapsed(ts: IntArray, value: IntArray) -> IntArray:
    """Spread jumps over later readings, so that CPU time never grows faster than time."""
    # The scheduler updates a running thread's time only at ticks, so up to some milliseconds late.
    late: IntArray = ts + np.minimum.accumulate(value - ts)
    return late


def _idle(ts: IntArray, busy: IntArray, moments: IntArray) -> IntArray:
    """Return the idle time up to each moment; it neither falls nor grows faster than time."""
    origin, first = int(ts[0]), int(busy[0])
    ran = np.interp(moments, ts, busy - first)
    return np.floor((moments - origin) - ran).astype(np.int64)


COLUMNS: Final = Table.of(
    "cpu", "name:str kind:str pid:int64 tid:int64 cpu_ns:int64 wait_ns:int64 wall_ns:int64 share:float64"
)


def cpu(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List CPU time and waits for a core, by thread and by child process.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        The process as a whole, then its threads, then its children, each by `cpu_ns`, most first; empty if
        CPU time was not recorded.

        - ``name`` str, ``kind`` str: ``process`` (all threads together), ``python`` (threads known to
          Python), ``native`` (others, such as OpenMP's), ``profiler`` (ours), ``child`` (whole processes);
        - ``pid``, ``tid`` int64: -1 for whole processes, and for children that ended between two readings;
        - ``cpu_ns``, ``wait_ns``, ``wall_ns`` int64; ``share`` float64: `cpu_ns` of `wall_ns`.

    Notes
    -----
    The operating system is polled every 40 ms, from outside the interpreter. Values between two readings are
    interpolated. On Linux, waits for a core need ``/proc/PID/schedstat``.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b, columns = TraceBuilder(), ["pid", "tid", "name", "kind", "ts", "cpu_ns", "wait_ns"]
    >>> b.table("cpu", pd.DataFrame([(1, -1, "process", "process", 0, 5, 0),
    ...                              (1, -1, "process", "process", 100, 65, 20)], columns=columns))
    >>> cpu(b.seal(window=(0, 100)))[["name", "cpu_ns", "wait_ns", "share"]].values.tolist()
    [['process', 60, 20, 0.6]]
    """
    clocks = cpu_clocks(trace)
    if not clocks:
        return COLUMNS.empty()
    start, end = edges(clocks, window)
    wall = end - start
    rows = []
    for clock in clocks:
        spent, waited = clock.between(start, end)
        rows.append((clock.name, clock.kind, clock.pid, clock.tid, spent, waited, wall, spent / max(wall, 1)))
    rows.sort(key=lambda row: ({"process": 0, "child": 2}.get(row[1], 1), -row[4]))
    return COLUMNS.of_tuples(rows)


USE: Final = Table.of(
    "cpu_use",
    "wall_ns:int64 cpu_ns:int64 children_ns:int64 cores:float64 cores_got:float64 ready_ns:int64 "
    "wait_ns:int64 lost_ns:int64 oversubscribed_ns:int64 oversubscribed_share:float64 "
    "most_threads:float64 busy_threads:int64 native_threads:int64",
)
_BUSY: Final = 0.05
_CROWDED: Final = 1.1
"""Ratio of ready threads to cores from which a process is oversubscribed."""


def cpu_use(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Compare the cores that the process got with those available.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns. Default: the time of the recorded cell, or of the recording if there is none.

    Returns
    -------
    DataFrame
        One row, or none if CPU time was not recorded.

        - ``wall_ns``, ``cpu_ns``, ``children_ns`` int64; ``cores``, ``cores_got`` float64: "got 1.1 of 2";
        - ``ready_ns`` int64: time in which threads, except ours, could run, summed over them; ``wait_ns``
          int64: the part without a core, which divides into ``lost_ns`` (cores went to other programs) and
          ``oversubscribed_ns`` (more of its threads were ready than there are cores);
        - ``oversubscribed_share`` float64 of the time; ``most_threads`` float64: running or ready;
        - ``busy_threads``, ``native_threads`` int64.

    Notes
    -----
    Between two readings, the process got c of n cores on average, and w threads waited. Other programs had at
    most n - c cores: min(w, n - c) is lost to them, the rest of w is oversubscription.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b, columns = TraceBuilder(), ["pid", "tid", "name", "kind", "ts", "cpu_ns", "wait_ns"]
    >>> b.table("cpu", pd.DataFrame([(1, -1, "process", "process", 0, 0, 0),
    ...                              (1, -1, "process", "process", 100, 160, 90)], columns=columns))
    >>> b.metadata["cpu"] = {"cores": 2.0}
    >>> use = cpu_use(b.seal(window=(0, 100))).iloc[0]
    >>> float(use["cores_got"]), int(use["lost_ns"]), int(use["oversubscribed_ns"])
    (1.6, 40, 50)
    """
    clocks = cpu_clocks(trace)
    if not clocks:
        return USE.empty()
    cell = recorded_table(trace, "account")
    if window is None:  # readings go on until the recording has stopped
        window = trace.span
        if cell is not None:
            window = int(cell["ts"].min()), int((cell["ts"] + cell["dur"]).max())
    start, end = edges(clocks, window)
    wall = max(end - start, 1)
    wholes = [clock for clock in clocks if clock.tid < 0]
    moments = np.unique(np.concatenate([*(clock.ts for clock in wholes), np.array([start, end])]))
    moments = moments[(moments >= start) & (moments <= end)]
    length = np.diff(moments)
    ran = np.diff(sum(at(clock.ts, clock.cpu_ns, moments) for clock in wholes))
    waited = np.diff(sum(at(clock.ts, clock.wait_ns, moments) for clock in wholes))
    for clock in clocks:
        if clock.kind == "profiler":  # ours, which is included in the process's time
            waited = np.maximum(waited - np.diff(at(clock.ts, clock.wait_ns, moments)), 0)
    facts: Any = trace.metadata.get("cpu") or {}
    cores = float(facts.get("cores", 1.0))
    lost = np.minimum(waited, np.maximum(np.rint(cores * length).astype(np.int64) - ran, 0))
    demand = (ran + waited) / np.maximum(length, 1)
    crowded = demand > _CROWDED * cores
    table = cpu(trace, window=window)
    busy = table[(table["tid"] >= 0) & (table["cpu_ns"] >= _BUSY * wall)]
    total = int(ran.sum())
    row = {
        "wall_ns": end - start,
        "cpu_ns": total,
        "children_ns": int(table.loc[table["kind"] == "child", "cpu_ns"].sum()),
        "cores": cores,
        "cores_got": total / wall,
        "ready_ns": total + int(waited.sum()),
        "wait_ns": int(waited.sum()),
        "lost_ns": int(lost.sum()),
        "oversubscribed_ns": int((waited - lost).sum()),
        "oversubscribed_share": float(length[crowded].sum() / wall),
        "most_threads": float(demand.max(initial=0.0)),
        "busy_threads": len(busy),
        "native_threads": int((busy["kind"] == "native").sum()),
    }
    return USE.of_rows([row])


LOST: Final = 0.2
"""Share of ready time lost to other programs above which times depend on the machine's load."""
_LEAST_NS: Final = 100_000_000
"""Minimum time to judge; a shorter one has too few readings to show what used the cores."""
_IDLE: Final = 0.1
"""Minimum share of time in which threads were ready; with less, lost cores do not matter."""


def cores_were_lost(use: pd.DataFrame) -> bool:
    """Return whether, according to `cpu_use`, other programs took the cores for much of the time."""
    if not len(use):
        return False
    row = use.iloc[0]
    long = row["wall_ns"] >= _LEAST_NS and row["ready_ns"] >= _IDLE * row["wall_ns"]
    return bool(long and row["lost_ns"] >= LOST * row["ready_ns"])


def whole_cores(trace: Trace) -> int:
    """Return the number of whole cores that the process may use, within its quota; 0 if unknown."""
    read, machine = (trace.metadata.get(key) for key in ("cpu", "machine"))
    cores = read.get("cores", 0) if isinstance(read, Mapping) else 0
    counted = machine.get("cpus", 0) if isinstance(machine, Mapping) else 0
    return max(int(cores), 1) if cores else int(counted)
