"""Decodes many protobuf messages at once: their fields become columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import BoolArray, FloatArray, IntArray, consecutive
from ...trace.strings import Coded
from .columns import binary_array, text_codes
from .protobuf import WireError, signed
from .protobuf import fields as fields_of_one

PADDING: Final = 16
"""Number of zeros that must follow the data."""

_FEW: Final = 24
_AT_ONCE: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Occurrences:
    """All occurrences of one field, message by message."""

    owner: IntArray  # the message that contains the field
    value: IntArray  # bits of a varint or a fixed-size field; 0 for other fields
    begin: IntArray  # position of the content of a field with a length; -1 for other fields, as is the end
    end: IntArray

    def __len__(self) -> int:
        return len(self.owner)

    def where(self, keep: BoolArray | IntArray) -> Occurrences:
        """Return the occurrences selected by a mask or by positions."""
        return Occurrences(self.owner[keep], self.value[keep], self.begin[keep], self.end[keep])


class Fields:
    """Fields of messages that lie at these positions of data that ends with `PADDING` zeros.

    >>> data = np.frombuffer(bytes([8, 150, 1, 18, 2, 104, 105]) + bytes(PADDING), np.uint8)
    >>> fields = Fields(data, np.array([0]), np.array([7]))
    >>> fields.ints(1).tolist(), fields.occurrences(2).begin.tolist()
    ([150], [5])
    """

    # A field's position is known only after the previous field is decoded. So the first fields of all
    # messages are decoded together, then the second ones, and so on.

    def __init__(self, data: npt.NDArray[np.uint8], begin: IntArray, end: IntArray) -> None:
        self.data, self.count = data, len(begin)
        # messages with a field that reaches beyond the end, or whose number or type does not exist; the
        # fields before it are kept
        self.broken = 0
        self._occurrences: dict[int, Occurrences] = {}
        rounds = [np.empty((5, 0), np.int64)]
        for first in range(0, self.count, _AT_ONCE):  # few enough for the processor's cache
            rows = np.arange(first, min(first + _AT_ONCE, self.count))
            self._decode(rows[begin[rows] < end[rows]], begin, end, rounds)
        self._owner, self._number, *self._parts = np.concatenate(rounds, axis=1)

    def _decode(
        self, active: IntArray, begin: IntArray, end: IntArray, rounds: list[npt.NDArray[np.int64]]
    ) -> None:
        """Decode one field per message and round, whichever field it is."""
        data, at, stop = self.data, begin[active], end[active]
        first = True
        while len(active) > _FEW or (len(active) and first):
            first = False
            tag, content = varints(data, at)
            wire, number = tag & 7, tag >> 3
            value, after = varints(data, content)
            if (fixed := (wire == 1) | (wire == 5)).any():
                bits = _words(data, content)
                value = np.where(fixed, np.where(wire == 5, bits & 0xFFFFFFFF, bits), value)
                after = np.where(fixed, content + np.where(wire == 1, 8, 4), after)
            has_length = wire == 2
            tail = np.where(has_length, after + value, after)
            sound = (tail <= stop) & (tail > at) & ((wire <= 2) | (wire == 5)) & (number > 0)
            self.broken += int((~sound).sum())
            place = np.where(has_length, after, -1), np.where(has_length, tail, -1)
            part = np.stack([active, number, np.where(has_length, 0, value), *place])
            rounds.append(part if sound.all() else part[:, sound])
            more = sound & (tail < stop)
            active, at, stop = active[more], tail[more], stop[more]
        # the few messages that have far more fields than the others are decoded one by one
        for owner, low, high in zip(active.tolist(), at.tolist(), stop.tolist(), strict=True):
            rows = []
            try:
                for field, payload in fields_of_one(data[low:high].tobytes(), (0, high - low)):
                    if isinstance(payload, tuple):
                        rows.append((owner, field, 0, low + payload[0], low + payload[1]))
                    else:
                        rows.append((owner, field, signed(payload), -1, -1))
            except WireError:
                self.broken += 1
            rounds.append(np.array(rows, np.int64).reshape(-1, 5).T)

    def occurrences(self, number: int) -> Occurrences:
        """Return all occurrences of a field, in order of the messages."""
        if number not in self._occurrences:
            rows = np.flatnonzero(self._number == number)
            rows = rows[np.argsort(self._owner[rows], kind="stable")]
            self._occurrences[number] = Occurrences(self._owner[rows], *(part[rows] for part in self._parts))
        return self._occurrences[number]

    def counts(self) -> dict[int, int]:
        """Return the number of occurrences of each field, by field number."""
        numbers, counts = np.unique(self._number, return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def ints(self, number: int, missing: int = -1) -> IntArray:
        """Return the last value of a field in each message, or `missing`."""
        result, every = np.full(self.count, missing, np.int64), self.occurrences(number)
        result[every.owner] = every.value
        return result

    def has(self, number: int) -> BoolArray:
        """Return a mask of the messages that have a field."""
        result = np.zeros(self.count, bool)
        result[self.occurrences(number).owner] = True
        return result

    def contents(self, number: int) -> tuple[IntArray, IntArray]:
        """Return the begin and end of the last content of a field in each message; -1 if there is none."""
        begin, end = np.full(self.count, -1, np.int64), np.full(self.count, -1, np.int64)
        every = self.occurrences(number)
        begin[every.owner], end[every.owner] = every.begin, every.end
        return begin, end

    def floats(self, number: int) -> FloatArray:
        """Return the last value of a field of doubles in each message; NaN if there is none."""
        return self.ints(number, int(np.array(np.nan).view(np.int64))).view(np.float64)

    def texts(self, every: Occurrences) -> Any:
        """Return the content of fields as a `pyarrow.LargeBinaryArray`."""
        return binary_array(self.data, every.begin, every.end)

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


def varints(data: npt.NDArray[np.uint8], at: IntArray) -> tuple[IntArray, IntArray]:
    """Decode the varints at these positions as signed numbers; return them and their ends."""
    byte = data.take(at, mode="clip")
    value, after = (byte & 0x7F).astype(np.int64), at + 1
    rows = np.flatnonzero(byte >= 0x80)
    for shift in range(7, 70, 7):
        if not len(rows):
            break
        byte = data.take(after[rows], mode="clip")
        value[rows] |= (byte & 0x7F).astype(np.int64) << shift
        after[rows] += 1
        rows = rows[byte >= 0x80]
    return value, after


def _words(data: npt.NDArray[np.uint8], at: IntArray) -> IntArray:
    """Return the eight bytes at each position, clipped to the data, as an integer."""
    every: IntArray = np.ndarray((len(data) - 7,), "<i8", data, strides=(1,))
    return every.take(at, mode="clip")
