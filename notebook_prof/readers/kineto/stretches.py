"""Many stretches of one text at once: their bytes, and which of them are the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .coding import Numbers
from .columns import Ints

Bytes = npt.NDArray[np.uint8]

_ZERO: Final = ord("0")
_TEN: Final = 10
_EVERY_OTHER: Final = b"\x55"


def windows(codes: Bytes, at: Ints, width: int) -> Bytes:
    """`width` bytes from each of the positions `at`, one after the other.

    Examples
    --------
    >>> windows(np.frombuffer(b"abcdef", np.uint8), np.array([3, 0]), 2).tobytes()
    b'deab'
    """
    if not len(at):
        return np.empty(0, np.uint8)
    # items of no type are copied from wherever they are
    items = np.ndarray((len(codes) - width + 1,), f"V{width}", codes.data, strides=(1,))
    return np.asarray(items[at]).view(np.uint8)


def numbered(text: bytes, start: Ints, end: Ints, numbers: Numbers) -> npt.NDArray[np.int32]:
    """Numbers of stretches of a text; an object is made for each distinct one only.

    Parameters
    ----------
    text : bytes
        Shorter than 2 GiB.
    start, end : ndarray of int64
        In order, without overlaps.
    numbers : Numbers
        Gives a number to each.

    Examples
    --------
    >>> numbers = Numbers()
    >>> numbered(b"ab, cd, ab", np.array([0, 4, 8]), np.array([2, 6, 10]), numbers).tolist(), list(numbers)
    ([0, 1, 0], [b'ab', b'cd'])
    """
    import pyarrow as pa

    if not (n := len(start)):
        return np.empty(0, np.int32)
    bounds = np.empty(2 * n + 1, np.int32)
    bounds[0:-1:2], bounds[1::2], bounds[-1] = start, end, end[-1]
    # what is between two stretches counts as missing
    valid = pa.py_buffer(_EVERY_OTHER * (n // 4 + 1))
    every = pa.Array.from_buffers(pa.binary(), 2 * n, [valid, pa.py_buffer(bounds), pa.py_buffer(text)])
    found = every.dictionary_encode()
    _, offsets, data = found.dictionary.buffers()
    distinct = data.to_pybytes() if data is not None else b""
    ends = np.frombuffer(offsets, np.int32, len(found.dictionary) + 1).tolist()
    values = [distinct[a:b] for a, b in pairwise(ends)]
    return _looked_up(found, values, numbers, 2 * n)[::2]


def alike(texts: Bytes, width: int, numbers: Numbers) -> npt.NDArray[np.int32]:
    """Numbers of windows of `width` bytes, where all digits are the same digit: NUL.

    Examples
    --------
    >>> numbers = Numbers()
    >>> alike(np.frombuffer(b'"a":1"b":2"a":3', np.uint8), 5, numbers).tolist(), list(numbers)
    ([0, 1, 0], [b'"a":\\x00', b'"b":\\x00'])
    """
    import pyarrow as pa

    if not (n := len(texts) // width):
        return np.empty(0, np.int32)
    digits = texts - np.uint8(_ZERO)
    others = np.greater_equal(digits, _TEN, out=digits.view(bool)).view(np.uint8)
    masked = np.multiply(texts, others, out=others)
    array = pa.Array.from_buffers(pa.binary(width), n, [None, pa.py_buffer(masked)])
    found = array.dictionary_encode()
    distinct = found.dictionary.buffers()[1].to_pybytes()
    values = [distinct[at : at + width] for at in range(0, len(found.dictionary) * width, width)]
    return _looked_up(found, values, numbers, n)


def _looked_up(found: Any, values: list[bytes], numbers: Numbers, count: int) -> npt.NDArray[np.int32]:
    known = numbers.column(values, len(values))
    return np.asarray(known[np.frombuffer(found.indices.buffers()[1], np.int32, count)])
