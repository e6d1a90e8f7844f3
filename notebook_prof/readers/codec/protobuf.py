"""Reads the wire format of protocol buffers: one message, or many at once, whose fields become columns."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...trace.arrays import BoolArray, FloatArray, IntArray, consecutive
from ...trace.strings import Coded
from .columns import binary_array, text_codes

Span: TypeAlias = tuple[int, int]
"""Begin and end of a nested message or a text in the data."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_SHIFT: Final = 63
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class WireError(ValueError):
    """Raised for bytes that are not a protobuf message."""


def fields(data: bytes, span: Span) -> Iterator[tuple[int, int | Span]]:
    """Yield number and value of a message's fields: unsigned, or begin and end of a field with a length.

    >>> list(fields(b"\\x08\\x96\\x01\\x12\\x02hi", (0, 7)))
    [(1, 150), (2, (5, 7))]
    """
    at, end = span
    while at < end:
        byte = data[at]
        at += 1
        if byte < 0x80:
            key = byte
        else:
            key, at = varint(data, at - 1, end)
        kind = key & 7
        if kind == _VARINT:
            if at < end and data[at] < 0x80:
                value, at = data[at], at + 1
            else:
                value, at = varint(data, at, end)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = varint(data, at, end)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise WireError(f"no wire type {kind} at byte {at}")
        if at + size > end:
            raise WireError(f"a field of {size} bytes at byte {at} reaches beyond its end")
        if kind == _BYTES:
            yield key >> 3, (at, at + size)
        else:
            yield key >> 3, int.from_bytes(data[at : at + size], "little")
        at += size


def numbers(data: bytes, span: Span) -> dict[int, int]:
    """Return the last value of every numeric field of a message, skipping nested messages and texts."""
    return {number: value for number, value in fields(data, span) if isinstance(value, int)}


def mapping(data: bytes, span: Span) -> dict[int, int | Span]:
    """Return the last value of every field of a message."""
    return dict(fields(data, span))


def text(data: bytes, value: int | Span | None) -> str:
    """Return a text field; empty if it is missing. Invalid UTF-8 is replaced."""
    return data[value[0] : value[1]].decode(errors="replace") if isinstance(value, tuple) else ""


def signed(value: int) -> int:
    """Return the signed 64-bit number behind the unsigned value of a varint."""
    return value - (1 << 64) if value >= 1 << 63 else value


def float32(value: int) -> float:
    """Return a 32-bit float from its bits."""
    return float(_FLOAT.unpack(value.to_bytes(4, "little"))[0]) if value < 1 << 32 else float("nan")


def float64(value: int) -> float:
    """Return a 64-bit float from its bits."""
    return float(_DOUBLE.unpack(value.to_bytes(8, "little"))[0])


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode an unsigned varint; return it and its end. WireError if it does not end, or is too long."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > _MAX_SHIFT:
            raise WireError(f"a number at byte {at} has no end")
    raise WireError("the message ends inside a number")


# Many messages at once.

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
                for field, payload in fields(data[low:high].tobytes(), (0, high - low)):
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

    def inner(self, number: int) -> Fields:
        """Return the fields of the last message nested in a field of each message; none without one."""
        begin, end = self.contents(number)
        return Fields(self.data, np.maximum(begin, 0), np.maximum(end, 0))


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
