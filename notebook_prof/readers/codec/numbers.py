"""Numbers as files spell them: microseconds become exact nanoseconds, ids become int64."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import BoolArray, IntArray

_LIMIT: Final = 1 << 62
_EXACT: Final = float(1 << 43)
_MOST_DIGITS: Final = 20
_LAST_DIGITS: Final = re.compile(r"(-?\d{1,20})$")


def exact_ns(values: Sequence[Any]) -> IntArray | None:
    """Convert microseconds to nanoseconds; None if their text is needed, or a value is not a number.

    >>> exact_ns([4392371366199.943, 2]).tolist(), exact_ns([1712195495521130.028])
    ([4392371366199943, 2000], None)
    """
    # A double below 2**43 µs (102 days) differs by less than half a nanosecond from the decimal text that it
    # was read from, so three decimals are recovered exactly. Kineto's ``baseTimeNanoseconds`` keeps times
    # below that. Whole numbers are always exact.
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


def to_ns(texts: Sequence[bytes], digits: int = 3) -> tuple[IntArray, BoolArray]:
    """Convert times as text (JSON numbers, or strings of them) to ns, with a mask of the numbers.

    >>> ns, ok = to_ns([b"1712195495521130.028", b"null"])
    >>> ns.tolist(), ok.tolist()
    ([1712195495521130028, 0], [True, False])
    """
    # `digits` is that of the unit's nanoseconds: 3 for microseconds, 6 for milliseconds.
    # A double holds 53 bits, but microseconds since 1970 with three decimals need 61: Arrow's decimals hold
    # 127. One text that is no number, or has more than 18 decimals, makes Arrow refuse all.
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(texts):
        return np.empty(0, np.int64), np.empty(0, bool)
    try:
        column = pc.utf8_trim(pa.array(b"\n".join(texts).split(b"\n"), pa.string()), '" ')
        exact = pc.if_else(pc.equal(column, ""), None, column).cast(pa.decimal128(38, 18))
        ns = pc.round(exact, digits, round_mode="half_to_even").cast(pa.decimal128(38, digits))
    except pa.ArrowInvalid:
        parsed = [_one_number(bytes(text), digits) for text in texts]
        ok = np.array([value is not None for value in parsed])
        return np.array([value or 0 for value in parsed], np.int64), ok
    low, high = np.frombuffer(ns.buffers()[1], np.int64)[2 * ns.offset :][: 2 * len(texts)].reshape(-1, 2).T
    ok = np.asarray(ns.is_valid()) & (high == low >> 63) & (low < _LIMIT) & (low > -_LIMIT)
    return np.where(ok, low, 0), ok


def packed(values: Sequence[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return numbers as a read-only array; two to three times faster than `numpy.fromiter`."""
    # struct.error if a value does not have this type.
    return np.frombuffer(struct.pack(f"{len(values)}{np.dtype(dtype).char}", *values), dtype)


def integers(values: Sequence[int | str | None]) -> IntArray:
    """Return numbers and ids as int64, -1 if missing. Unsigned numbers beyond the range wrap around."""
    # Some versions write ids of threads and devices as text, such as ``"stream 7"``.
    try:
        return packed(values, np.int64)
    except struct.error:
        numbers = {value: number_of(value) for value in set(values)}
        return np.array([numbers[value] for value in values], np.int64)


def number_of(value: int | str | None) -> int:
    """Return the number in an id: the id itself, or the digits at the end of a text; -1 for none.

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


def _one_number(text: bytes, digits: int = 3) -> int | None:
    try:
        value = Decimal(text.strip(b'" ').decode())
        # check the size before converting to an integer, since 1e999999999 is a number too
        fits = value.is_finite() and value.adjusted() < _MOST_DIGITS
        ns = int((value * 10**digits).to_integral_value()) if fits else None
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return ns if ns is not None and abs(ns) < _LIMIT else None
