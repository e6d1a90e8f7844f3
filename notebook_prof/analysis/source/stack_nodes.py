"""Equal stacks of slices as nodes of a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.intervals import IntArray, as_ints
from ...trace.taxonomy import STEP_PREFIX
from ..scope import Scope, ints, texts

MERGED_STEPS: Final = STEP_PREFIX.replace("#", "*")
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
    parent = _kept_parent(_inside(slices), scope.rows, count)
    name = _merged_steps(slices["name"])
    kind = slices["category"].cat.codes.to_numpy().astype(np.int64)
    label = name * (len(slices["category"].cat.categories) + 1) + kind
    of_slice = np.full(count + 1, -1, dtype=np.int64)
    found: dict[str, list[Any]] = {"parent": [], "depth": [], "first": []}
    made, roots = 0, np.full(len(scope.rows), -1, dtype=np.int64)
    tracks = scope.ints("track")
    if by_thread and len(scope.rows):
        threads, roots = np.unique(tracks, return_inverse=True)
        found["parent"].append(np.full(len(threads), -1))
        found["depth"].append(np.zeros(len(threads), dtype=np.int64))
        found["first"].append(-1 - threads)
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
        found["parent"].append(caller[first])
        found["depth"].append(np.full(len(first), level))
        found["first"].append(rows[first])
        made, level = made + len(first), level + 1
    joined = {
        what: np.concatenate(parts) if parts else np.empty(0, np.int64) for what, parts in found.items()
    }
    return StackNodes(of_slice, _table(trace, joined))


def _merged_steps(column: pd.Series[Any]) -> IntArray:
    """Codes of names, the marks of all steps with the code of the first of them."""
    words = column.cat.categories
    marks = np.array([str(word).startswith(STEP_PREFIX) for word in words], dtype=bool)
    code = np.append(np.arange(len(marks)), -1)
    if marks.any():
        code[:-1][marks] = int(np.flatnonzero(marks)[0])
    return as_ints(code[column.cat.codes.to_numpy()])


def _inside(slices: pd.DataFrame) -> IntArray:
    """What each slice is inside of: the nearest one around it that it does not outlast by half of itself.

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
    """Nearest kept ancestor of each kept slice."""
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


def _table(trace: Trace, found: dict[str, IntArray]) -> pd.DataFrame:
    slices, tracks = trace.slices, trace.tracks
    first = found["first"]
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
            "parent": found["parent"],
            "depth": found["depth"],
            "name": name,
            "category": make(code, categories=slices["category"].cat.categories),
        }
    )


def _spread(where: Any, words: Any, numbers: Any) -> Any:
    out = np.full(len(where), None, dtype=object)
    out[where] = [word or f"thread {number}" for word, number in zip(words, numbers, strict=True)]
    return out
