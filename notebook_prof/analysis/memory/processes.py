"""Memory of the process and its children at the same instant."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import Trace, Window
from ...trace.schema import Table
from ..scope import WindowLike
from .curve import memory

COLUMNS: Final = Table.of(
    "memory_processes",
    "name:str kind:str pid:int64 ts:int64 bytes:int64 start_bytes:int64 peak_bytes:int64",
)


def memory_processes(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List the memory of the process and its children at the instant at which their sum is highest.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        The process, then its descendants that had memory, largest `bytes` first; empty if resident memory was
        not recorded.

        - ``name``, ``kind`` str: ``process`` or ``child``; ``pid`` int64;
        - ``ts`` int64 ns: that instant, the same in each row;
        - ``bytes``, ``start_bytes`` int64: resident then, and at the start; ``peak_bytes`` int64: most of
          this process alone.

    Notes
    -----
    For a child, only its own memory counts: no files, no shared memory, and no pages shared with the parent
    since a fork. Pages that are copied because the child writes to them are not counted.
    So the sum is a lower bound. Children are read every 50 ms, on Linux only; those that live shorter may be
    missing.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.counter(b.track("process RSS", "counter", unit="bytes"), [0, 20], [100.0, 130.0])
    >>> b.table("child_memory", pd.DataFrame({"pid": 7, "name": "make", "ts": [5, 15], "bytes": [60, 0]}))
    >>> memory_processes(b.seal())[["name", "ts", "bytes", "start_bytes"]].values.tolist()
    [['process', 5, 100, 100], ['make', 5, 60, 0]]
    """
    resident = memory(trace, device=-1)
    resident = resident[resident["source"] == "rss"]
    if not len(resident):
        return COLUMNS.empty()
    main = int((trace.metadata.get("cpu") or {}).get("pid", -1))
    own = pd.DataFrame(
        {"pid": main, "name": "process", "ts": resident["ts"], "bytes": resident["allocated_bytes"]}
    )
    children = (trace.metadata.get("tables") or {}).get("child_memory", own[:0])
    rows = pd.concat([own, children[list(own.columns)]], ignore_index=True)
    rows = rows.sort_values("ts", kind="stable").reset_index(drop=True)
    before = rows.groupby("pid")["bytes"].shift(fill_value=0)
    total = (rows["bytes"] - before).groupby(rows["ts"]).sum().cumsum()
    ts, level = total.index.to_numpy(np.int64), total.to_numpy(np.int64)
    cut = Window(int(resident["ts"].iloc[0]), int(ts[-1]) + 1) if window is None else Window.of(window)
    moments = np.union1d([cut.start], ts[(ts >= cut.start) & (ts < cut.end)])
    row = np.searchsorted(ts, moments, side="right") - 1
    at = int(moments[np.where(row >= 0, level[np.maximum(row, 0)], 0).argmax()])
    inside = rows[(rows["ts"] >= cut.start) & (rows["ts"] < cut.end)]
    table = rows.groupby("pid", sort=False)["name"].last().reset_index()
    for column, part in (("bytes", rows[rows["ts"] <= at]), ("start_bytes", rows[rows["ts"] <= cut.start])):
        table[column] = table["pid"].map(part.groupby("pid")["bytes"].last()).fillna(0)
    highest = table["pid"].map(inside.groupby("pid")["bytes"].max()).fillna(0)
    table["peak_bytes"] = np.maximum(highest, table["start_bytes"])
    table["kind"], table["ts"] = np.where(table["pid"] == main, "process", "child"), at
    table = table[(table["kind"] == "process") | (table["peak_bytes"] > 0)]
    order = ["kind", "bytes", "peak_bytes"]
    ordered = table.sort_values(order, ascending=[False, False, False], kind="stable")
    return COLUMNS.frame({column.name: ordered[column.name].to_numpy() for column in COLUMNS.columns})
