"""Where the events of a list begin and end, told by their brackets."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from .columns import Ints
from .stretches import Bytes

_OPEN, _NEWLINE, _COLON = (ord(sign) for sign in "{\n:")
_WORD: Final = 8
_ONE: Final = np.uint64(1)


class Brackets(NamedTuple):
    """Positions of events.

    Attributes
    ----------
    begin : ndarray of int64
        Of the bracket that opens each event.
    until : ndarray of int64
        Of that of the next one.
    args : ndarray of int64
        Of the bracket that opens its arguments; that of the event where there are none.
    """

    begin: Ints
    until: Ints
    args: Ints


def brackets(codes: Bytes, end: int) -> Brackets | None:
    """Find the events in a text that is broken into lines behind all brackets that open something.

    That they are whole events is an assumption, which the text between the brackets proves.

    Parameters
    ----------
    codes : ndarray of uint8
        The text, with some other character before the first bracket and behind `end`.
    end : int
        Of a bracket behind the last event.

    Returns
    -------
    Brackets or None
        None if there are no such events, or something in them has brackets too.

    Examples
    --------
    >>> text = b'  {\\n"args": {\\n"a": 1}}, {\\n"b": "{"}, { '
    >>> brackets(np.frombuffer(text, np.uint8), 38)
    Brackets(begin=array([ 2, 24]), until=array([24, 38]), args=array([12, 24]))
    """
    every = _every(codes)
    lines = every[codes[np.minimum(every + 1, len(codes) - 1)] == _NEWLINE]
    events = np.flatnonzero(codes[lines - 2] != _COLON)
    count = np.diff(np.append(events, len(lines)))
    if not len(events) or events[0] > 0 or count.max() > 2:
        return None
    begin = lines[events]
    return Brackets(begin, np.append(begin[1:], end), lines[events + count - 1])


def _every(codes: Bytes) -> Ints:
    """Of all opening brackets; eight bytes at a time, as there are few."""
    found = codes == _OPEN
    whole = len(found) // _WORD * _WORD
    words = found[:whole].view("<u8")
    at = np.flatnonzero(words != 0)
    bits = words[at]
    if (bits & (bits - _ONE)).any() or found[whole:].any():
        return np.flatnonzero(found)
    # a power of two, whose logarithm is in the exponent of the double
    place = (bits.astype(np.float64).view(np.int64) >> 52) - 1023
    return np.asarray(at * _WORD + (place >> 3))
