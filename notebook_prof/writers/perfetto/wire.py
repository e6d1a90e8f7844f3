"""Writes protocol buffers: single messages, and columns of many messages at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import BoolArray, IntArray

VARINT, FIXED64, LENGTH = 0, 1, 2
_STARTS: Final = np.array([1 << 7 * k for k in range(1, 10)], np.uint64)


def varint(value: int) -> bytes:
    """Encode a number with seven bits per byte, and a negative one as its 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, kind: int) -> bytes:
    """Return the tag of a field."""
    return varint(number << 3 | kind)


def number_field(number: int, value: int) -> bytes:
    """Return a field with an integer."""
    return tag(number, VARINT) + varint(value)


def bytes_field(number: int, content: bytes | str) -> bytes:
    """Return a field with a text or a message; half a surrogate in a text becomes a question mark."""
    raw = content.encode(errors="replace") if isinstance(content, str) else content
    return tag(number, LENGTH) + varint(len(raw)) + raw


def sizes(values: IntArray) -> IntArray:
    """Return the encoded size of each number: 1 byte for 127, 2 for 128, 10 for -1."""
    words = values.view(np.uint64)
    most = words.max(initial=0)
    size = np.ones(len(values), np.int64)
    for start in _STARTS[: int(np.searchsorted(_STARTS, most, side="right"))]:
        size += words >= start
    return size


class MessageColumn:
    """A part of many messages: common bytes, and numbers of each message.

    >>> MessageColumn(2).constant(b"\\x08").varint(np.array([1, 150])).array().to_pylist()
    [b'\\x08\\x01', b'\\x08\\x96\\x01']
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._bytes: list[npt.NDArray[np.uint8]] = []
        self._present: list[BoolArray] = []

    def constant(self, content: bytes, where: BoolArray | None = None) -> MessageColumn:
        """Add bytes, to all messages or to some."""
        shape = (self._count, len(content))
        present = np.ones(shape, bool) if where is None else np.broadcast_to(where[:, None], shape)
        return self._add(np.broadcast_to(np.frombuffer(content, np.uint8), shape), present)

    def varint(self, values: IntArray, where: BoolArray | None = None) -> MessageColumn:
        """Add a number of each message."""
        words = values.astype(np.int64, copy=False).view(np.uint64)
        size = sizes(words.view(np.int64)).astype(np.int8)
        width = int(size.max(initial=1))
        present = np.arange(width, dtype=np.int8) < size[:, None]
        content = np.empty((self._count, width), np.uint8)
        for byte in range(width):
            content[:, byte] = (words >> np.uint64(7 * byte)).astype(np.uint8)
        content[:, : width - 1] |= 0x80
        content[np.arange(self._count), size - 1] &= 0x7F
        return self._add(content, present if where is None else present & where[:, None])

    def fixed64(self, values: npt.NDArray[Any], where: BoolArray | None = None) -> MessageColumn:
        """Add 64 bits of each message."""
        content = np.ascontiguousarray(values).view(np.uint8).reshape(self._count, 8)
        present = np.ones((self._count, 8), bool)
        return self._add(content, present if where is None else present & where[:, None])

    def array(self) -> Any:
        """Return the pieces as a `pyarrow.LargeBinaryArray`."""
        present = np.concatenate(self._present, axis=1)
        content = np.concatenate(self._bytes, axis=1)[present]
        return binary_array(content, present.sum(axis=1))

    def _add(self, content: npt.NDArray[np.uint8], present: BoolArray) -> MessageColumn:
        self._bytes.append(content)
        self._present.append(present)
        return self


def binary_array(content: npt.NDArray[np.uint8], length: IntArray) -> Any:
    """Return concatenated bytes as a `pyarrow.LargeBinaryArray`, cut into these lengths."""
    import pyarrow as pa

    offsets = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(length), buffers)


def chosen(texts: list[bytes], codes: IntArray) -> Any:
    """Return one of `texts` for each code; empty for -1."""
    import pyarrow as pa

    table = pa.array([*texts, b""], pa.large_binary())
    return table.take(pa.array(np.where(codes < 0, len(texts), codes)))


def concatenated(*columns: Any) -> Any:
    """Concatenate the pieces of each message."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = pa.scalar(b"", pa.large_binary())
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, nothing)


def lengths(column: Any) -> IntArray:
    """Return the number of bytes of each message."""
    import pyarrow.compute as pc

    return np.asarray(pc.binary_length(column).to_numpy(zero_copy_only=False), np.int64)
