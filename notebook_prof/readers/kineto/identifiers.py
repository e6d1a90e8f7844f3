"""Numbers and ids as int64, in every spelling that the files have."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from .columns import Ints

_DIGITS: Final = re.compile(r"(-?\d{1,20})$")


def integers(values: list[int]) -> Ints:
    """Numbers as int64; those that need 64 bits without a sign wrap around."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return np.array([number_of(value) for value in values], np.int64)


def identifiers(values: list[int | str | None]) -> Ints:
    """Process, thread and device ids, which some versions write as text (``"stream 7"``); -1 for none."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        known = {value: number_of(value) for value in set(values)}
        return np.array([known[value] for value in values], np.int64)


def number_of(value: int | str | None) -> int:
    """The number in an id: itself, or the digits at the end of a text; -1 for none.

    Examples
    --------
    >>> number_of("stream 7"), number_of(None), number_of(2**64 - 1)
    (7, -1, -1)
    """
    if isinstance(value, str):
        found = _DIGITS.search(value)
        value = int(found[1]) if found else -1
    if value is None:
        return -1
    value &= (1 << 64) - 1
    return value if value < (1 << 63) else value - (1 << 64)
