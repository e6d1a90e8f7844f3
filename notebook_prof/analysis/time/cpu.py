"""CPU time of the process, of each of its threads, and of its child processes."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.schema import Column, Table
from ..scope import WindowLike
from .cpu_clocks import at, cpu_clocks, edges

COLUMNS: Final = Table(
    "cpu",
    (
        Column("name", "str", "", "of the thread, or command of the child"),
        Column("kind", "str", "", "process, python, native, profiler or child"),
        Column("pid", "int64", "", "process"),
        Column("tid", "int64", "", "thread; -1 for a process as a whole"),
        Column("cpu_ns", "int64", "ns", "time on a core"),
        Column("wait_ns", "int64", "ns", "time ready to run without a core, of all its threads"),
        Column("wall_ns", "int64", "ns", "time that was looked at"),
        Column("share", "float64", "1", "`cpu_ns` of `wall_ns`: 1 is a whole core"),
    ),
)


def cpu(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List CPU time and waits for a core, by thread and by child process.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        The process as a whole, then its threads and then its children, each by `cpu_ns`, most first; no rows
        where CPU time was not recorded.

        - ``name`` str, ``kind`` str: ``process`` (all threads together), ``python`` (threads that Python
          knows), ``native`` (others, such as OpenMP's), ``profiler`` (ours), ``child`` (whole processes);
        - ``pid``, ``tid`` int64: -1 where a row is a process as a whole, and for the process of children that
          ended between two readings;
        - ``cpu_ns``, ``wait_ns``, ``wall_ns`` int64; ``share`` float64: `cpu_ns` of `wall_ns`.

    Notes
    -----
    The operating system is asked every 40 ms, from outside the interpreter. Time between two readings is
    taken to be even. Linux tells waits for a core only where it counts them (``/proc/PID/schedstat``).

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
        spent, waited = (
            int(np.diff(at(clock.ts, column, (start, end)))[0]) for column in (clock.cpu_ns, clock.wait_ns)
        )
        rows.append((clock.name, clock.kind, clock.pid, clock.tid, spent, waited, wall, spent / max(wall, 1)))
    table = COLUMNS.frame({c.name: [row[i] for row in rows] for i, c in enumerate(COLUMNS.columns)})
    order = table["kind"].map({"process": 0, "child": 2}).fillna(1)
    ordered = table.assign(order=order).sort_values(
        ["order", "cpu_ns"], ascending=[True, False], kind="stable"
    )
    return ordered.drop(columns="order").reset_index(drop=True)
