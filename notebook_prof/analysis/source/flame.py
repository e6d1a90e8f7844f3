"""Stacks and what they took, as nodes of a tree: for flame graphs and icicles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import OptionError, nearest
from ...labels import merged_name
from ...trace import Trace
from ...trace.arrays import IntArray
from ...trace.intervals import as_ints
from ...trace.taxonomy import STEP_PREFIX
from ..device.launches import launching_rows
from ..scope import Numbers, Scope, Texts, WindowLike, ints, on_device, on_host, texts

MERGED_STEPS: Final = merged_name(STEP_PREFIX)
"""Name of the node of all steps, as PyTorch's ``key_averages`` calls it."""


@dataclass(frozen=True, slots=True)
class StackNodes:
    """The nodes, and the one of each slice.

    Attributes
    ----------
    of_slice : ndarray of int64, shape (slices + 1,)
        -1 for slices that were left out; the last place is -1 too.
    table : DataFrame
        ``parent`` int64 (row here, -1 for roots), ``depth`` int64, ``name`` str, ``category``; parents first.
    """

    of_slice: IntArray
    table: pd.DataFrame


def stack_nodes(trace: Trace, scope: Scope, by_thread: bool) -> StackNodes:
    """Number the stacks: slices are one node if they and all around them agree in name and category.

    Slices outside `scope` are skipped in the stacks, and the marks of steps are one node. A loop over levels
    of nesting, not over rows.
    """
    slices = trace.slices
    count = len(slices)
    parent = _kept_parent(_enclosing(slices), scope.rows, count)
    name = _merged_steps(slices["name"])
    kind = slices["category"].cat.codes.to_numpy().astype(np.int64)
    label = name * (len(slices["category"].cat.categories) + 1) + kind
    of_slice = np.full(count + 1, -1, dtype=np.int64)
    columns: dict[str, list[Any]] = {"parent": [], "depth": [], "first": []}
    made, roots = 0, np.full(len(scope.rows), -1, dtype=np.int64)
    tracks = scope.ints("track")
    if by_thread and len(scope.rows):
        threads, roots = np.unique(tracks, return_inverse=True)
        columns["parent"].append(np.full(len(threads), -1))
        columns["depth"].append(np.zeros(len(threads), dtype=np.int64))
        columns["first"].append(-1 - threads)
        made = len(threads)
    above = parent[scope.rows]
    todo = np.arange(len(scope.rows))
    level = int(by_thread)
    while len(todo):
        up = above[todo]
        ready = (up < 0) | (of_slice[up] >= 0)
        now, todo = todo[ready], todo[~ready]
        rows = scope.rows[now]
        caller = np.where(above[now] < 0, roots[now], of_slice[above[now]])
        key, first = _numbered(caller * (int(label.max()) + 1) + label[rows])
        of_slice[rows] = made + key
        columns["parent"].append(caller[first])
        columns["depth"].append(np.full(len(first), level))
        columns["first"].append(rows[first])
        made, level = made + len(first), level + 1
    joined = {
        what: np.concatenate(parts) if parts else np.empty(0, np.int64) for what, parts in columns.items()
    }
    return StackNodes(of_slice, _table(trace, joined))


def _merged_steps(column: pd.Series[Any]) -> IntArray:
    """Give the marks of all steps the code of the first of them."""
    words = column.cat.categories
    marks = np.array([str(word).startswith(STEP_PREFIX) for word in words], dtype=bool)
    code = np.append(np.arange(len(marks)), -1)
    if marks.any():
        code[:-1][marks] = int(np.flatnonzero(marks)[0])
    return as_ints(code[column.cat.codes.to_numpy()])


def _enclosing(slices: pd.DataFrame) -> IntArray:
    """Return what each slice is inside of: the nearest around it that it does not outlast by half of itself.

    A step that begins inside the call which marks it lasts long after that call: it is not in its stack, and
    neither is the next step, which would hang below it.
    """
    parent = ints(slices["parent"])
    ts, dur = slices["ts"].to_numpy(), slices["dur"].to_numpy()
    end = ts + dur
    todo = np.flatnonzero(parent >= 0)
    while len(todo):
        todo = todo[2 * (end[todo] - end[parent[todo]]) > dur[todo]]
        parent[todo] = parent[parent[todo]]
        todo = todo[parent[todo] >= 0]
    return parent


def _kept_parent(parent: IntArray, rows: IntArray, count: int) -> IntArray:
    """Return the nearest kept ancestor of each kept slice."""
    kept = np.zeros(count + 1, dtype=bool)
    kept[rows] = True
    kept[-1] = True  # "no parent" ends the search
    up = parent.copy()
    todo = rows[~kept[up[rows]]]
    while len(todo):
        up[todo] = parent[up[todo]]
        todo = todo[~kept[up[todo]]]
    return up


def _numbered(key: IntArray) -> tuple[IntArray, IntArray]:
    code, values = pd.factorize(key)
    first = np.full(len(values), len(key), dtype=np.int64)
    np.minimum.at(first, code, np.arange(len(key)))
    return code, first


def _table(trace: Trace, columns: dict[str, IntArray]) -> pd.DataFrame:
    slices, tracks = trace.slices, trace.tracks
    first = columns["first"]
    thread = first < 0
    name = texts(
        slices["name"], np.append(slices["name"].cat.codes.to_numpy(), -1)[np.where(thread, -1, first)]
    )
    step = np.array([str(word).startswith(STEP_PREFIX) for word in name], dtype=bool)
    name = name.mask(step, MERGED_STEPS)
    if thread.any():
        called = tracks.set_index("track")["name"].reindex(-1 - first[thread])
        numbers = (-1 - first[thread]).astype(str)
        words = called.to_numpy(dtype=object)
        name = name.mask(thread, pd.Series(_spread(thread, words, numbers), dtype="str"))
    code = np.append(slices["category"].cat.codes.to_numpy(), -1)[np.where(thread, -1, first)]
    make: Any = pd.Categorical.from_codes
    return pd.DataFrame(
        {
            "parent": columns["parent"],
            "depth": columns["depth"],
            "name": name,
            "category": make(code, categories=slices["category"].cat.categories),
        }
    )


def _spread(where: Any, words: Any, numbers: Any) -> Any:
    out = np.full(len(where), None, dtype=object)
    out[where] = [word or f"thread {number}" for word, number in zip(words, numbers, strict=True)]
    return out


METRICS: Final = ("self_ns", "device_ns", "count")


def flame(
    trace: Trace,
    *,
    window: WindowLike = None,
    metric: str = "self_ns",
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    track: int | Iterable[int] | None = None,
    by_thread: bool = True,
) -> pd.DataFrame:
    """Merge equal stacks of slices into a tree, and add up what each node took.

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
    phase, category : str or iterable of str, optional
        Keep what belongs to these: ``category="python"`` leaves only Python frames.
    track : int or iterable of int, optional
        Keep these threads.
    by_thread : bool
        Whether each thread is a root of its own; else equal stacks of all threads are one.

    Returns
    -------
    DataFrame
        Level by level, each level as it is drawn from left to right; no rows for a trace without host slices.

        - ``node`` int64: row number; ``parent`` Int64: row of the caller, missing for roots; ``depth`` int64;
        - ``name`` str; ``category`` category: of the slices, missing for threads;
        - ``value`` int64: of the node itself; ``total`` int64: with everything below it;
        - ``start`` int64: where the node begins when it is drawn as wide as its total: inside its parent,
          after larger siblings. Units of `value`, `total` and `start` are ns, or slices;
        - ``count`` int64: slices that are the node;
        - ``share`` float64: `total` of all.

    Raises
    ------
    OptionError
        If there is no such metric.
    SelectionError
        If a phase or category does not exist.

    Notes
    -----
    A slice that is left out is not in the stacks either: what ran inside it hangs from the nearest slice
    around it that is kept. Threads on which nothing is kept do not appear. A slice that
    outlasts the one around it by more than half of itself is not in its stack: a step goes on after the call
    that began it. The marks of all steps (``ProfilerStep#4``) are one node, ``ProfilerStep*``.

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
    """
    if metric not in METRICS:
        raise OptionError(f"stacks cannot be weighted by {metric!r}: {nearest(metric, METRICS)}")
    host = on_host(trace, window).where(step=step, phase=phase, category=category)
    if track is not None:
        numbers = [track] if isinstance(track, int | np.integer) else list(track)
        host = host.only(np.isin(host.ints("track"), numbers))
    nodes = stack_nodes(trace, host, by_thread)
    table = nodes.table
    table["count"] = _sum(nodes, nodes.of_slice[host.rows], None)
    if metric == "count":
        table["value"] = table["count"]
    elif metric == "self_ns":
        table["value"] = _sum(nodes, nodes.of_slice[host.rows], host.self_ns)
    else:
        table["value"] = _device(trace, nodes, on_device(trace, window))
    return _laid_out(table)


def _sum(nodes: StackNodes, node: IntArray, weights: npt.NDArray[Any] | None) -> IntArray:
    return np.bincount(node, weights, minlength=len(nodes.table)).astype(np.int64)


def _device(trace: Trace, nodes: StackNodes, device: Scope) -> IntArray:
    """Return durations of device work, by the node that launched it or the nearest kept one around it."""
    parent, row = ints(trace.slices["parent"]), launching_rows(trace)[device.rows]
    spent = device.end - device.ts
    todo = np.flatnonzero((row >= 0) & (nodes.of_slice[row] < 0))
    while len(todo):
        row[todo] = parent[row[todo]]
        todo = todo[row[todo] >= 0]
        todo = todo[nodes.of_slice[row[todo]] < 0]
    kept = row >= 0
    return _sum(nodes, nodes.of_slice[row[kept]], spent[kept])


def _laid_out(table: pd.DataFrame) -> pd.DataFrame:
    """Lay nodes out: totals from the leaves up, places from the roots down; a loop over levels."""
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
        rows = rows[np.lexsort((-total[rows], left))]
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
