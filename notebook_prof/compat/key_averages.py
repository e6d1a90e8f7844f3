"""Operators as PyTorch's ``key_averages()`` adds them up."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..analysis.device.launches import launching_rows
from ..analysis.scope import WindowLike, ints, on_device, on_host
from ..analysis.time.redispatch import redispatched
from ..trace import Trace

_CALLS = ("operator", "collective", "annotation", "launch", "sync", "io", "overhead")


def key_averages(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Add up calls by name as PyTorch does: recursion counts twice, device work has rows of its own.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; times are cut at its edges.

    Returns
    -------
    DataFrame
        In order of first appearance, what ran on the host first; no rows for an empty trace.

        - ``name`` str; ``count`` int64; ``on_device`` bool;
        - ``self_cpu_time_ns``, ``cpu_time_total_ns`` int64: 0 for device work;
        - ``self_device_time_ns``, ``device_time_total_ns`` int64: of what a call launched itself, and with
          what is inside it; a kernel's own time in its own row.

        An operator that only passes a call on to itself is one call.

    Notes
    -----
    `operators` is the better answer: its total times count recursion once, and add up. This one is for
    comparison with PyTorch's own tables.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 2], dur=[10, 3], name=["linear", "mm"], track=b.track("main"))
    >>> key_averages(b.seal())[["name", "count", "self_cpu_time_ns", "cpu_time_total_ns"]].values.tolist()
    [['linear', 1, 7, 10], ['mm', 1, 3, 3]]
    """
    host = on_host(trace, window).where(category=_CALLS)
    device = on_device(trace, window)
    parent = ints(trace.slices["parent"])
    spent = np.zeros(len(trace.slices), np.int64)
    launcher = launching_rows(trace)[device.rows]
    np.add.at(spent, launcher[launcher >= 0], (device.end - device.ts)[launcher >= 0])
    total = spent.copy()
    rows = np.flatnonzero(spent)
    up, values = parent[rows], spent[rows]
    while len(up):
        up, values = up[up >= 0], values[up >= 0]
        np.add.at(total, up, values)
        up = parent[up]
    names = trace.slices["name"].astype("object").to_numpy()
    once = (~redispatched(trace)[host.rows]).astype(np.int64)
    cpu = pd.DataFrame(
        {
            "name": names[host.rows],
            "on_device": False,
            "count": once,
            "self_cpu_time_ns": host.self_ns,
            "cpu_time_total_ns": (host.end - host.ts) * once,
            "self_device_time_ns": spent[host.rows],
            "device_time_total_ns": total[host.rows] * once,
        }
    )
    own = device.end - device.ts
    work = pd.DataFrame({"name": names[device.rows], "on_device": True, "count": 1})
    work = work.assign(
        self_cpu_time_ns=0, cpu_time_total_ns=0, self_device_time_ns=own, device_time_total_ns=own
    )
    both = pd.concat([cpu, work], ignore_index=True)
    return both.groupby(["name", "on_device"], sort=False).sum().reset_index()
