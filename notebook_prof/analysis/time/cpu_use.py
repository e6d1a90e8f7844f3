"""Cores that the process got, of those that are there."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.schema import Column, Table
from ..scope import WindowLike
from .cpu import cpu
from .cpu_clocks import at, cpu_clocks, edges

USE: Final = Table(
    "cpu_use",
    (
        Column("wall_ns", "int64", "ns", "time that was looked at"),
        Column("cpu_ns", "int64", "ns", "CPU time of the process and all children"),
        Column("children_ns", "int64", "ns", "of it, that of the children"),
        Column("cores", "float64", "", "cores that the process may use"),
        Column("cores_got", "float64", "", "cores that it and its children got, on average"),
        Column("wait_ns", "int64", "ns", "time that threads stood ready to run without a core, added up"),
        Column("lost_ns", "int64", "ns", "of it, while cores went to other programs"),
        Column("oversubscribed_ns", "int64", "ns", "of it, while more own threads were ready than cores"),
        Column("oversubscribed_share", "float64", "1", "of the time, with more ready threads than cores"),
        Column("most_threads", "float64", "", "most threads that ran or were ready, between two readings"),
        Column("busy_threads", "int64", "", "threads of the process that used a twentieth of a core or more"),
        Column("native_threads", "int64", "", "of those, threads that Python did not start, as OpenMP's"),
    ),
)
_BUSY: Final = 0.05
_CROWDED: Final = 1.1
"""So many times as many ready threads as cores is one thread too many."""


def cpu_use(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Compare the cores that the process got with those that are there.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        One row, or none where CPU time was not recorded.

        - ``wall_ns``, ``cpu_ns``, ``children_ns`` int64; ``cores``, ``cores_got`` float64: "got 1.1 of 2";
        - ``wait_ns`` int64: time in which threads stood ready without a core, added up over threads. It
          divides into ``lost_ns`` (cores went to other programs) and ``oversubscribed_ns`` (more own threads
          were ready than there are cores);
        - ``oversubscribed_share`` float64 of the time; ``most_threads`` float64: running or ready;
        - ``busy_threads``, ``native_threads`` int64.

    Notes
    -----
    Between two readings, c cores were got and w threads waited on average, of n cores. Others can have taken
    no more than n - c cores: min(w, n - c) is lost to them, the rest of w is oversubscription.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b, columns = TraceBuilder(), ["pid", "tid", "name", "kind", "ts", "cpu_ns", "wait_ns"]
    >>> b.table("cpu", pd.DataFrame([(1, -1, "process", "process", 0, 0, 0),
    ...                              (1, -1, "process", "process", 100, 160, 90)], columns=columns))
    >>> b.metadata["cpu"] = {"cores": 2.0}
    >>> found = cpu_use(b.seal(window=(0, 100))).iloc[0]
    >>> float(found["cores_got"]), int(found["lost_ns"]), int(found["oversubscribed_ns"])
    (1.6, 40, 50)
    """
    clocks = cpu_clocks(trace)
    if not clocks:
        return USE.empty()
    start, end = edges(clocks, window)
    wall = max(end - start, 1)
    wholes = [clock for clock in clocks if clock.tid < 0]
    moments = np.unique(np.concatenate([*(clock.ts for clock in wholes), np.array([start, end])]))
    moments = moments[(moments >= start) & (moments <= end)]
    length = np.diff(moments)
    ran = np.diff(sum(at(clock.ts, clock.cpu_ns, moments) for clock in wholes))
    waited = np.diff(sum(at(clock.ts, clock.wait_ns, moments) for clock in wholes))
    told: Any = trace.metadata.get("cpu") or {}
    cores = float(told.get("cores", 1.0))
    lost = np.minimum(waited, np.maximum(np.rint(cores * length).astype(np.int64) - ran, 0))
    demand = (ran + waited) / np.maximum(length, 1)
    crowded = demand > _CROWDED * cores
    table = cpu(trace, window=window)
    busy = table[(table["tid"] >= 0) & (table["cpu_ns"] >= _BUSY * wall)]
    total = int(ran.sum())
    children = table.loc[table["kind"] == "child", "cpu_ns"]
    row = {
        "wall_ns": end - start,
        "cpu_ns": total,
        "children_ns": int(children.sum()),
        "cores": cores,
        "cores_got": total / wall,
        "wait_ns": int(waited.sum()),
        "lost_ns": int(lost.sum()),
        "oversubscribed_ns": int((waited - lost).sum()),
        "oversubscribed_share": float(length[crowded].sum() / wall),
        "most_threads": float(demand.max(initial=0.0)),
        "busy_threads": len(busy),
        "native_threads": int((busy["kind"] == "native").sum()),
    }
    return USE.frame({name: [value] for name, value in row.items()})
