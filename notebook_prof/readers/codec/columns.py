"""Columns of other programs' tables, from any container: numbers as arrays, texts as codes."""

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
