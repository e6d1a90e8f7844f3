"""Rows of other programs' tables: columns that may be absent, groups, and strings by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace.arrays import BoolArray, FloatArray, IntArray
from ...trace.strings import Coded
from .columns import MISSING, Column, Kind, TableSource, Texts


class Rows:
    """Columns of a table, in which all values of an absent column are missing."""

    def __init__(self, columns: Mapping[str, Column], count: int) -> None:
        self._columns, self._count = columns, count

    def __len__(self) -> int:
        return self._count

    def has(self, name: str) -> bool:
        """Return whether any row has a number in this column."""
        column = self._columns.get(name)
        return isinstance(column, np.ndarray) and bool((column != MISSING).any())

    def ints(self, name: str, missing: int = -1) -> IntArray:
        """Return whole numbers, with `missing` for missing ones."""
        column = self._columns.get(name)
        if not isinstance(column, np.ndarray):
            return np.full(self._count, missing, np.int64)
        return np.where(column == MISSING, missing, column).astype(np.int64, copy=False)

    def floats(self, name: str) -> FloatArray:
        """Return numbers, with NaN for missing ones."""
        column = self._columns.get(name)
        return column.astype(np.float64) if isinstance(column, np.ndarray) else np.full(self._count, np.nan)

    def texts(self, name: str) -> Texts | None:
        """Return texts; None if the table has no such column."""
        column = self._columns.get(name)
        return column if isinstance(column, Texts) else None

    def where(self, keep: BoolArray) -> Rows:
        """Return the rows marked in `keep`."""
        if keep.all():
            return self
        chosen = {
            name: column.where(keep) if isinstance(column, Texts) else column[keep]
            for name, column in self._columns.items()
        }
        return Rows(chosen, int(keep.sum()))


def read_rows(source: TableSource, table: str, kinds: Mapping[str, Kind]) -> Rows:
    """Return columns of a table; no rows if the table does not exist."""
    columns = source.read(table, kinds)
    first: Column = next(iter(columns.values()), np.empty(0, np.int64))
    return Rows(columns, len(first))


class Strings:
    """A table of strings to which other tables refer by number."""

    def __init__(self, number: IntArray, texts: Texts | None) -> None:
        self._order = np.argsort(number, kind="stable")
        self._number, self._texts = number[self._order], texts

    def names(self, numbers: IntArray) -> Coded:
        """Return the strings with these numbers; code -1 for unknown numbers."""
        if self._texts is None or not len(self._number):
            return Coded(np.full(len(numbers), -1, np.int64), [])
        code, used = pd.factorize(numbers)
        at = np.minimum(np.searchsorted(self._number, used), len(self._number) - 1)
        exists = self._number[at] == used
        values = self._texts.array.take(self._order[at]).to_pylist()
        codes = np.where(exists, np.arange(len(used)), -1)
        return Coded(codes[code], [value or "" for value in values])


def groups(*columns: npt.NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Return the number of each row's group of equal values, and the first row of each group.

    >>> codes, first = groups(np.array([5, 5, 6]), np.array([1, 2, 2]))
    >>> codes.tolist(), first.tolist()
    ([0, 1, 2], [0, 1, 2])
    """
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if not len(column) or (column == column[0]).all():
            continue
        own, values = pd.factorize(column)
        code = pd.factorize(code * max(len(values), 1) + own)[0].astype(np.int64)
    first = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    return code, first


def texts_in(column: Texts | None) -> list[str]:
    """Return a short column of texts as a list, with "" for missing texts; no texts without a column."""
    return [] if column is None else [value or "" for value in column.array.to_pylist()]


def texts(column: Coded) -> list[str]:
    """Return a short column of texts as a list, with "" for missing texts."""
    values = [*column.values, ""]
    return [values[code] for code in column.codes.tolist()]


def marked(names: Coded, test: Any) -> BoolArray:
    """Return a mask of the rows with a name that passes a test. Each distinct name is tested once."""
    passed = np.array([*(bool(test(name)) for name in names.values), False])
    return np.asarray(passed[names.codes])
