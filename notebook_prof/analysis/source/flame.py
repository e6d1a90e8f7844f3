"""Stacks and their times as nodes of a tree, for flame graphs and icicles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray, number_rows
from ..scope import Numbers, Texts, WindowLike, many, on_device, on_host
from .call_tree import call_tree
from .line_calls import shown_frames
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
    fold_libraries: bool = False,
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
    fold_libraries : bool
        Fold functions of libraries, and calls inside operators, as in `call_tree`.

    Returns
    -------
    DataFrame
        Level by level, each from left to right; empty without host slices.

        - ``node`` int64: row number; ``parent`` Int64: row of the caller, missing for roots; ``depth`` int64;
        - ``name`` str; ``category`` category: of the slices, missing for threads and lines;
        - ``value`` int64: of the node itself; ``total`` int64: with everything below it;
        - ``start`` int64: left edge of a node drawn as wide as its total: inside its parent, next to its
          larger, or earlier, siblings. Units of `value`, `total` and `start` are ns, or slices;
        - ``count`` int64: slices merged into the node;
        - ``share`` float64: `total` of all.

    Raises
    ------
    OptionError
        If there is no such metric or order.
    SelectionError
        If a phase or category does not exist.

    Notes
    -----
    The stacks do not contain slices that are left out: what they contain is below the nearest kept slice
    around it. Threads without kept slices do not appear. A slice that outlasts the one around it by more than
    half of its own length is not below it: a step outlives the call that began it. The marks of all steps
    (``ProfilerStep#4``) are one node, ``ProfilerStep*``, except with ``order="time"``. The total of a line is
    its ``self_ns`` in `lines`, plus the work of other threads for it.

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
    shown = shown_frames(trace) if fold_libraries else None
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
    """Lay out nodes, level by level: totals from the leaves up, then starts from the roots down."""
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


# The sandwich of a name: its callers above it, its callees below it.

_METRICS: Final = {"self_ns": ("self_ns", "total_ns"), "device_ns": ("device_self_ns", "device_ns")}


def sandwich(
    trace: Trace,
    name: str | Iterable[str],
    *,
    window: WindowLike = None,
    metric: str = "self_ns",
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    track: int | Iterable[int] | None = None,
    line: Texts = None,
    fold_libraries: bool = False,
) -> pd.DataFrame:
    """List the callers and callees of a name, laid out around it.

    Parameters
    ----------
    trace : Trace
    name : str or iterable of str
        One or more names; several are treated as one.
    metric : {"self_ns", "device_ns"}
        What widths show: time on the host, or duration of the device work launched.
    window, step, phase, category, track, line, fold_libraries
        As in `call_tree`.

    Returns
    -------
    DataFrame
        The columns of `flame`; empty if nothing has the name.

        The first row is the name, with ``depth`` 0. Rows with ``depth`` above 0 are callees: `value` is their
        own time, `total` includes everything below. Rows with ``depth`` below 0 are callers: `total` is the
        name's time through them, `value` the part without a further caller. ``parent`` is the adjacent row
        towards the name; the `total` of a parent's rows sum to no more than its own. Inner calls of a
        recursion are below the outermost one. ``share`` is `total` of all that is kept.

    Raises
    ------
    OptionError
        If there is no such metric.
    SelectionError
        If a phase or category does not exist.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main: [train          ][eval      ]
    ... main:  [linear    ]     [linear ]
    ... main:   [mm ]            [mm ]
    ... ''')
    >>> sandwich(trace, "linear")[["name", "depth", "value", "total", "start"]].values.tolist()
    [['linear', 0, 11, 21, 0], ['mm', 1, 10, 10, 0], ['train', -1, 12, 12, 0], ['eval', -1, 9, 9, 12]]
    """
    if metric not in _METRICS:
        raise OptionError(f"stacks cannot be weighted by {metric!r}: {nearest(metric, _METRICS)}")
    tree = call_tree(
        trace,
        window=window,
        step=step,
        phase=phase,
        category=category,
        track=track,
        line=line,
        fold_libraries=fold_libraries,
    )
    return sandwich_of(tree, many(name), metric)


def sandwich_of(tree: pd.DataFrame, names: list[str], metric: str = "self_ns") -> pd.DataFrame:
    """Return the sandwich for a call tree without threads."""
    own, whole = _METRICS[metric]
    up = tree["parent"].to_numpy(dtype=np.int64, na_value=-1)
    named = tree["name"].isin(names).to_numpy()
    outermost = np.flatnonzero(named & ~_below(named, up, tree["depth"].to_numpy()))
    label, _ = number_rows(tree["name"], tree["category"])
    below = laid_out(_callees(tree, outermost, up, label, own))
    above = laid_out(_callers(tree, outermost, up, label, whole))
    if len(outermost) and len(names) > 1:
        below.loc[0, "name"] = f"{len(names)} names"
    callers = above.iloc[1:]
    parent = callers["parent"].to_numpy(dtype=np.int64, na_value=0)
    parent = np.where(parent == 0, 0, parent + len(below) - 1)
    callers = callers.assign(depth=-callers["depth"], parent=pd.array(parent, dtype="Int64"))
    table = pd.concat([below, callers], ignore_index=True)
    table["node"] = np.arange(len(table))
    everything = int(tree.loc[tree["depth"] == 0, whole].sum())
    return table.assign(share=table["total"] / max(everything, 1))


def _below(named: BoolArray, up: IntArray, depth: IntArray) -> BoolArray:
    """Return a mask of the rows below a `named` row; loop over levels."""
    inside = np.zeros(len(named), dtype=bool)
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero(depth == level)
        inside[rows] = inside[up[rows]] | named[up[rows]]
    return inside


def _callees(tree: pd.DataFrame, top: IntArray, up: IntArray, label: IntArray, own: str) -> pd.DataFrame:
    """Merge the rows below `top`, whose rows become the root."""
    of = np.full(len(tree) + 1, -1, dtype=np.int64)
    of[top] = 0
    parts = {"of": [np.zeros(len(top), np.int64)], "row": [top]}
    parents, first, made = [np.full(min(len(top), 1), -1)], [top[:1]], min(len(top), 1)
    depths = [np.zeros(made, np.int64)]
    depth = tree["depth"].to_numpy()
    todo = np.arange(len(tree))
    level = 0
    while len(todo):
        # a row comes before those below it, so each round goes one level down
        now = todo[(of[up[todo]] >= 0) & (of[todo] < 0) & (up[todo] >= 0)]
        if not len(now):
            break
        level += 1
        code, keys = pd.factorize(of[up[now]] * (int(label.max()) + 1) + label[now])
        index = np.unique(code, return_index=True)[1]
        parents.append(of[up[now]][index])
        first.append(now[index])
        depths.append(np.full(len(keys), level))
        of[now] = made + code
        parts["of"].append(of[now])
        parts["row"].append(now)
        made += len(keys)
        todo = todo[(of[todo] < 0) & (depth[todo] > depth[now].min())]
    table = _nodes(tree, np.concatenate(first), np.concatenate(parents), np.concatenate(depths))
    return _summed(table, np.concatenate(parts["of"]), tree.iloc[np.concatenate(parts["row"])], own)


def _callers(tree: pd.DataFrame, top: IntArray, up: IntArray, label: IntArray, whole: str) -> pd.DataFrame:
    """Merge the rows above `top`, whose rows become the root, weighted by the time of `top`."""
    weight, count = tree[whole].to_numpy()[top], tree["count"].to_numpy()[top]
    of, at = np.zeros(len(top), np.int64), up[top]
    made = min(len(top), 1)
    parents, first, depths = [np.full(made, -1)], [top[:1]], [np.zeros(made, np.int64)]
    total = [np.bincount(of, weight, minlength=made).astype(np.int64)]
    counts = [np.bincount(of, count, minlength=made).astype(np.int64)]
    level = 0
    while (at >= 0).any():
        kept = at >= 0
        of, at, weight, count = of[kept], at[kept], weight[kept], count[kept]
        level += 1
        code, keys = pd.factorize(of * (int(label.max()) + 1) + label[at])
        index = np.unique(code, return_index=True)[1]
        parents.append(of[index])
        first.append(at[index])
        depths.append(np.full(len(keys), level))
        total.append(np.bincount(code, weight, minlength=len(keys)).astype(np.int64))
        counts.append(np.bincount(code, count, minlength=len(keys)).astype(np.int64))
        of, at, made = made + code, up[at], made + len(keys)
    parent, totals = np.concatenate(parents), np.concatenate(total)
    table = _nodes(tree, np.concatenate(first), parent, np.concatenate(depths))
    value = totals.copy()
    np.subtract.at(value, parent[parent >= 0], totals[parent >= 0])
    return table.assign(count=np.concatenate(counts), value=value)


def _nodes(tree: pd.DataFrame, first: IntArray, parent: IntArray, depth: IntArray) -> pd.DataFrame:
    named = tree[["name", "category"]].iloc[first].reset_index(drop=True)
    return named.assign(parent=parent.astype(np.int64), depth=depth.astype(np.int64))


def _summed(table: pd.DataFrame, node: IntArray, rows: pd.DataFrame, own: str) -> pd.DataFrame:
    sums = {
        name: np.bincount(node, rows[column], minlength=len(table)).astype(np.int64)
        for name, column in (("value", own), ("count", "count"))
    }
    return table.assign(**sums)
