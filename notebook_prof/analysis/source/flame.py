"""Stacks and their times as nodes of a tree, for flame graphs and icicles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from ...trace.arrays import IntArray
from ..scope import Numbers, Texts, WindowLike, many, on_device, on_host
from .my_code import my_code
from .stack_nodes import device_sums, node_sums, stack_nodes

METRICS: Final = ("self_ns", "device_ns", "count")
ORDERS: Final = ("left_heavy", "time")


def flame(
    trace: Trace,
    *,
    window: WindowLike = None,
    metric: str = "self_ns",
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    track: int | Iterable[int] | None = None,
    line: Texts = None,
    by_thread: bool = True,
    by_line: bool = False,
    order: str = "left_heavy",
    only_my_code: bool = False,
) -> pd.DataFrame:
    """Merge equal stacks of slices into a tree, and sum each node.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.
    metric : {"self_ns", "device_ns", "count"}
        What `value` is: self time on the host, durations of device work launched there, or the number of
        slices.
    step : int or iterable of int, optional
        Keep what belongs to these steps.
    phase, category, line : str or iterable of str, optional
        Keep what belongs to these: ``category="python"`` leaves only Python frames; a line is written as
        ``cell:12``.
    track : int or iterable of int, optional
        Keep these threads.
    by_thread : bool
        Whether each thread is a root; otherwise equal stacks of all threads are merged.
    by_line : bool
        Whether each line of the user's source is a root instead, with its work in any thread but without the
        work of other lines below it. The last root is ``not in lines``.
    order : {"left_heavy", "time"}
        ``left_heavy`` merges all equal stacks, the largest sibling on the left; ``time`` merges only
        neighbours in time, in the order in which they began. See `sandwich` for a single name.
    only_my_code : bool
        Fold library functions, and calls inside operators, as in `call_tree`.

    Returns
    -------
    DataFrame
        Level by level, each from left to right; empty without host slices.

        - ``node`` int64: row number; ``parent`` Int64: row of the caller, missing for roots; ``depth`` int64;
        - ``name`` str; ``category`` category: of the slices, missing for threads and lines;
        - ``value`` int64: of the node itself; ``total`` int64: with everything below it;
        - ``start`` int64: left edge of a node drawn as wide as its total: inside its parent, after larger, or
          earlier, siblings, without gaps. Units of `value`, `total` and `start` are ns, or slices;
        - ``count`` int64: slices that are the node;
        - ``share`` float64: `total` of all.

    Raises
    ------
    OptionError
        If there is no such metric or order.
    SelectionError
        If a phase or category does not exist.

    Notes
    -----
    The stacks do not contain slices that are left out: their content is below the nearest kept slice around
    it. Threads without kept slices do not appear. A slice that outlasts the one around it by more than half
    of its own length is not in its stack: a step outlives the call that began it. The marks of all steps
    (``ProfilerStep#4``) are one node, ``ProfilerStep*``, except with ``order="time"``. Totals of lines are
    their ``self_ns`` in `lines`, plus the work of other threads for them.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main: [linear    ][linear  ]
    ... main:  [mm ][add]  [mm ]
    ... ''')
    >>> table = flame(trace, by_thread=False)
    >>> table[["name", "depth", "value", "total", "start", "count"]].values.tolist()
    [['linear', 0, 7, 22, 0, 2], ['mm', 1, 10, 10, 0, 2], ['add', 1, 5, 5, 10, 1]]
    >>> flame(trace, by_thread=False, order="time")[["name", "total", "start"]].values.tolist()
    [['linear', 22, 0], ['mm', 5, 0], ['add', 5, 5], ['mm', 5, 10]]
    """
    if metric not in METRICS:
        raise OptionError(f"stacks cannot be weighted by {metric!r}: {nearest(metric, METRICS)}")
    if order not in ORDERS:
        raise OptionError(f"there is no order {order!r} of stacks: {nearest(order, ORDERS)}")
    host = on_host(trace, window).where(step=step, phase=phase, category=category, line=line)
    if track is not None:
        host = host.only(np.isin(host.ints("track"), many(track)))
    shown = my_code(trace) if only_my_code else None
    nodes = stack_nodes(trace, host, by_thread, shown, in_time=order == "time", by_line=by_line)
    table = nodes.table
    table["count"] = node_sums(nodes, nodes.of_slice[nodes.rows])
    if metric == "count":
        table["value"] = table["count"]
    elif metric == "self_ns":
        table["value"] = node_sums(nodes, nodes.of_slice[host.rows], host.self_ns)
    else:
        table["value"] = device_sums(trace, nodes, on_device(trace, window))
    return laid_out(table, heaviest_first=order == "left_heavy")


def laid_out(table: pd.DataFrame, *, heaviest_first: bool = True) -> pd.DataFrame:
    """Lay nodes out: totals from the leaves up, starts from the roots down; a loop over levels."""
    depth, parent = table["depth"].to_numpy(), table["parent"].to_numpy().copy()
    total = table["value"].to_numpy().copy()
    levels = [np.flatnonzero(depth == level) for level in range(int(depth.max(initial=-1)) + 1)]
    for rows in levels[:0:-1]:
        np.add.at(total, parent[rows], total[rows])
    start = np.zeros(len(table), dtype=np.int64)
    order: list[IntArray] = []
    rank = np.zeros(len(table), dtype=np.int64)
    for level, rows in enumerate(levels):
        up = parent[rows]
        left = rank[up] if level else np.zeros(len(rows), dtype=np.int64)
        rows = rows[np.lexsort((-total[rows] if heaviest_first else rows, left))]
        before = np.cumsum(total[rows]) - total[rows]
        up = parent[rows]
        leads = np.append(True, up[1:] != up[:-1])[: len(rows)]
        base = np.maximum.accumulate(np.where(leads, np.arange(len(rows)), 0))
        start[rows] = (start[up] if level else 0) + before - before[base]
        rank[rows] = np.arange(len(rows))
        order.append(rows)
    rows = np.concatenate(order) if order else np.empty(0, np.int64)
    row_of = np.empty(len(table) + 1, dtype=np.int64)
    row_of[rows], row_of[-1] = np.arange(len(rows)), -1
    table = table.assign(total=total, start=start).iloc[rows].reset_index(drop=True)
    above = row_of[parent[rows]]
    table["parent"] = pd.arrays.IntegerArray(above, above < 0)
    table.insert(0, "node", np.arange(len(table)))
    roots = table.loc[table["depth"] == 0, "total"].sum()
    table["share"] = table["total"] / max(int(roots), 1)
    names = ["node", "parent", "depth", "name", "category", "value", "total", "start", "count", "share"]
    return table[names]
