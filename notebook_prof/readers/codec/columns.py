"""Columns and rows of other programs' tables, from any container: numbers as arrays, texts as codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace.arrays import BoolArray, FloatArray, IntArray
from ...trace.strings import Coded
from .numbers import packed

# Numbers for distinct values, as columns of codes.


class Interner(dict[Any, int]):
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
BYTE_MASKS: Final = np.frombuffer(b"".join(b"\xff" * n + bytes(8 - n) for n in range(9)), np.int64)
"""Masks that keep the first 0 to 8 bytes of a word."""


_PADDING: Final = 16
_LONG: Final = 256
_CODED_AT_ONCE: Final = 1 << 14
_MIX: Final = tuple(np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64))
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
        """Return the texts marked in `keep`."""
        import pyarrow as pa

        return Texts(self.array.filter(pa.array(keep)))

    def before(self, mark: str) -> tuple[Texts, BoolArray]:
        """Return each text up to its first `mark`, and a mask of the texts that contain one."""
        import pyarrow as pa
        import pyarrow.compute as pc

        at = pc.find_substring(self.array, mark).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        has = at >= 0
        if not has.any():
            return self, has
        _, places, content = self.array.buffers()
        offsets = np.frombuffer(places, np.int64)[self.array.offset :][: len(self) + 1]
        data, present = np.frombuffer(content, np.uint8), self.present
        length = np.where(present, np.where(has, at, np.diff(offsets)), 0)
        parts = []
        for begin in range(0, len(self), _AT_ONCE):  # few enough for the processor's cache
            rows = slice(begin, begin + _AT_ONCE)
            first, last = offsets[begin], offsets[min(begin + _AT_ONCE, len(self))]
            near = np.concatenate([data[first:last], np.zeros(_PADDING, np.uint8)])
            parts.append(texts_of(near, offsets[:-1][rows] - first, length[rows], present[rows]))
        return Texts(pa.concat_arrays(parts).cast(pa.large_string())), has

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


def texts_of(data: npt.NDArray[np.uint8], start: IntArray, length: IntArray, present: BoolArray) -> Any:
    """Return texts in `data` as an Arrow array of large binary, null where they are not present."""
    # `start` and `length` are in bytes; a length is 0 where `present` is False.
    import pyarrow as pa

    words = (length + 7) // 8
    ends = np.cumsum(words)
    total = int(ends[-1]) if len(ends) else 0
    # copy eight bytes at a time, then remove those beyond the ends
    content = windows(data, np.arange(0, 8 * total, 8) + np.repeat(start - 8 * (ends - words), words))
    inside = np.full(total, 8, np.int8)
    some = words > 0
    inside[ends[some] - 1] = (length[some] - 1) % 8 + 1
    compact = content.view(np.uint8)[(np.arange(8, dtype=np.int8) < inside[:, None]).ravel()]
    places = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
    buffers = [pa.py_buffer(part) for part in (np.packbits(present, bitorder="little"), places, compact)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(start), buffers)


def coded_contents(
    data: npt.NDArray[np.uint8], start: IntArray, length: IntArray
) -> tuple[IntArray, IntArray]:
    """Return a code for each byte string, equal for equal strings, and the first row with each code."""
    # Strings are distinguished by their length and their first and last eight bytes. Strings that agree in
    # these are compared in full. Only those still unsettled go to Arrow, which is slower.
    count = len(start)
    if count <= _CODED_AT_ONCE:
        return _coded_at_once(data, start, length)
    codes, firsts, total = [], [], 0
    for begin in range(0, count, _CODED_AT_ONCE):  # few enough for the processor's cache
        own, first = _coded_at_once(
            data, start[begin : begin + _CODED_AT_ONCE], length[begin : begin + _CODED_AT_ONCE]
        )
        codes.append(own + total)
        firsts.append(first + begin)
        total += len(first)
    rows = np.concatenate(firsts)
    if total > count // 2:  # most are distinct, so further rounds in small blocks would find few equal ones
        again, first = _coded_at_once(data, start[rows], length[rows])
    else:
        again, first = coded_contents(data, start[rows], length[rows])
    return again[np.concatenate(codes)], rows[first]


def _coded_at_once(
    data: npt.NDArray[np.uint8], start: IntArray, length: IntArray
) -> tuple[IntArray, IntArray]:
    mask = BYTE_MASKS[np.minimum(length, 8)]
    head, tail = windows(data, start) & mask, windows(data, start + np.maximum(length - 8, 0)) & mask
    key = head.view(np.uint64) * _MIX[0] + tail.view(np.uint64) * _MIX[1] + length.view(np.uint64) * _MIX[2]
    codes = pd.factorize((key ^ (key >> np.uint64(29))).view(np.int64))[0].astype(np.int64, copy=False)
    highest = np.maximum.accumulate(codes)  # factorize numbers values in order of appearance
    first = np.flatnonzero(np.append(True, highest[1:] > highest[:-1])[: len(codes)])
    own = first[codes]
    same = (head == head[own]) & (tail == tail[own]) & (length == length[own]) & (length <= _LONG)
    for at in range(8, min(int(length.max(initial=0)), _LONG) - 8, 8):
        rows = np.flatnonzero(same & (length > at + 8))
        same[rows] = windows(data, start[rows] + at) == windows(data, start[own[rows]] + at)
    if same.all():
        return codes, first
    others = np.flatnonzero(~same)
    encoded = texts_of(data, start[others], length[others], np.ones(len(others), bool)).dictionary_encode()
    codes[others] = encoded.indices.to_numpy().astype(np.int64) + len(first)
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    renumbered = np.empty(len(order), np.int64)
    renumbered[order] = np.arange(len(order))
    return renumbered[codes], first[order]


def windows(data: npt.NDArray[np.uint8], at: IntArray) -> IntArray:
    """Return the eight bytes at each position, clipped to the data, as an integer in native byte order."""
    last = len(data) - 8
    if len(at) and (int(at.max()) > last or int(at.min()) < 0):
        at = np.clip(at, 0, last)
    every: IntArray = np.ndarray((last + 1,), np.int64, data, strides=(1,))
    return every[at]


def joined(parts: Sequence[Any], kind: Kind, encoding: str = "utf-8") -> Column:
    """Join the parts of a column; texts come as Arrow arrays of bytes or text, invalid bytes are replaced.

    >>> joined([np.array([1, 2]), np.array([3])], INTS).tolist()
    [1, 2, 3]
    """
    if kind != TEXTS:
        empty: Any = np.empty(0, np.int64 if kind == INTS else np.float64)
        return np.concatenate([empty, *parts])
    import pyarrow as pa

    whole = pa.concat_arrays(parts) if parts else pa.array([], pa.large_binary())
    return Texts(_decoded(whole, encoding))


def _decoded(values: Any, encoding: str) -> Any:
    import pyarrow as pa

    if encoding == "utf-8":
        try:
            return values.cast(pa.large_string())
        except pa.ArrowInvalid:
            pass
    texts = (None if value is None else value.decode(encoding, "replace") for value in values.to_pylist())
    return pa.array(texts, pa.large_string())


def text_codes(data: npt.NDArray[np.uint8], begin: IntArray, end: IntArray) -> Coded:
    """Return the texts between these positions as codes; -1 where a begin is negative."""
    rows = np.flatnonzero(begin >= 0)
    if len(rows) == len(begin):
        codes, first = coded_contents(data, begin, end - begin)
    elif len(rows):
        codes, first = coded_contents(data, begin[rows], end[rows] - begin[rows])
        first = rows[first]
    else:
        return Coded(np.full(len(begin), -1, np.int64), [])
    present = np.ones(len(first), bool)
    column = joined([texts_of(data, begin[first], end[first] - begin[first], present)], TEXTS)
    assert isinstance(column, Texts)
    texts = column.coded()
    own = texts.codes[codes]
    if len(rows) == len(begin):
        return Coded(own, texts.values)
    result = np.full(len(begin), -1, np.int64)
    result[rows] = own
    return Coded(result, texts.values)


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
