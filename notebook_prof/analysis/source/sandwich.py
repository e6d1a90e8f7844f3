"""The sandwich of a name: its callers above, its callees below."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray, number_rows
from ..scope import Numbers, Texts, WindowLike, many
from .call_tree import call_tree
from .flame import laid_out

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
    only_my_code: bool = False,
) -> pd.DataFrame:
    """List the callers and callees of a name, laid out around it.

    Parameters
    ----------
    trace : Trace
    name : str or iterable of str
        One or more names; several are treated as one.
    metric : {"self_ns", "device_ns"}
        What widths show: time on the host, or duration of the device work launched.
    window, step, phase, category, track, line, only_my_code
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
        only_my_code=only_my_code,
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
    """Return a mask of the rows below a `named` row; loops over levels."""
    inside = np.zeros(len(named), dtype=bool)
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero(depth == level)
        inside[rows] = inside[up[rows]] | named[up[rows]]
    return inside


def _callees(tree: pd.DataFrame, top: IntArray, up: IntArray, label: IntArray, own: str) -> pd.DataFrame:
    """Merge the rows below some rows, which become the root."""
    of = np.full(len(tree) + 1, -1, dtype=np.int64)
    of[top] = 0
    parts = {"of": [np.zeros(len(top), np.int64)], "row": [top]}
    parents, first, made = [np.full(min(len(top), 1), -1)], [top[:1]], min(len(top), 1)
    depths = [np.zeros(made, np.int64)]
    depth = tree["depth"].to_numpy()
    todo = np.arange(len(tree))
    level = 0
    while len(todo):
        # rows precede those below them, so each round goes one level down
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
    """Merge the rows above some rows, weighted by the time of those rows, which become the root."""
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
