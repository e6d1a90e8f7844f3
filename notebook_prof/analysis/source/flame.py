"""Stacks and their times as nodes of a tree, for flame graphs and icicles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError, check_option, nearest
from ...trace import Trace
from ...trace.arrays import IntArray, distinct_paths, number_rows, optional, positions
from ..grouping import outermost, sums
from ..scope import Numbers, Texts, WindowLike, many, on_device, on_host
from .call_tree import call_tree, with_callers
from .line_calls import shown_frames
from .stack_nodes import device_sums, node_sums, placed, stack_nodes, with_children

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
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.
    metric : {"self_ns", "device_ns", "count"}
        The meaning of `value`: self time on the host, durations of device work launched there, or the number
        of slices.
    step, phase, category, track, line, fold_libraries
        As in `call_tree`.
    by_thread : bool
        Whether each thread is a root; otherwise equal stacks of all threads are merged.
    by_line : bool
        Whether each line of the user's source is a root instead, with its work in any thread but without
        that of other lines below it. The last root is ``not in lines``.
    order : {"left_heavy", "time"}
        ``left_heavy`` merges all equal stacks, the largest sibling on the left; ``time`` merges only
        neighbours in time, in the order in which they began. See `sandwich` for a single name.

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

    Notes
    -----
    The content of a slice that is left out is below the nearest kept slice around it. A slice that outlasts
    the one around it by more than half of its own length is not below it: a step outlives the call that began
    it. The marks of all steps (``ProfilerStep#4``) are one node, ``ProfilerStep*``, except with
    ``order="time"``. The total of a line is its ``self_ns`` in `lines`, plus other threads' work for it.

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
    check_option("stacks cannot be weighted by", metric, METRICS)
    if order not in ORDERS:
        raise OptionError(f"there is no order {order!r} of stacks: {nearest(order, ORDERS)}")
    host = on_host(trace, window).where(step=step, phase=phase, category=category, track=track, line=line)
    shown = shown_frames(trace) if fold_libraries else None
    nodes = stack_nodes(trace, host, by_thread, shown, in_time=order == "time", by_line=by_line)
    table = nodes.table
    table["count"] = node_sums(nodes, nodes.of_slice[nodes.rows])
    table["value"] = table["count"]
    if metric == "self_ns":
        table["value"] = node_sums(nodes, nodes.of_slice[host.rows], host.self_ns)
    elif metric == "device_ns":
        table["value"] = device_sums(trace, nodes, on_device(trace, window))
    return laid_out(table, heaviest_first=order == "left_heavy")


def laid_out(table: pd.DataFrame, *, heaviest_first: bool = True) -> pd.DataFrame:
    """Lay out nodes, level by level: totals from the leaves up, then starts from the roots down."""
    depth, parent = table["depth"].to_numpy(), table["parent"].to_numpy()
    total = with_children(parent, depth, table["value"].to_numpy())
    start, rows = placed(parent, depth, total, [-total if heaviest_first else np.arange(len(total))])
    table = table.assign(total=total, start=start).iloc[rows].reset_index(drop=True)
    table["parent"] = optional(positions(rows, parent[rows]))
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
        towards the name. Inner calls of a recursion are below the outermost one.

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
    check_option("stacks cannot be weighted by", metric, _METRICS)
    kept: dict[str, Any] = {"step": step, "phase": phase, "category": category, "track": track, "line": line}
    tree = call_tree(trace, window=window, fold_libraries=fold_libraries, **kept)
    return sandwich_of(tree, many(name), metric)


def sandwich_of(tree: pd.DataFrame, names: list[str], metric: str = "self_ns") -> pd.DataFrame:
    """Return the sandwich for a call tree without threads."""
    own, whole = _METRICS[metric]
    up = tree["parent"].to_numpy(dtype=np.int64, na_value=-1)
    named = tree["name"].isin(names).to_numpy()
    root = outermost(up, named)
    top = np.flatnonzero(root == np.arange(len(tree)))
    label, _ = number_rows(tree["name"], tree["category"])
    label[top] = label.max(initial=0) + 1  # one root, whatever their names and categories
    below = laid_out(_callees(tree, root, up, label, own))
    above = with_callers(tree, top, label)
    total, up = above[whole].to_numpy(), above["parent"].to_numpy()
    value = total.copy()
    np.subtract.at(value, up[up >= 0], total[up >= 0])
    above = laid_out(above.assign(value=value))
    if len(top) and len(names) > 1:
        below.loc[0, "name"] = f"{len(names)} names"
    callers = above.iloc[1:]
    parent = callers["parent"].to_numpy(dtype=np.int64, na_value=0)
    parent = np.where(parent == 0, 0, parent + len(below) - 1)
    callers = callers.assign(depth=-callers["depth"], parent=pd.array(parent, dtype="Int64"))
    table = pd.concat([below, callers], ignore_index=True)
    table["node"] = np.arange(len(table))
    everything = int(tree.loc[tree["depth"] == 0, whole].sum())
    return table.assign(share=table["total"] / max(everything, 1))


def _callees(tree: pd.DataFrame, root: IntArray, up: IntArray, label: IntArray, own: str) -> pd.DataFrame:
    """Merge the rows at and below those that are their own `root`, by the path of labels from there."""
    rows = np.flatnonzero(root >= 0)
    depth = tree["depth"].to_numpy()
    depth = (depth - depth[root])[rows]
    above = np.where(depth > 0, np.searchsorted(rows, up[rows]), -1)
    node, parent, first = distinct_paths(label[rows], above, depth)
    value, count = (sums(node, tree[name].to_numpy()[rows], len(first)) for name in (own, "count"))
    table = tree[["name", "category"]].iloc[rows[first]].reset_index(drop=True)
    return table.assign(parent=parent, depth=depth[first], value=value, count=count)
