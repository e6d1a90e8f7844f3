"""Numbers as files spell them: microseconds become exact nanoseconds, ids become int64."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray

_NEWLINE, _DOT, _MINUS, _ZERO, _NINE = (ord(sign) for sign in "\n.-09")
_LIMIT: Final = 1 << 62
_EXACT: Final = float(1 << 43)
_MOST_DIGITS: Final = 20
_WHOLE, _FRACTION = 16, 24
_LAST_DIGITS: Final = re.compile(r"(-?\d{1,20})$")


def exact_ns(values: Sequence[Any]) -> IntArray | None:
    """Convert microseconds to nanoseconds, if no precision was lost when their text became numbers.

    A double below 2**43 µs (102 days) differs by less than half a nanosecond from the decimal text that it
    was read from, so three decimals are recovered exactly. Kineto's ``baseTimeNanoseconds`` keeps times below
    that. Whole numbers are always exact.

    Parameters
    ----------
    values : sequence of int or float

    Returns
    -------
    ndarray of int64 or None
        None if the text is needed, or a value is not a number.

    Examples
    --------
    >>> exact_ns([4392371366199.943, 2]).tolist()
    [4392371366199943, 2000]
    >>> exact_ns([1712195495521130.028]) is None
    True
    """
    if not len(values):
        return np.empty(0, np.int64)
    try:
        if type(values[0]) is int:
            whole = np.array(values)
            if whole.dtype == np.int64 and (np.abs(whole) < _LIMIT // 1000).all():
                return np.asarray(whole * 1000)
        floats = packed(values, np.float64)
    except (TypeError, ValueError, OverflowError, struct.error):
        return None
    if not (np.abs(floats) < _EXACT).all():
        return None
    down = np.floor(floats)
    return np.asarray(down.astype(np.int64) * 1000 + np.rint((floats - down) * 1000).astype(np.int64))


def to_ns(texts: Sequence[bytes]) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Convert microseconds, given as text, to nanoseconds.

    A double holds 53 bits, but microseconds since 1970 with three decimals need 61. So the text is read as an
    integer.

    Parameters
    ----------
    texts : sequence of bytes-like
        JSON numbers (``1712195495521130.028``), or JSON strings that contain them.

    Returns
    -------
    ns : ndarray of int64
        Rounded to whole nanoseconds; 0 for texts that are not numbers.
    ok : ndarray of bool

    Examples
    --------
    >>> ns, ok = to_ns([b"1712195495521130.028", b"null"])
    >>> ns.tolist(), ok.tolist()
    ([1712195495521130028, 0], [True, False])
    """
    n = len(texts)
    if n == 0:
        return np.empty(0, np.int64), np.empty(0, bool)
    joined = b"\n".join(texts) + b"\n"
    for decimals in (3, 0):
        if (values := _uniform(joined, n, decimals)) is not None:
            return values, np.ones(n, bool)
    if (values := _plain_decimals(joined, n)) is not None:
        return values, np.ones(n, bool)
    parsed = [_one_number(bytes(text)) for text in texts]
    ok = np.fromiter((value is not None for value in parsed), bool, n)
    return np.fromiter((value or 0 for value in parsed), np.int64, n), ok


def packed(values: Sequence[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return numbers as a read-only array; two to three times faster than `numpy.fromiter`."""
    # struct.error if a value does not have this type.
    return np.frombuffer(struct.pack(f"{len(values)}{np.dtype(dtype).char}", *values), dtype)


def integers(values: list[int]) -> IntArray:
    """Return numbers as int64. Unsigned 64-bit numbers beyond its range wrap around."""
    try:
        return packed(values, np.int64)
    except struct.error:
        return np.array([number_of(value) for value in values], np.int64)


def identifiers(values: list[int | str | None]) -> IntArray:
    """Return ids of processes, threads and devices as int64; -1 for none."""
    # Some versions write them as text, such as ``"stream 7"``.
    try:
        return packed(values, np.int64)
    except struct.error:
        numbers = {value: number_of(value) for value in set(values)}
        return np.array([numbers[value] for value in values], np.int64)


def number_of(value: int | str | None) -> int:
    """Return the number in an id: the id itself, or the digits at the end of a text; -1 for none.

    Examples
    --------
    >>> number_of("stream 7"), number_of(None), number_of(2**64 - 1)
    (7, -1, -1)
    """
    if isinstance(value, str):
        match = _LAST_DIGITS.search(value)
        value = int(match[1]) if match else -1
    if value is None:
        return -1
    value &= (1 << 64) - 1
    return value if value < (1 << 63) else value - (1 << 64)


def _uniform(joined: bytes, n: int, decimals: int) -> IntArray | None:
    """Parse all at once, if every number has exactly this many decimals."""
    codes = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(codes == _NEWLINE)
    dots = np.flatnonzero(codes == _DOT)
    starts = np.concatenate([[0], ends[:-1] + 1])
    minus = np.flatnonzero(codes == _MINUS)
    digits = int(((codes >= _ZERO) & (codes <= _NINE)).sum())
    if len(ends) != n or digits + len(dots) + len(minus) + n != len(codes):
        return None
    if (ends - starts < 1 + (decimals + 1 if decimals else 0)).any() or not np.isin(minus, starts).all():
        return None
    if decimals:
        if len(dots) != n or not ((ends - dots) == decimals + 1).all():
            return None
        joined = joined.replace(b".", b"")
    elif len(dots):
        return None
    if (codes[ends - 1] < _ZERO).any():
        return None
    values = np.fromstring(joined, dtype=np.int64, sep="\n")
    scale = 10 ** (3 - decimals)
    # numbers that do not fit have become the largest one
    if len(values) != n or values.max() >= _LIMIT // scale or values.min() <= -_LIMIT // scale:
        return None
    return np.asarray(values * scale)


def _plain_decimals(joined: bytes, n: int) -> IntArray | None:
    """Parse all at once, digit by digit, if every text is a plain decimal number of moderate length."""
    codes = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(codes == _NEWLINE)
    if len(ends) != n:
        return None
    starts = np.concatenate([[0], ends[:-1] + 1])
    negative = codes[starts] == _MINUS
    starts = starts + negative
    dots = np.flatnonzero(codes == _DOT)
    digits = int(((codes >= _ZERO) & (codes <= _NINE)).sum())
    owner = np.searchsorted(ends, dots)
    if digits + len(dots) + int(negative.sum()) + n != len(codes) or (np.diff(owner) == 0).any():
        return None
    point = ends.copy()
    point[owner] = dots
    whole, fraction = point - starts, np.maximum(ends - point - 1, 0)
    if whole.min() < 1 or whole.max() > _WHOLE or fraction.max() > _FRACTION or (ends == point + 1).any():
        return None
    values = np.zeros(n, np.int64)
    for i in range(int(whole.max())):
        inside = i < whole
        values = np.where(inside, values * 10 + codes[np.where(inside, starts + i, 0)] - _ZERO, values)
    if values.max() >= _LIMIT // 1000:
        return None

    def digit(i: int) -> IntArray:
        return np.where(
            i < fraction, codes[np.where(i < fraction, point + 1 + i, 0)].astype(np.int64) - _ZERO, 0
        )

    for i in range(3):
        values = values * 10 + digit(i)
    # round by the remaining digits, half to even
    below = np.zeros(n, bool)
    for i in range(4, int(fraction.max())):
        below |= digit(i) > 0
    next_digit = digit(3)
    values += (next_digit > 5) | ((next_digit == 5) & (below | (values % 2 == 1)))
    return np.where(negative, -values, values)


def _one_number(text: bytes) -> int | None:
    try:
        value = Decimal(text.strip(b'" ').decode())
        # check the size before converting to an integer, since 1e999999999 is a number too
        fits = value.is_finite() and value.adjusted() < _MOST_DIGITS
        ns = int((value * 1000).to_integral_value()) if fits else None
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return ns if ns is not None and abs(ns) < _LIMIT else None
