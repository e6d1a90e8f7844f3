"""Reads the wire format of protocol buffers, without a schema or a library."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

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
