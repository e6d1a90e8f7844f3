"""Many messages of protocol buffers at once: their fields as columns.

Messages do not tell where their fields begin, so one has to be read to find the next. Here the first fields
of all messages are decoded together, then the second ones, and so on.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import BoolArray, FloatArray, IntArray
from .columns import texts_of, windows
from .protobuf import WireError
from .protobuf import fields as fields_of_one

PADDING: Final = 16
"""Zeros that must follow the data."""

_FEW: Final = 24
_AT_ONCE: Final = 1 << 14
_HIGH_BITS: Final = np.uint64(0x8080808080808080)
_LOW_BITS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_GATHER: Final = np.uint64(0x0102040810204080)
_BYTES: Final = np.array([9 if not bits else (bits & -bits).bit_length() for bits in range(256)], np.int64)
_PAIRS: Final = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)


class Fields:
    """Fields of messages.

    Parameters
    ----------
    data : ndarray of uint8
        With `PADDING` zeros at its end.
    begin, end : ndarray of int64, shape (m,)
        Where the messages lie.

    Attributes
    ----------
    count : int
        Of messages.
    owner : ndarray of int64, shape (n,)
        Message of each field: the first fields of all messages, then the second ones, and so on.
    number : ndarray of int64
    value : ndarray of int64
        Of varints and fixed fields, as their bits.
    begin, end : ndarray of int64
        Where the content of fields with a length lies; -1 of others.
    broken : int
        Messages in which a field reaches beyond the end, or has a type that does not exist; the fields before
        it are kept.

    Examples
    --------
    >>> data = np.frombuffer(bytes([8, 150, 1, 18, 2, 104, 105]) + bytes(PADDING), np.uint8)
    >>> fields = Fields(data, np.array([0]), np.array([7]))
    >>> fields.number.tolist(), fields.value.tolist(), fields.begin.tolist()
    ([1, 2], [150, 0], [-1, 5])
    """

    def __init__(self, data: npt.NDArray[np.uint8], begin: IntArray, end: IntArray) -> None:
        self.data, self.count, self.broken = data, len(begin), 0
        rounds: list[tuple[IntArray, ...]] = []
        for first in range(0, self.count, _AT_ONCE):  # few enough for the processor's cache
            block = slice(first, first + _AT_ONCE)
            rounds += self._rounds(first, begin[block], end[block])
        self._rows_of: dict[int, IntArray] = {}
        none = np.empty(0, np.int64)
        columns = zip(*rounds, strict=True) if rounds else ((),) * 5
        self.owner: IntArray
        self.owner, self.number, self.value, self.begin, self.end = (
            np.concatenate([none, *column]) for column in columns
        )

    def _rounds(self, first: int, begin: IntArray, end: IntArray) -> list[tuple[IntArray, ...]]:
        """Decode the first fields of some messages, then their second ones, and so on."""
        rounds: list[tuple[IntArray, ...]] = []
        active = np.flatnonzero(begin < end)
        at, stop = begin[active], end[active]
        active += first
        data = self.data
        while len(active) > _FEW or (len(active) and not rounds):
            tag, content, value, after = _tags_and_numbers(data, at)
            wire, number = tag & 7, tag >> 3
            after = np.where(wire == 1, content + 8, np.where(wire == 5, content + 4, after))
            if (fixed := (wire == 1) | (wire == 5)).any():
                bits = windows(data, content)
                value = np.where(fixed, np.where(wire == 5, bits & 0xFFFFFFFF, bits), value)
            has_length = wire == 2
            tail = np.where(has_length, after + value, after)
            sound = (tail <= stop) & (tail > at) & ((wire <= 2) | (wire == 5)) & (number > 0)
            if not sound.all():
                self.broken += int((~sound).sum())
                columns = (active, number, value, after, tail, has_length, stop)
                active, number, value, after, tail, has_length, stop = (c[sound] for c in columns)
            nothing = np.full(len(active), -1, np.int64)
            rounds.append(
                (
                    active,
                    number,
                    np.where(has_length, 0, value),
                    np.where(has_length, after, nothing),
                    np.where(has_length, tail, nothing),
                )
            )
            more = tail < stop
            active, at, stop = active[more], tail[more], stop[more]
        return rounds + self._rest(active, at, stop)

    def _rest(self, active: IntArray, at: IntArray, stop: IntArray) -> list[tuple[IntArray, ...]]:
        """Decode the messages that have by far the most fields, one after another."""
        parts = []
        for owner, begin, end in zip(active.tolist(), at.tolist(), stop.tolist(), strict=True):
            rows = []
            content = self.data[begin:end].tobytes()
            try:
                for number, value in fields_of_one(content, (0, len(content))):
                    if isinstance(value, tuple):
                        rows.append((owner, number, 0, begin + value[0], begin + value[1]))
                    else:
                        rows.append((owner, number, value - (1 << 64) if value >> 63 else value, -1, -1))
            except WireError:
                self.broken += 1
            if rows:
                parts.append(tuple(np.array(column, np.int64) for column in zip(*rows, strict=True)))
        return parts

    def rows(self, number: int) -> IntArray:
        """Return the positions of the fields with this number, message by message."""
        if number not in self._rows_of:
            rows = np.flatnonzero(self.number == number)
            owner = self.owner[rows]
            in_order = (owner[1:] >= owner[:-1]).all()
            self._rows_of[number] = rows if in_order else rows[np.argsort(owner, kind="stable")]
        return self._rows_of[number]

    def ints(self, number: int, missing: int = -1) -> IntArray:
        """Return the last value of a field in each message."""
        result = np.full(self.count, missing, np.int64)
        rows = self.rows(number)
        result[self.owner[rows]] = self.value[rows]
        return result

    def has(self, number: int) -> BoolArray:
        """Return which messages have a field."""
        result = np.zeros(self.count, bool)
        result[self.owner[self.rows(number)]] = True
        return result

    def floats(self, number: int) -> FloatArray:
        """Return the last double of a field in each message, NaN where there is none."""
        bits = self.ints(number, int(np.array(np.nan).view(np.int64)))
        return bits.view(np.float64)

    def texts(self, rows: IntArray) -> Any:
        """Return the content of fields as a `pyarrow.LargeBinaryArray`."""
        begin = self.begin[rows]
        present = begin >= 0
        length = np.where(present, self.end[rows] - begin, 0)
        return texts_of(self.data, np.where(present, begin, 0), length, present)

    def repeated(self, number: int) -> tuple[IntArray, IntArray]:
        """Return all numbers of a repeated field, packed or not: the message of each, and its value."""
        rows = self.rows(number)
        packed = rows[self.begin[rows] >= 0]
        length = self.end[packed] - self.begin[packed]
        at = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        at += np.repeat(self.begin[packed], length)
        is_end = self.data[at] < 0x80
        field = np.repeat(np.arange(len(packed)), length)
        first = np.append(True, is_end[:-1]) | np.append(True, field[1:] != field[:-1])[: len(at)]
        value, _ = varints(self.data, at[first[: len(at)]])
        plain = rows[self.begin[rows] < 0]
        position = np.concatenate([packed[field[first[: len(at)]]], plain])
        order = np.argsort(position, kind="stable")
        order = order[np.argsort(self.owner[position[order]], kind="stable")]
        return self.owner[position[order]], np.concatenate([value, self.value[plain]])[order]

    def inside(self, rows: IntArray) -> Fields:
        """Return the fields of the messages that these fields hold."""
        begin = self.begin[rows]
        return Fields(self.data, np.maximum(begin, 0), np.where(begin < 0, 0, self.end[rows]))


def varints(data: npt.NDArray[np.uint8], at: IntArray) -> tuple[IntArray, IntArray]:
    """Return numbers of seven bits a byte that begin at these places, as signed ones, and where they end.

    Examples
    --------
    >>> varints(np.frombuffer(bytes([150, 1]) + bytes(PADDING), np.uint8), np.array([0, 1]))
    (array([150,   1]), array([2, 2]))
    """
    first = data.take(at, mode="clip")
    if not (first >= 0x80).any():
        return first.astype(np.int64), at + 1
    value, size = _of_words(windows(data, at).view(np.uint64))
    after = at + size
    if (longest := np.flatnonzero(size == 9)).size:
        ninth = data.take(at[longest] + 8, mode="clip").astype(np.int64)
        tenth = data.take(at[longest] + 9, mode="clip").astype(np.int64)
        value[longest] |= ((ninth & 0x7F) << 56) | np.where(ninth >= 0x80, (tenth & 1) << 63, 0)
        after[longest] += (ninth >= 0x80).astype(np.int64)
    return value, after


def _of_words(word: npt.NDArray[np.uint64]) -> tuple[IntArray, IntArray]:
    """Return the numbers at the beginning of eight bytes, and their length: 9 if it is more than eight."""
    ends = ((~word & _HIGH_BITS) >> np.uint64(7)) * _GATHER >> np.uint64(56)
    size = _BYTES[ends]
    x = (word & _FIRST[size]) & _LOW_BITS
    for low, high, shift in _PAIRS:
        x = (x & low) | ((x & high) >> shift)
    return x.view(np.int64), size


def _tags_and_numbers(
    data: npt.NDArray[np.uint8], at: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the tags that begin at these places, where they end, and the numbers behind them and their ends.

    Most tags are one byte long and most numbers few, so that eight bytes hold both.
    """
    word = windows(data, at)
    tag, content, behind = word & 0x7F, at + 1, word.view(np.uint64) >> np.uint64(8)
    if (long := np.flatnonzero(word & 0x80)).size:
        tag[long], content[long] = varints(data, at[long])
        behind[long] = windows(data, content[long]).view(np.uint64)
    if not (behind & np.uint64(0x80)).any():
        return tag, content, (behind & np.uint64(0x7F)).view(np.int64), content + 1
    value, size = _of_words(behind)
    after = content + size
    if (long := np.flatnonzero(size > 7)).size:
        value[long], after[long] = varints(data, content[long])
    return tag, content, value, after


_FIRST: Final = np.array([(1 << 8 * n) - 1 if n < 8 else (1 << 64) - 1 for n in range(10)], np.uint64)
"""Keeps the first bytes of a word."""
