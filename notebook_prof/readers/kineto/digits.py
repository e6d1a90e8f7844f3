"""Decimal numbers inside a text, eight digits at a time."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from .columns import Ints
from .stretches import Bytes, windows

Words = npt.NDArray[np.uint64]

MOST_DIGITS: Final = 18
"""So many digits always fit into 64 bits."""

_WORD: Final = 8
_LONG: Final = 3 * _WORD
_DECIMALS: Final = 3
_DOT: Final = ord(".")
_LIMIT: Final = 1 << 62
_ZEROS: Final = np.uint64(0x3030303030303030)
_KEPT: Final = np.array([0, *((1 << 64) - (1 << 8 * (8 - k)) for k in range(1, 9))], np.uint64)
"""Masks of the last 0 to 8 bytes of a little-endian word."""


def whole_before(codes: Bytes, end: Ints, digits: Ints) -> Ints:
    """Whole numbers that end at `end` and have so many digits, `MOST_DIGITS` at most.

    Parameters
    ----------
    codes : ndarray of uint8
        The text. What is to be read must be digits.
    end, digits : ndarray of int

    Examples
    --------
    >>> whole_before(np.frombuffer(b" " * 24 + b"1234567890", np.uint8), np.array([34]), np.array([10]))
    array([1234567890])
    """
    most = int(digits.max(initial=0))
    near = _WORD if most <= _WORD else _LONG
    words = windows(codes, end - near, near).view("<u8").reshape(-1, near // _WORD)
    return _value(words[:, -1], _WORD, words, digits, most)


def thousandths_before(codes: Bytes, end: Ints, length: Ints) -> Ints:
    """Numbers with three decimals that end at `end` and have so many digits and a point, in thousandths.

    Examples
    --------
    >>> text = np.frombuffer(b" " * 24 + b"4392371366199.943", np.uint8)
    >>> thousandths_before(text, np.array([41]), np.array([17]))
    array([4392371366199943])
    """
    most = int(length.max(initial=0)) - 1
    near = 2 * _WORD if most < 2 * _WORD else _LONG
    words = windows(codes, end - near, near).view("<u8").reshape(-1, near // _WORD)
    last = words[:, -1]
    # the three bytes behind the point stay, the four before it move into its place
    moved = ((last & np.uint64(0xFFFFFFFF)) << np.uint64(8)) | (last & np.uint64(0xFFFFFF0000000000))
    return _value(moved, _WORD - 1, words, length - 1, most)


def _value(last: Words, holds: int, words: Words, digits: Ints, most: int) -> Ints:
    """Numbers of so many digits; `last` holds up to `holds` of them, the words before it eight each."""
    value = _of_eight((last ^ _ZEROS) & _KEPT[np.minimum(digits, holds)])
    factor, column = 10**holds, words.shape[1] - 2
    while most > holds:
        word = (words[:, column] ^ _ZEROS) & _KEPT[np.clip(digits - holds, 0, _WORD)]
        value += _of_eight(word) * np.uint64(factor)
        holds, factor, column = holds + _WORD, factor * 10**_WORD, column - 1
    return value.view(np.int64)


def _of_eight(digits: Words) -> Words:
    """Numbers of eight digits (0 to 9, the first in the lowest byte): pairs, fours, then all eight."""
    pairs = (digits * np.uint64(10) + (digits >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs * np.uint64(100) + (pairs >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (fours * np.uint64(10_000) + (fours >> np.uint64(32))) & np.uint64(0xFFFFFFFF)


def microseconds_before(codes: Bytes, end: Ints, length: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Microseconds that end at `end` and are that long, as nanoseconds.

    Returns
    -------
    ns : ndarray of int64
    good : ndarray of bool
        Numbers with three decimals or with none, whichever the first has, that are not too large.
    """
    dotted = codes[end - _DECIMALS - 1] == _DOT
    usual = bool(dotted[:1].all())
    ns = (thousandths_before if usual else whole_before)(codes, end, length)
    scale = 1 if usual else 1000
    good = (dotted == usual) & (ns >= 0) & (ns < _LIMIT // scale)
    return ns * scale, good
