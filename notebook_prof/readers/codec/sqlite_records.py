"""Records of SQLite's pages: the rows of some leaf pages at once, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace.arrays import IntArray
from .columns import BYTE_MASKS, FLOATS, INTS, MISSING, TEXTS, Kind, texts_of, windows

ByteArray = npt.NDArray[np.uint8]
PADDING: Final = 16
"""Zeros behind copies of pages, so that eight bytes can be taken anywhere."""

_LONGEST_TEXT: Final = 1 << 20
_LONGEST_HEADER: Final = 256
_LARGE: Final = float(1 << 62)
_SERIAL_BYTES: Final = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0], np.int64)
_SHIFT: Final = np.array([0, 56, 48, 40, 32, 16, 0, 0, 0, 0, 0, 0], np.int64)
_NULL, _REAL, _ZERO, _ONE, _BLOB = 0, 7, 8, 9, 12
_HIGH_BITS: Final = np.uint64(0x8080808080808080)
_LOW_BITS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_GATHER: Final = np.uint64(0x0102040810204080)
"""Brings the lowest bits of eight bytes together, that of the first byte in front."""
_VARINT_BYTES: Final = np.array([9 if not bits else 9 - bits.bit_length() for bits in range(256)], np.int64)
_PAIRS: Final = tuple(
    tuple(map(np.uint64, masks))
    for masks in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_ODD: Final = np.int64(-7046029254386353131)
"""Mixes the bits of words in a product: 2⁶⁴ divided by the golden ratio."""


class Pages(Protocol):
    """What gives copies of pages."""

    @property
    def page_size(self) -> int:
        """Bytes of a page."""

    @property
    def page_count(self) -> int:
        """Whole pages of the file."""

    @property
    def usable(self) -> int:
        """Bytes of a page that hold content."""

    def take(self, pages: IntArray) -> ByteArray:
        """Return copies of pages, one behind another, and `PADDING` zeros."""


class _Layout(NamedTuple):
    """Of one column in each form of a row: the type, and where it begins and ends in the record."""

    serial: IntArray
    start: IntArray
    end: IntArray


class Rows:
    """Rows of some leaf pages: where the record of each begins and ends in a piece of memory."""

    def __init__(self, data: ByteArray, begin: IntArray, end: IntArray, number: IntArray) -> None:
        self._data, self._begin, self._end, self._number = data, begin, end, number
        self.broken = 0

    @classmethod
    def of_pages(cls, database: Pages, pages: IntArray) -> Rows:
        """Return the rows of leaf pages; contents of overflow pages are put behind these."""
        data = database.take(pages)
        base, head = page_heads(pages, database.page_size)
        row, cell = cell_positions(data, base, head, 8, database.page_size)
        page_end = base[row] + database.usable
        size, at = _varints(data, cell)
        number, begin = _varints(data, at)
        most = database.usable - 35
        fits = (size >= 0) & (size <= most)
        sound = (begin + np.where(fits, size, 0) <= page_end) & (size >= 0) & (begin <= page_end)
        long = np.flatnonzero(sound & ~fits)
        end = begin + size
        if len(long):
            data, begin, end = _with_overflow(database, data, begin, end, long)
        rows = cls(data, begin[sound], end[sound], number[sound])
        rows.broken = int((~sound).sum())
        return rows

    def columns(
        self, names: Sequence[str], alias: str | None, kinds: Mapping[str, Kind]
    ) -> dict[str, object]:
        """Return columns of the records; rows that are damaged are left out of all of them, and counted.

        Parameters
        ----------
        names : sequence of str
            All columns of the table, in order.
        alias : str or None
            The column that stands for the row's number.
        kinds : mapping of str to Kind
            Columns to decode.
        """
        header_bytes, _ = _varints(self._data, self._begin)
        form, example = self._forms(header_bytes)
        forms = self._layouts(example, {names.index(name): name for name in kinds})
        needed = np.maximum.reduce([np.zeros(len(example), np.int64), *(x.end for x in forms.values())])
        sound = self._begin + needed[form] <= self._end
        begin, number = self._begin, self._number
        if not sound.all():
            self.broken += int((~sound).sum())
            begin, number, form = begin[sound], number[sound], form[sound]
        return {
            name: self._values(layout, begin, form, kinds[name], number if name == alias else None)
            for name, layout in forms.items()
        }

    def _forms(self, header_bytes: IntArray) -> tuple[IntArray, IntArray]:
        """Return which form the header of each row has, and a row of each form.

        A header tells the type of every value. Rows of a table have few different ones, so only these are
        decoded.
        """
        n, most = len(header_bytes), int(header_bytes.max(initial=0))
        every = np.arange(n)
        if not 0 < most <= _LONGEST_HEADER:
            return every, every
        words = [self._header_word(i, header_bytes, every) for i in range(-(-most // 8))]
        mixed = header_bytes.copy()
        for word in words:
            mixed = (mixed ^ word) * _ODD
            mixed ^= mixed >> 29
        form, distinct = pd.factorize(mixed)
        example = np.empty(len(distinct), np.int64)
        example[form[::-1]] = every[::-1]
        own = example[form]
        alike = header_bytes == header_bytes[own]
        for word in words:
            alike &= word == word[own]
        return (form, example) if alike.all() else (every, every)

    def _header_word(self, index: int, header_bytes: IntArray, rows: IntArray) -> IntArray:
        """Return eight bytes of headers as a number, 0 beyond their ends."""
        inside = np.clip(header_bytes - 8 * index, 0, 8)
        return windows(self._data, self._begin[rows] + 8 * index) & BYTE_MASKS[inside]

    def _layouts(self, rows: IntArray, position: Mapping[int, str]) -> dict[str, _Layout]:
        """Return the type and the place of each value to decode, in these rows."""
        begin = self._begin[rows]
        header_bytes, at = _varints(self._data, begin)
        header_end = begin + header_bytes
        content, size_limit = header_bytes, len(self._data)
        layouts: dict[str, _Layout] = {}
        for column in range(max(position, default=-1) + 1):
            serial, after = _varints(self._data, at)
            beyond = at >= header_end  # columns that were added to the table after the row
            serial, at = np.where(beyond, _NULL, serial), np.where(beyond, at, after)
            size = np.minimum(_sizes(serial), size_limit)
            if column in position:
                layouts[position[column]] = _Layout(serial, content, content + size)
            content = np.minimum(content + size, size_limit)
        return layouts

    def _values(
        self, layout: _Layout, begin: IntArray, form: IntArray, kind: Kind, number: IntArray | None
    ) -> object:
        serial, start = layout.serial, begin + layout.start[form]
        if kind == TEXTS:
            is_text = serial > _BLOB
            length = np.minimum(np.where(is_text, (serial - _BLOB) >> 1, 0), _LONGEST_TEXT)
            return texts_of(self._data, start, length[form], is_text[form])
        code = np.clip(serial, 0, _BLOB - 1)
        if kind == INTS and number is None and np.isin(serial, (_NULL, _ZERO, _ONE)).all():
            return np.where(serial == _NULL, MISSING, serial - _ZERO)[form]
        raw = big_endian(self._data, start, 8)
        ints = raw >> _SHIFT[code][form]
        constant, real = (serial == _ZERO) | (serial == _ONE), serial == _REAL
        absent = (serial == _NULL) | (serial > _ONE)
        if constant.any():
            ints = np.where(constant[form], (serial - _ZERO)[form], ints)
        if kind == FLOATS:
            return np.where(absent[form], np.nan, np.where(real[form], raw.view(np.float64), ints))
        if real.any():
            floats = np.nan_to_num(raw.view(np.float64), nan=0.0)
            ints = np.where(real[form], np.clip(floats, -_LARGE, _LARGE).astype(np.int64), ints)
        if absent.any():
            instead = MISSING if number is None else np.where((serial == _NULL)[form], number, MISSING)
            ints = np.where(absent[form], instead, ints)
        return ints


def page_heads(pages: IntArray, page_size: int) -> tuple[IntArray, IntArray]:
    """Return where pages and their headers begin; the file's own header is on the first page."""
    base = np.arange(len(pages), dtype=np.int64) * page_size
    return base, base + np.where(pages == 1, 100, 0)


def cell_positions(
    data: ByteArray, base: IntArray, head: IntArray, header_bytes: int, page_size: int
) -> tuple[IntArray, IntArray]:
    """Return the page of every cell, by its position among these, and where the cell begins."""
    count = np.minimum(big_endian(data, head + 3, 2), (page_size - header_bytes) // 2)
    row = np.repeat(np.arange(len(base)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    pointer = np.minimum(head[row] + header_bytes + 2 * within, len(data) - PADDING)
    return row, base[row] + big_endian(data, pointer, 2)


def big_endian(data: ByteArray, at: IntArray, size: int) -> IntArray:
    """Return signed numbers of `size` bytes, 2, 4 or 8, that begin at these places; 2 and 4 are unsigned."""
    raw = windows(data, at)
    values = raw.byteswap() if np.little_endian else raw
    return values if size == 8 else (values.view(np.uint64) >> np.uint64(64 - 8 * size)).astype(np.int64)


def _varints(data: ByteArray, at: IntArray) -> tuple[IntArray, IntArray]:
    """Return SQLite's variable-length numbers that begin at these places, and where they end.

    Eight bytes are looked at together: the first whose highest bit is not set is the last of the number, and
    the lower bits are moved together in pairs, pairs of pairs, and halves.
    """
    first = data.take(at, mode="clip")
    if not (first >= 0x80).any():
        return first.astype(np.int64), at + 1
    word = big_endian(data, at, 8).view(np.uint64)
    ends = (((~word & _HIGH_BITS) >> np.uint64(7)) * _GATHER) >> np.uint64(56)
    size = _VARINT_BYTES[ends]
    x = (word >> (64 - 8 * np.minimum(size, 8)).view(np.uint64)) & _LOW_BITS
    for low, high, shift in _PAIRS:
        x = (x & low) | ((x & high) >> shift)
    value = x.view(np.int64)
    if (longest := size == 9).any():
        last = data.take(at[longest] + 8, mode="clip").astype(np.int64)
        value[longest] = (value[longest] << 8) | last
    return value, at + size


def _sizes(serial: IntArray) -> IntArray:
    """Return how many bytes values of these types take."""
    size = _SERIAL_BYTES[np.clip(serial, 0, _BLOB - 1)]
    if (long := serial >= _BLOB).any():
        size = np.where(long, (serial - _BLOB) >> 1, size)
    return size


def _with_overflow(
    database: Pages, data: ByteArray, begin: IntArray, end: IntArray, rows: IntArray
) -> tuple[ByteArray, IntArray, IntArray]:
    """Put the records that go on on other pages behind the data, each as a whole."""
    begin, end = begin.copy(), end.copy()
    records = []
    end_of_data = len(data) - PADDING
    for row in rows.tolist():
        record = _whole_record(database, data, int(begin[row]), int(end[row] - begin[row]))
        begin[row], end[row] = end_of_data, end_of_data + len(record)
        end_of_data += len(record)
        records.append(record)
    padding = np.zeros(PADDING, np.uint8)
    return np.concatenate([data[:-PADDING], *records, padding]), begin, end


def _whole_record(database: Pages, data: ByteArray, begin: int, size: int) -> ByteArray:
    """Return a record with what overflow pages hold of it; shorter where one of these is missing."""
    usable = database.usable
    least = (usable - 12) * 32 // 255 - 23
    local = least + (size - least) % (usable - 4)
    local = local if local <= usable - 35 else least
    parts = [data[begin : begin + local]]
    size -= local
    page = int.from_bytes(bytes(data[begin + local : begin + local + 4]), "big")
    while size > 0 and 0 < page <= database.page_count and len(parts) <= database.page_count:
        content = database.take(np.array([page]))
        parts.append(content[4 : 4 + min(size, usable - 4)])
        size -= usable - 4
        page = int.from_bytes(bytes(content[:4]), "big")
    return np.concatenate(parts)
