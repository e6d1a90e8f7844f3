"""Stacks as nodes of a tree, in which equal stacks are one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...labels import STEP_MARKS, merged_name
from ...trace import Trace, inherit
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import as_ints
from ...trace.source_lines import is_line
from ..device.kernel_launches import launching_rows
from ..grouping import merged_names
from ..scope import Scope, ints, texts
from .lines import NOT_IN_LINES

MERGED_STEPS: Final = tuple(merged_name(mark) for mark in STEP_MARKS)
"""Names of the nodes that merge the marks of all steps, as in PyTorch's ``key_averages``."""


@dataclass(frozen=True, slots=True)
class StackNodes:
    """The nodes, and the node of each slice."""

    # -1 for slices left out; folded slices have the node of their nearest shown caller. The last entry is -1.
    of_slice: IntArray
    # Shown slices: in the scope and not folded.
    rows: IntArray
    # ``parent`` int64 (row here, -1 for roots), ``depth`` int64, ``name`` str, ``category``; parents first.
    table: pd.DataFrame


def stack_nodes(
    trace: Trace,
    scope: Scope,
    by_thread: bool,
    shown: BoolArray | None = None,
    *,
    in_time: bool = False,
    by_line: bool = False,
) -> StackNodes:
    """Number the stacks: slices share a node if they and their ancestors agree in name and category."""
    # With `in_time`, slices with the same caller share a node only if no other name began between them, and
    # the nodes of a caller are numbered by start. With `by_line`, the roots are lines of the user's source
    # (line slices are these roots), and the work of a line is below it, whatever called it. Slices outside
    # `scope` are skipped, and the marks of steps share a node. Of slices that are not `shown`, only the
    # outermost of a stack are nodes; the others are folded into the slice around them. The loop is over
    # levels of nesting, not over rows.
    slices = trace.slices
    count = len(slices)
    enclosing = _enclosing(slices)
    line = as_ints(slices["line"].cat.codes.to_numpy()) if by_line else None
    if line is not None:
        enclosing[line != np.append(line, -1)[enclosing]] = -1
    nearest = _nearest(enclosing, scope.rows)
    around = np.append(nearest, -1)[enclosing]
    whole = scope
    if shown is not None:
        scope = scope.only(shown[scope.rows] | (around[scope.rows] < 0))
        nearest = _nearest(enclosing, scope.rows)
        around = np.append(nearest, -1)[enclosing]
    names, kinds = slices["name"].cat, slices["category"].cat
    number = np.append(np.arange(len(names.categories)), -1)
    if not in_time:
        number = merged_names(map(str, names.categories))
    label = (number * (len(kinds.categories) + 1))[names.codes.to_numpy()]
    label += kinds.codes.to_numpy()
    of_slice = np.full(count + 1, -1, dtype=np.int64)
    # parents, depths and first rows of nodes, level by level
    parts = [(np.empty(0, np.int64),) * 3]
    made, roots, root_names = 0, np.full(len(scope.rows), -1, dtype=np.int64), list[str]()
    todo = np.arange(len(scope.rows))
    if (by_thread or line is not None) and len(scope.rows):
        key = scope.ints("track") if line is None else line[scope.rows]
        kept, roots = np.unique(key, return_inverse=True)
        root_names = _thread_names(trace, kept) if line is None else _line_names(trace, kept)
        made = len(kept)
        parts.append((np.full(made, -1), np.zeros(made, np.int64), -1 - np.arange(made)))
    if line is not None:
        stands = is_line(slices)[scope.rows]
        of_slice[scope.rows[stands]] = roots[stands]
        todo = todo[~stands]
    above = around[scope.rows]
    level = int(made > 0)
    while len(todo):
        up = above[todo]
        ready = (up < 0) | (of_slice[up] >= 0)
        now, todo = todo[ready], todo[~ready]
        rows = scope.rows[now]
        caller = np.where(above[now] < 0, roots[now], of_slice[above[now]])
        if in_time:
            key, first = _runs(caller, label[rows])
        else:
            key, values = pd.factorize(caller * (int(label.max()) + 1) + label[rows])
            first = np.empty(len(values), np.int64)
            first[key[::-1]] = np.arange(len(key))[::-1]
        of_slice[rows] = made + key
        parts.append((caller[first], np.full(len(first), level), rows[first]))
        made, level = made + len(first), level + 1
    parent, depth, first = (np.concatenate(column) for column in zip(*parts, strict=True))
    table = _table(trace, parent, depth, first, root_names, merged=not in_time)
    if shown is not None:
        is_folded = np.zeros(count, dtype=bool)
        is_folded[whole.rows] = True
        is_folded[scope.rows] = False
        folded = np.flatnonzero(is_folded)
        of_slice[folded] = of_slice[nearest[folded]]
    return StackNodes(of_slice, scope.rows, table)


def working_threads(trace: Trace) -> list[int] | None:
    """Return the threads that run operators, since others mostly wait; None stands for all threads."""
    tracks, slices = trace.tracks, trace.slices
    threads = tracks.loc[tracks["kind"] == "thread", "track"].tolist()
    work = slices["category"].isin(["operator", "launch", "collective"]).to_numpy()
    busy = set(np.unique(slices["track"].to_numpy()[work]).tolist()) & set(threads)
    return sorted(busy) if 0 < len(busy) < len(threads) else None


def _enclosing(slices: pd.DataFrame) -> IntArray:
    """Return the nearest slice around each slice, except those that it outlasts by half of its length."""
    # A step that begins inside the call that marks it lasts long after that call, so it is not in the call's
    # stack. Neither is the next step, which would be below the first one.
    parent = ints(slices["parent"])
    ts, dur = slices["ts"].to_numpy(), slices["dur"].to_numpy()
    end = ts + dur
    todo = np.flatnonzero(parent >= 0)
    while len(todo):
        todo = todo[2 * (end[todo] - end[parent[todo]]) > dur[todo]]
        parent[todo] = parent[parent[todo]]
        todo = todo[parent[todo] >= 0]
    return parent


def _nearest(parent: IntArray, rows: IntArray) -> IntArray:
    """Return, for each slice, itself or the nearest slice around it that is one of `rows`; else -1."""
    if len(rows) == len(parent):
        return rows
    own = np.full(len(parent), -1)
    own[rows] = rows
    return inherit(parent, own)


def _runs(caller: IntArray, label: IntArray) -> tuple[IntArray, IntArray]:
    """Number runs of equal labels under each caller, in row order; return them and each run's first row."""
    order = np.argsort(caller, kind="stable")
    change = np.append(True, (np.diff(caller[order]) != 0) | (np.diff(label[order]) != 0))[: len(order)]
    code = np.empty(len(order), dtype=np.int64)
    code[order] = np.cumsum(change) - 1
    return code, order[change]


def _thread_names(trace: Trace, tracks: IntArray) -> list[str]:
    called = trace.tracks.set_index("track")["name"].to_dict()
    return [str(called.get(track) or f"thread {track}") for track in tracks.tolist()]


def _line_names(trace: Trace, codes: IntArray) -> list[str]:
    """Return the names of these lines' slices, like ``cell:3  x = f(y)``."""
    slices = trace.slices
    rows = np.flatnonzero(is_line(slices))
    of_line = pd.Series(slices["name"].iloc[rows].astype("str").to_numpy(dtype=object))
    names = of_line.groupby(slices["line"].cat.codes.to_numpy()[rows]).first()
    return [str(name) for name in names.reindex(codes).fillna(NOT_IN_LINES)]


def _table(
    trace: Trace, parent: IntArray, depth: IntArray, first: IntArray, root_names: list[str], *, merged: bool
) -> pd.DataFrame:
    slices = trace.slices
    root = first < 0
    row = np.where(root, -1, first)
    name = texts(slices["name"], np.append(slices["name"].cat.codes.to_numpy(), -1)[row])
    if merged:
        name = name.map(merged_name, na_action="ignore").astype(name.dtype)
    if root.any():
        words = np.full(len(first), None, dtype=object)
        words[root] = np.array(root_names, dtype=object)[-1 - first[root]]
        name = name.mask(root, pd.Series(words, dtype="str"))
    category = slices["category"].array.take(row, allow_fill=True)
    return pd.DataFrame({"parent": parent, "depth": depth, "name": name, "category": category})


def node_sums(nodes: StackNodes, node: IntArray, weights: npt.NDArray[Any] | None = None) -> IntArray:
    """Sum the weights (by default, the number) of slices by node."""
    return np.bincount(node, weights, minlength=len(nodes.table)).astype(np.int64)


def with_children(parent: IntArray, depth: IntArray, own: IntArray) -> IntArray:
    """Return the sum of values over each node and all nodes below it."""
    total = own.copy()
    for level in range(int(depth.max(initial=0)), 0, -1):
        rows = np.flatnonzero(depth == level)
        np.add.at(total, parent[rows], total[rows])
    return total


def placed(
    parent: IntArray, depth: IntArray, length: IntArray, keys: Sequence[IntArray], gap: int = 0
) -> tuple[IntArray, IntArray]:
    """Return where each node starts, and all nodes level by level, from left to right."""
    # siblings follow one another by `keys`; the first begins `gap` after its parent
    start, order = np.zeros(len(parent), np.int64), [np.empty(0, np.int64)]
    rank = np.zeros(len(parent), np.int64)  # of each node within its level
    for level in range(int(depth.max(initial=-1)) + 1):
        rows = np.flatnonzero(depth == level)
        left = rank[parent[rows]] if level else np.zeros(len(rows), np.int64)
        by = np.lexsort((*(key[rows] for key in keys[::-1]), left))
        rows, left = rows[by], left[by]
        before = np.cumsum(length[rows]) - length[rows]
        first = np.flatnonzero(np.diff(left, prepend=-1))  # the first of each parent
        base = np.repeat(before[first], np.diff(np.append(first, len(rows))))
        start[rows] = (start[parent[rows]] + gap if level else 0) + before - base
        rank[rows] = np.arange(len(rows))
        order.append(rows)
    return start, np.concatenate(order)


def device_sums(trace: Trace, nodes: StackNodes, device: Scope) -> IntArray:
    """Sum durations of device work by the node that launched it, or the nearest kept node around that."""
    if not len(device.rows):
        return np.zeros(len(nodes.table), np.int64)
    node = inherit(ints(trace.slices["parent"]), nodes.of_slice[:-1])
    node = np.append(node, -1)[launching_rows(trace)[device.rows]]
    return node_sums(nodes, node[node >= 0], (device.end - device.ts)[node >= 0])
