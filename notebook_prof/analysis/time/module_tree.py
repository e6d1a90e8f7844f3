"""Which module calls which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Trace, inherit
from ...trace.intervals import IntArray, as_ints
from ..scope import ints


@dataclass(frozen=True, slots=True)
class ModuleTree:
    """Modules in tree order: each before its children, in the order in which they first ran.

    Attributes
    ----------
    size : int
        Modules. What has none is at place `size`.
    names : ndarray of str, shape (size,)
    parent, depth : ndarray of int64, shape (size,)
        Place of the module that calls it, -1 for roots.
    place_of_code : ndarray of int64
        Place of each category of ``slices.module``; the last entry is for code -1.
    """

    size: int
    names: npt.NDArray[np.object_]
    parent: IntArray
    depth: IntArray
    place_of_code: IntArray

    def place(self, codes: npt.NDArray[Any]) -> IntArray:
        """Places of codes of ``slices.module``."""
        return as_ints(self.place_of_code[codes])

    def with_children(self, own: IntArray) -> IntArray:
        """Add to each module what its children, and theirs, have; shape (size + 1,) both."""
        total = own.copy()
        for place in range(self.size - 1, -1, -1):  # children come after their parents
            if self.parent[place] >= 0:
                total[self.parent[place]] += total[place]
        return total

    def frame(self) -> pd.DataFrame:
        """``module parent depth``, with a last row for what has no module; no rows without modules."""
        if not self.size:
            return pd.DataFrame({"module": [], "parent": [], "depth": []}).astype({"depth": "int64"})
        names = np.array([*self.names, None], dtype=object)
        above = np.append(np.where(self.parent < 0, self.size, self.parent), self.size)
        return pd.DataFrame(
            {
                "module": pd.Series(names, dtype="str"),
                "parent": pd.Series(names[above], dtype="str"),
                "depth": np.append(self.depth, 0),
            }
        )


def module_tree(trace: Trace) -> ModuleTree:
    """Find the tree from the first call of each module: its parent is the module that is being called then.

    A module that has no call of its own (one that only a device slice names, say) is a root.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> row = dict(track=b.track("main"), category="module", name="x")
    >>> _ = b.slices(ts=[0, 1, 5, 20], dur=[15, 3, 6, 2], module=["Net", "fc", "conv", "fc"], **row)
    >>> module_tree(b.seal()).frame()[["module", "depth"]].values.tolist()[:3]
    [['Net', 0], ['fc', 1], ['conv', 1]]
    """
    slices = trace.slices
    code = slices["module"].cat.codes.to_numpy().astype(np.int64)
    words = np.array(slices["module"].cat.categories, dtype=object)
    called = (slices["category"] == "module").to_numpy() & (code >= 0)
    around = _around(ints(slices["parent"]), code, called)
    first = _firsts(code, called, len(words))
    parent = np.where(first < len(code), np.append(around, -1)[np.minimum(first, len(code))], -1)
    used = np.zeros(len(words) + 1, dtype=bool)
    used[code] = True
    return _ordered(words, first, parent, used[:-1])


def _around(parent: IntArray, code: IntArray, called: npt.NDArray[np.bool_]) -> IntArray:
    """Code of another module that is being called around each module call; -1 without one."""
    nearest = inherit(parent, np.where(called, code, -1))
    up = parent.copy()
    found = np.full(len(code), -1, dtype=np.int64)
    todo = np.flatnonzero(called & (up >= 0))
    while len(todo):
        found[todo] = nearest[up[todo]]
        same = found[todo] == code[todo]  # a call inside a call of the same module
        up[todo[same]] = parent[up[todo[same]]]
        found[todo[same]] = -1
        todo = todo[same]
        todo = todo[up[todo] >= 0]
    return found


def _firsts(code: IntArray, called: npt.NDArray[np.bool_], count: int) -> IntArray:
    """Row of the first call of each module; the number of slices where it has none."""
    rows = np.flatnonzero(called)
    first = np.full(count, len(code), dtype=np.int64)
    np.minimum.at(first, code[rows], rows)
    return first


def _ordered(
    words: npt.NDArray[np.object_], first: IntArray, parent: IntArray, used: npt.NDArray[np.bool_]
) -> ModuleTree:
    # a module's parent begins before it, so that following parents ends
    parent = np.where((parent >= 0) & (first[parent] < first), parent, -1)
    children: dict[int, list[int]] = {}
    for code in np.argsort(first, kind="stable")[::-1].tolist():
        if used[code]:
            children.setdefault(int(parent[code]), []).append(code)
    order: list[int] = []
    depth: list[int] = []
    stack = [(code, 0) for code in children.get(-1, [])]
    while stack:
        code, level = stack.pop()
        order.append(code)
        depth.append(level)
        stack += [(child, level + 1) for child in children.get(code, [])]
    codes = np.array(order, dtype=np.int64)
    place = np.full(len(words) + 1, len(order), dtype=np.int64)
    place[codes] = np.arange(len(order))
    up = parent[codes]
    return ModuleTree(
        len(order), words[codes], np.where(up < 0, -1, place[up]), np.array(depth, dtype=np.int64), place
    )
