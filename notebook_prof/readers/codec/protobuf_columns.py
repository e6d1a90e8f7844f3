"""Decodes many protobuf messages at once: their fields become columns.

A field's position is known only after the previous field is decoded. So the first fields of all messages are
decoded together, then the second ones, and so on. A program writes few kinds of messages, so most of those
decoded together have the same next field, and only its tag needs to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...trace.arrays import BoolArray, FloatArray, IntArray, consecutive
from ...trace.strings import Coded
from .columns import text_codes, texts_of, windows
from .protobuf import WireError
from .protobuf import fields as fields_of_one

PADDING: Final = 16
"""Number of zeros that must follow the data."""

_FEW: Final = 24
_AT_ONCE: Final = 1 << 14
_ALIKE: Final = 400
"""From this number on, messages that continue with the same field are decoded apart."""
_MOST_SMALL: Final = 6
_HIGH_BITS: Final = np.uint64(0x8080808080808080)
_LOW_BITS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_GATHER: Final = np.uint64(0x0102040810204080)
_BYTES: Final = np.array([9 if not bits else (bits & -bits).bit_length() for bits in range(256)], np.int64)
_PAIRS: Final = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """All occurrences of one field, message by message.

    Attributes
    ----------
    owner : ndarray of int64, shape (n,)
        The message that contains the field.
    value : ndarray of int64
        Bits of a varint or a fixed-size field; 0 for other fields.
    begin, end : ndarray of int64
        Position of the content of a field with a length; -1 for other fields.
    """

    owner: IntArray
    value: IntArray
    begin: IntArray
    end: IntArray

    def __len__(self) -> int:
        return len(self.owner)

    def where(self, keep: BoolArray | IntArray) -> Occurrences:
        """Return the occurrences selected by a mask or by positions."""
        return Occurrences(self.owner[keep], self.value[keep], self.begin[keep], self.end[keep])


class _Part(NamedTuple):
    """One field of many messages: its value, or the position of its content."""

    owner: IntArray
    value: IntArray | None
    begin: IntArray | None
    end: IntArray | None


class Fields:
    """Fields of messages.

    Parameters
    ----------
    data : ndarray of uint8
        Ends with `PADDING` zeros.
    begin, end : ndarray of int64, shape (m,)
        Positions of the messages.

    Attributes
    ----------
    count : int
        Number of messages.
    broken : int
        Number of messages with a field that reaches beyond the end, or whose number or type does not exist.
        The fields before it are kept.

    Examples
    --------
    >>> data = np.frombuffer(bytes([8, 150, 1, 18, 2, 104, 105]) + bytes(PADDING), np.uint8)
    >>> fields = Fields(data, np.array([0]), np.array([7]))
    >>> fields.ints(1).tolist(), fields.occurrences(2).begin.tolist()
    ([150], [5])
    """

    def __init__(self, data: npt.NDArray[np.uint8], begin: IntArray, end: IntArray) -> None:
        self.data, self.count, self.broken = data, len(begin), 0
        self._parts: dict[int, list[_Part]] = {}
        self._occurrences: dict[int, Occurrences] = {}
        left: list[tuple[IntArray, ...]] = []
        for first in range(0, self.count, _AT_ONCE):  # few enough for the processor's cache
            at, stop = begin[first : first + _AT_ONCE], end[first : first + _AT_ONCE]
            some = np.flatnonzero(at < stop)
            left += self._alike(some + first, at[some], stop[some])
        active, at, stop = _concatenated(left, 3)
        rounds: list[tuple[IntArray, ...]] = []
        for first in range(0, len(active), _AT_ONCE):
            block = slice(first, first + _AT_ONCE)
            rounds += self._unlike(active[block], at[block], stop[block])
        self._owner, self._number, self._value, self._begin, self._end = _concatenated(rounds, 5)

    def _alike(self, active: IntArray, at: IntArray, stop: IntArray) -> list[tuple[IntArray, ...]]:
        """Decode messages while many have the same next field. Return the remaining ones and positions."""
        left: list[tuple[IntArray, ...]] = []
        waiting, small = [(active, at, stop)], 0
        while waiting:
            active, at, stop = waiting.pop()
            while len(active) >= _ALIKE and small < _MOST_SMALL:
                byte = self.data.take(at, mode="clip")
                tag, size = int(byte[0]), 1
                same = byte == tag
                if tag >= 0x80:
                    second = self.data.take(at + 1, mode="clip")
                    same &= second == second[0]
                    tag, size = tag & 0x7F | int(second[0]) << 7, 2
                if not same.all():
                    others = ~same
                    waiting.append((active[others], at[others], stop[others]))
                    active, at, stop = active[same], at[same], stop[same]
                if tag >> 14 or len(active) < _ALIKE:  # a tag of three bytes, or a small group
                    small += 1
                    break
                active, at, stop = self._kept(tag, at + size, active, stop)
            if len(active):
                left.append((active, at, stop))
        return left

    def _kept(
        self, tag: int, content: IntArray, active: IntArray, stop: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Decode and keep the next field, the same in all messages. Return those not yet at their end."""
        wire, number = tag & 7, tag >> 3
        value = begin = end = None
        if wire in (0, 2):
            value, after = varints(self.data, content)
            if wire == 2:
                begin, after = after, after + value
                end, value = after, None
                sound = (after <= stop) & (after >= begin)
            else:
                sound = after <= stop
        elif wire in (1, 5):
            value = windows(self.data, content)
            value = value if wire == 1 else value & 0xFFFFFFFF
            after = content + (8 if wire == 1 else 4)
            sound = after <= stop
        else:
            after, sound = content, np.zeros(len(active), bool)
        if number == 0:
            sound = np.zeros(len(active), bool)
        if not sound.all():
            self.broken += int((~sound).sum())
            active, after, stop = active[sound], after[sound], stop[sound]
            value, begin, end = (None if c is None else c[sound] for c in (value, begin, end))
        self._parts.setdefault(number, []).append(_Part(active, value, begin, end))
        more = after < stop
        if more.all():
            return active, after, stop
        return active[more], after[more], stop[more]

    def _unlike(self, active: IntArray, at: IntArray, stop: IntArray) -> list[tuple[IntArray, ...]]:
        """Decode one field per message and round, whichever field it is."""
        rounds: list[tuple[IntArray, ...]] = []
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
        """Decode one by one the few messages that have far more fields than the others."""
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

    def occurrences(self, number: int) -> Occurrences:
        """Return all occurrences of a field, in order of the messages."""
        if number not in self._occurrences:
            columns: list[tuple[IntArray, ...]] = []
            for owner, value, begin, end in self._parts.get(number, []):
                if begin is None or end is None:
                    nothing = np.full(len(owner), -1, np.int64)
                    columns.append((owner, nothing if value is None else value, nothing, nothing))
                else:
                    columns.append((owner, np.zeros(len(owner), np.int64), begin, end))
            others = np.flatnonzero(self._number == number)
            columns.append(tuple(c[others] for c in (self._owner, self._value, self._begin, self._end)))
            result = Occurrences(*_concatenated(columns, 4))
            if not (result.owner[1:] >= result.owner[:-1]).all():
                result = result.where(np.argsort(result.owner, kind="stable"))
            self._occurrences[number] = result
        return self._occurrences[number]

    def counts(self) -> dict[int, int]:
        """Return the number of occurrences of each field, by field number."""
        numbers, counts = np.unique(self._number, return_counts=True)
        result = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        for number, parts in self._parts.items():
            result[number] = result.get(number, 0) + sum(len(part.owner) for part in parts)
        return result

    def ints(self, number: int, missing: int = -1) -> IntArray:
        """Return the last value of a field in each message, or `missing`."""
        result = np.full(self.count, missing, np.int64)
        for part in self._parts.get(number, []):
            result[part.owner] = 0 if part.value is None else part.value
        others = np.flatnonzero(self._number == number)
        result[self._owner[others]] = self._value[others]
        return result

    def has(self, number: int) -> BoolArray:
        """Return a mask of the messages that have a field."""
        result = np.zeros(self.count, bool)
        for part in self._parts.get(number, []):
            result[part.owner] = True
        result[self._owner[self._number == number]] = True
        return result

    def contents(self, number: int) -> tuple[IntArray, IntArray]:
        """Return the begin and end of the last content of a field in each message; -1 if there is none."""
        begin, end = np.full(self.count, -1, np.int64), np.full(self.count, -1, np.int64)
        nothing = np.int64(-1)
        for part in self._parts.get(number, []):
            begin[part.owner] = nothing if part.begin is None else part.begin
            end[part.owner] = nothing if part.end is None else part.end
        others = np.flatnonzero(self._number == number)
        begin[self._owner[others]], end[self._owner[others]] = self._begin[others], self._end[others]
        return begin, end

    def floats(self, number: int) -> FloatArray:
        """Return the last value of a field of doubles in each message; NaN if there is none."""
        bits = self.ints(number, int(np.array(np.nan).view(np.int64)))
        return bits.view(np.float64)

    def texts(self, every: Occurrences) -> Any:
        """Return the content of fields as a `pyarrow.LargeBinaryArray`."""
        present = every.begin >= 0
        length = np.where(present, every.end - every.begin, 0)
        return texts_of(self.data, np.where(present, every.begin, 0), length, present)

    def repeated(self, number: int) -> tuple[IntArray, IntArray]:
        """Return all numbers in a repeated field, packed or not: their messages and values."""
        every = self.occurrences(number)
        packed, plain = np.flatnonzero(every.begin >= 0), np.flatnonzero(every.begin < 0)
        length = every.end[packed] - every.begin[packed]
        at = consecutive(every.begin[packed], length)
        is_end = self.data[at] < 0x80
        field = np.repeat(np.arange(len(packed)), length)
        first = np.append(True, is_end[:-1]) | np.append(True, field[1:] != field[:-1])[: len(at)]
        value, _ = varints(self.data, at[first[: len(at)]])
        position = np.concatenate([packed[field[first[: len(at)]]], plain])
        order = np.argsort(position, kind="stable")
        return every.owner[position[order]], np.concatenate([value, every.value[plain]])[order]

    def inside(self, every: Occurrences) -> Fields:
        """Return the fields of the messages nested in these fields."""
        return Fields(self.data, np.maximum(every.begin, 0), np.where(every.begin < 0, 0, every.end))


def text_column(fields: Fields, number: int) -> Coded:
    """Return a text field of each message; the code is -1 where the field is missing."""
    return text_codes(fields.data, *fields.contents(number))


def coded_texts(fields: Fields, every: Occurrences) -> Coded:
    """Return the contents of these fields as coded texts."""
    return text_codes(fields.data, every.begin, every.end)


def _concatenated(parts: Sequence[tuple[IntArray, ...]], count: int) -> tuple[IntArray, ...]:
    if len(parts) == 1:
        return parts[0]
    none = np.empty(0, np.int64)
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True)) if parts else (none,) * count


def varints(data: npt.NDArray[np.uint8], at: IntArray) -> tuple[IntArray, IntArray]:
    """Decode the varints at these positions as signed numbers; return them and their ends."""
    first = data.take(at, mode="clip")
    if not len(first) or first.max() < 0x80:
        return first.astype(np.int64), at + 1
    value, size = _of_words(windows(data, at).view(np.uint64))
    after = at + size
    if size.max() == 9:
        longest: IntArray | slice = slice(None) if size.min() == 9 else np.flatnonzero(size == 9)
        behind = after[longest] - 1
        ninth = data.take(behind, mode="clip")
        value[longest] |= (ninth & 0x7F).astype(np.int64) << 56
        if ninth.max() >= 0x80:
            tenth = np.where(ninth >= 0x80, data.take(behind + 1, mode="clip"), 0)
            value[longest] |= (tenth & 1).astype(np.int64) << 63
            after[longest] += ninth >= 0x80
    return value, after


def _of_words(word: npt.NDArray[np.uint64]) -> tuple[IntArray, IntArray]:
    """Decode the varint at the start of each eight-byte word. Return it and its length; 9 if it is longer."""
    ends = ((~word & _HIGH_BITS) >> np.uint64(7)) * _GATHER >> np.uint64(56)
    size = _BYTES[ends]
    x = (word & _FIRST[size]) & _LOW_BITS
    longest = int(size.max(initial=0))
    for low, high, shift in _PAIRS[: 1 if longest < 3 else 2 if longest < 5 else 3]:
        x = (x & low) | ((x & high) >> shift)
    return x.view(np.int64), size


def _tags_and_numbers(
    data: npt.NDArray[np.uint8], at: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the tags at these positions and their ends, and the varints that follow and their ends."""
    # Most tags are one byte long and most numbers a few, so eight bytes usually hold both.
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
"""Masks that keep the first bytes of a word."""
