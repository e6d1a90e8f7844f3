"""Columns and rows of other programs' tables, from any container: numbers as arrays, texts as codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace.arrays import BoolArray, FloatArray, IntArray, consecutive
from ...trace.strings import Coded
from .numbers import packed

# Numbers for distinct values, as columns of codes.


class ValueInterner(dict[Any, int]):
    """Numbers every distinct value, in order of appearance."""

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code

    def column(self, values: Iterable[Any]) -> npt.NDArray[np.int32]:
        """Return the codes of many values."""
        return packed(tuple(map(self.__getitem__, values)), np.int32)


Kind: TypeAlias = Literal["ints", "floats", "texts"]
INTS: Final = "ints"
FLOATS: Final = "floats"
TEXTS: Final = "texts"
MISSING: Final = int(np.iinfo(np.int64).min)
"""Marks a missing integer."""
_AT_ONCE: Final = 1 << 15


class Texts:
    """A column of texts in Arrow's memory."""

    def __init__(self, array: Any) -> None:
        self.array = array  # pyarrow large_string, null where missing

    def __len__(self) -> int:
        return len(self.array)

    @property
    def present(self) -> BoolArray:
        """Mask of the texts that are not missing."""
        return np.asarray(self.array.is_valid())

    def where(self, keep: BoolArray) -> Texts:
        import pyarrow as pa

        return Texts(self.array.filter(pa.array(keep)))

    def before(self, mark: str) -> tuple[Texts, BoolArray]:
        """Return each text up to its first `mark`, and a mask of the texts that contain one."""
        import pyarrow.compute as pc

        has = np.asarray(pc.match_substring(self.array, mark).fill_null(False))
        if not has.any():
            return self, has
        return Texts(pc.list_element(pc.split_pattern(self.array, mark, max_splits=1), 0)), has

    def coded(self) -> Coded:
        """Return the texts as codes and distinct Python strings."""
        encoded = self.array.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return Coded(codes, encoded.dictionary.to_pylist())


Column: TypeAlias = IntArray | FloatArray | Texts


class TableSource(Protocol):
    """A container of tables: an SQLite file, or a folder of Arrow or Parquet files."""

    tables: Mapping[str, tuple[str, ...]]  # names of the columns, by table

    def read(self, table: str, kinds: Mapping[str, Kind]) -> dict[str, Column]:
        """Return columns of a table. Columns that it lacks are left out."""

    def count(self, table: str) -> int:
        """Return how many rows a table has."""


def binary_array(data: npt.NDArray[np.uint8], begin: IntArray, end: IntArray) -> Any:
    """Return the bytes between these positions as Arrow's large binary, null where a begin is negative."""
    import pyarrow as pa

    present = begin >= 0
    begin, length = np.where(present, begin, 0), np.where(present, end - begin, 0)
    blocks = [slice(at, at + _AT_ONCE) for at in range(0, len(begin), _AT_ONCE)]  # for the processor's cache
    content = [data[consecutive(begin[block], length[block])] for block in blocks]
    parts = (
        np.packbits(present, bitorder="little"),
        np.concatenate([[0], np.cumsum(length)]),
        np.concatenate(content or [np.empty(0, np.uint8)]),
    )
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(begin), [*map(pa.py_buffer, parts)])


def decoded(values: Any) -> Texts:
    """Decode Arrow's bytes as UTF-8; invalid ones are replaced."""
    import pyarrow as pa

    try:
        return Texts(values.cast(pa.large_string()))
    except pa.ArrowInvalid:
        texts = (None if value is None else value.decode(errors="replace") for value in values.to_pylist())
        return Texts(pa.array(texts, pa.large_string()))


def text_codes(data: npt.NDArray[np.uint8], begin: IntArray, end: IntArray) -> Coded:
    """Return the texts between these positions as codes; -1 where a begin is negative."""
    rows = np.flatnonzero(begin >= 0)
    encoded = binary_array(data, begin[rows], end[rows]).dictionary_encode()
    texts = decoded(encoded.dictionary).coded()  # different bytes that are no UTF-8 can be the same text
    codes = np.full(len(begin), -1, np.int64)
    codes[rows] = texts.codes[encoded.indices.to_numpy()]
    return Coded(codes, texts.values)


class TableRows:
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

    def where(self, keep: BoolArray) -> TableRows:
        if keep.all():
            return self
        chosen = {
            name: column.where(keep) if isinstance(column, Texts) else column[keep]
            for name, column in self._columns.items()
        }
        return TableRows(chosen, int(keep.sum()))


def read_rows(source: TableSource, table: str, kinds: Mapping[str, Kind]) -> TableRows:
    """Return columns of a table; no rows if the table does not exist."""
    columns = source.read(table, kinds)
    first: Column = next(iter(columns.values()), np.empty(0, np.int64))
    return TableRows(columns, len(first))


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
    >>> groups(np.array([1, 2, 2, 3]), np.array([7, np.nan, 8, np.nan]))[0].tolist()  # NaN is a value
    [0, 1, 2, 3]
    """
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if not len(column) or (column == column[0]).all():
            continue
        own, values = pd.factorize(column, use_na_sentinel=False)
        code = pd.factorize(code * max(len(values), 1) + own)[0].astype(np.int64)
    first = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    return code, first


def per_group(make: Callable[..., Any], *columns: npt.NDArray[Any]) -> IntArray:
    """Return `make(*row)` for each row; it is called once per distinct row, in order of first appearance."""
    code, first = groups(*columns)
    rows = zip(*(column[first].tolist() for column in columns), strict=True)
    return np.array([make(*row) for row in rows], np.int64)[code]


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


def json_members(owner: IntArray, count: int, keys: Any, values: Any) -> Coded:
    """Return the members of a JSON object for each of `count` owners. Owners ascend; -1 means none."""
    # `keys` and `values` are JSON texts in Arrow's memory
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = np.bincount(owner, minlength=count)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    members = pc.binary_join_element_wise(keys, values, ":")
    encoded = pc.binary_join(pa.ListArray.from_arrays(offsets, members), ",").dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return Coded(np.where(counts > 0, codes, -1), encoded.dictionary.to_pylist())


def sizes(rows: TableRows, names: Sequence[str], by: Sequence[str] = ()) -> pd.Categorical:
    """Return sizes in three dimensions as text; divided by others, rounded up, if these are given."""
    if not all(rows.has(name) for name in names):
        return pd.Categorical([None] * len(rows))
    columns = [rows.ints(name) for name in names]
    if by:
        columns = [
            -(-whole // np.maximum(rows.ints(part), 1)) for whole, part in zip(columns, by, strict=True)
        ]
    code, first = groups(*columns)
    triples = np.stack([column[first] for column in columns], axis=1).tolist()
    return pd.Categorical.from_codes(code, [str(triple) for triple in triples])
