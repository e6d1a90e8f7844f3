"""Grouping of slices by columns, and the time that each group covers. Pure numpy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import checked_columns
from ..labels import merged_name
from ..trace import inherit
from ..trace.arrays import BoolArray, IntArray, optional
from ..trace.intervals import as_ints
from .scope import ints, texts

BY: Final = ("name", "shapes", "module", "phase", "category", "line", "step", "track", "device", "stream")
_TEXT: Final = frozenset({"name", "shapes", "module", "phase", "category", "line"})


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of every slice of a trace, and the keys of every group."""

    code: IntArray
    keys: pd.DataFrame

    def sum(self, rows: IntArray, weights: npt.NDArray[Any] | None = None) -> IntArray:
        """Return the sum of the weights of `rows` (by default their count) for each group."""
        return sums(self.code[rows], weights, len(self.keys))


def sums(code: IntArray, weights: npt.NDArray[Any] | None, size: int) -> IntArray:
    """Return the sum of whole-number weights (by default, the count) for each code below `size`."""
    # sums of whole nanoseconds stay exact in float64 below 2**53 (104 days)
    return np.bincount(code, weights, minlength=size).astype(np.int64)


def group(slices: pd.DataFrame, by: str | Sequence[str], *, merge_names: bool = False) -> Groups:
    """Number the groups of slices that agree in all columns of `by`; OptionError for an unknown column.

    `merge_names` merges names that differ only in a step number or an address; see `labels.merged_name`.
    """
    columns = checked_columns("slices cannot be grouped by", by, BY)
    code = np.zeros(len(slices), dtype=np.int64)
    parts: list[tuple[str, IntArray]] = []
    for column in columns:
        own = _codes(slices, column)
        if merge_names and column == "name":
            own = merged_names(map(str, slices[column].cat.categories))[own]
        values, own = np.unique(own, return_inverse=True) if column not in _TEXT else _present(own)
        joined, code = _present(code * max(len(values), 1) + own)
        parts = [(name, old[joined // max(len(values), 1)]) for name, old in parts]
        parts.append((column, values[joined % max(len(values), 1)]))
    keys = pd.DataFrame({name: _values(slices, name, codes) for name, codes in parts})
    if merge_names and "name" in keys:
        keys["name"] = keys["name"].map(merged_name, na_action="ignore").astype(keys["name"].dtype)
    return Groups(code, keys)


def merged_names(names: Iterable[str]) -> IntArray:
    """Return the code under which each name counts: that of the first name with the same merged name."""
    # The last entry is -1, for code -1 (no name).
    first: dict[str, int] = {}
    codes = [first.setdefault(merged_name(name), code) for code, name in enumerate(names)]
    return np.array([*codes, -1], np.int64)


def covered(code: IntArray, ts: IntArray, end: IntArray) -> IntArray:
    """Return how many ns each slice adds to the union of earlier ones with its code; `ts` must ascend."""
    return np.asarray(np.maximum(end - np.maximum(ts, reach_before(code, end)), 0), dtype=np.int64)


def covered_by_code(code: IntArray, ts: IntArray, end: IntArray, size: int) -> IntArray:
    """Return how many ns at least one slice of each code below `size` is open; `ts` must ascend."""
    return sums(code, covered(code, ts, end), size)


def reach_before(code: IntArray, end: IntArray) -> IntArray:
    """Return the latest end among earlier slices with the same code; the least int64 for the first."""
    lowest = np.iinfo(np.int64).min
    best = pd.Series(end).groupby(code, sort=False).cummax()
    return as_ints(best.groupby(code, sort=False).shift(1, fill_value=lowest).to_numpy())


def nested_in_own_group(code: IntArray, parent: IntArray, rows: IntArray) -> npt.NDArray[np.bool_]:
    """Return which slices have an ancestor in their group; valid only for `rows` and their ancestors."""
    # Ancestors are found by the ``parent`` column alone. Where slices overlap in part, an outer one may end
    # before an inner one begins, so ends cannot rule out an ancestor.
    is_nested = np.zeros(len(code), dtype=bool)
    rows = with_ancestors(parent, rows)
    up = parent[rows]
    while len(rows):
        inside = up >= 0
        rows, up = rows[inside], up[inside]
        same = code[up] == code[rows]
        is_nested[rows[same]] = True
        rows, up = rows[~same], parent[up[~same]]
    return is_nested


def inclusive(
    groups: Groups, parent: IntArray, rows: IntArray, weights: npt.NDArray[np.float64]
) -> tuple[IntArray, IntArray]:
    """Return two sums of whole-number weights by group: over rows (-1: none) in or inside the group, each
    counted once, and over the group's own rows.
    """
    total = np.zeros(len(groups.keys), dtype=np.int64)
    row, weight = _merge(rows, weights)
    own = groups.sum(row, weight)
    recursive = nested_in_own_group(groups.code, parent, row)
    while len(row):
        outermost = ~recursive[row]
        total += groups.sum(row[outermost], weight[outermost])
        row, weight = _merge(parent[row], weight)
    return total, own


def _merge(rows: IntArray, weights: npt.NDArray[np.float64]) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return each distinct row with the sum of its weights; drop missing rows."""
    present = rows >= 0
    row, inverse = _present(rows[present])
    return row, np.bincount(inverse, weights[present], minlength=len(row)).astype(np.float64)


def outermost(parent: IntArray, chosen: BoolArray) -> IntArray:
    """Return the outermost of the `chosen` slices at or around each slice; -1 if there is none."""
    rows = np.arange(len(parent))
    nearest = inherit(parent, np.where(chosen, rows, -1))
    top = chosen & (np.append(nearest, -1)[parent] < 0)
    return inherit(parent, np.where(top, rows, -1))


def with_ancestors(parent: IntArray, rows: IntArray) -> IntArray:
    """Return these rows and all their ancestors, each once, ascending."""
    reached = np.zeros(len(parent) + 1, dtype=bool)
    reached[-1] = True  # the entry that a missing parent (-1) reads
    position = np.empty(len(parent), dtype=np.int32)
    while len(rows):
        reached[rows] = True
        up = parent[rows]
        up = up[~reached[up]]
        position[up] = np.arange(len(up), dtype=np.int32)
        rows = up[position[up] == np.arange(len(up))]  # keep each only once: at its last position
    return np.flatnonzero(reached[:-1])


def _codes(slices: pd.DataFrame, column: str) -> IntArray:
    if column in _TEXT:
        return as_ints(slices[column].cat.codes.to_numpy())
    return ints(slices[column])


def _present(codes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the same as `np.unique` with ``return_inverse``, but without sorting if the codes are dense."""
    top = int(codes.max(initial=-1)) + 2
    if top > 4 * len(codes) + 1024:
        values, inverse = np.unique(codes, return_inverse=True)
        return values, inverse.astype(np.int64)
    used = np.zeros(top, dtype=bool)
    used[codes + 1] = True
    values = np.flatnonzero(used) - 1
    return values, (np.cumsum(used) - 1)[codes + 1]


def _values(slices: pd.DataFrame, column: str, codes: IntArray) -> Any:
    if column in _TEXT:
        return texts(slices[column], codes)
    return optional(codes)
