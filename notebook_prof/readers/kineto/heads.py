"""What events begin with, up to their times: each distinct text is decoded once."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .coding import BOOKKEEPING, NAMELESS, Numbers, flag_of_kind, flag_of_name
from .columns import Ints
from .identifiers import identifiers
from .ranges import KIND
from .rows import UNDECODABLE, Instant, Variant, complete_type, row_decoder
from .stretches import numbered

_PLAIN: Final = Variant(None, text_times=True)
_TIMES: Final = b'"ts":1,"dur":1}'
_NOT_HERE: Final = (b'"ts"', b'"dur"', b'"args"', b"\\u00")
_NEW: Final = -1

Span: Final = complete_type(_PLAIN)
"""The type of events with a duration."""


class Heads:
    """Beginnings of events.

    Parameters
    ----------
    wanted : type
        Of which events: `Span` or `Instant`.

    Attributes
    ----------
    rows : list
        The decoded events; None for those that are not wanted, or have to be looked at one by one.
    good : ndarray of bool
    flags : ndarray of uint8
        Of kind and name.
    pid, tid : ndarray of int64
    """

    def __init__(self, wanted: type[Any] = Span) -> None:
        self._wanted = wanted
        self._texts = Numbers()
        self.rows: list[Any] = []
        self.good, self.flags = np.empty(0, bool), np.empty(0, np.uint8)
        self.pid = self.tid = np.empty(0, np.int64)

    def of(self, text: bytes, start: Ints, end: Ints) -> npt.NDArray[np.int32]:
        """Numbers of the texts from the opening brackets to the keys of the times."""
        before = len(self._texts)
        heads = numbered(text, start, end, self._texts)
        if len(self._texts) > before:
            fresh = [self._decoded(head) for head in islice(self._texts, before, None)]
            self.rows += fresh
            flags = [0 if row is None else _flag(row) for row in fresh]
            self.good = np.append(self.good, [row is not None for row in fresh])
            self.flags = np.append(self.flags, np.array(flags, np.uint8))
            self.pid = np.append(self.pid, [identifiers([row and row.pid])[0] for row in fresh])
            self.tid = np.append(self.tid, [identifiers([row and row.tid])[0] for row in fresh])
        return heads

    def __len__(self) -> int:
        return len(self._texts)

    def _decoded(self, head: bytes) -> Any:
        if any(key in head for key in _NOT_HERE):
            return None
        try:
            row = row_decoder(_PLAIN).decode(head + _TIMES)
        except UNDECODABLE:
            return None
        if row.__class__ is not self._wanted:
            return None
        if self._wanted is not Instant and (row.cat == KIND or _flag(row) & (BOOKKEEPING | NAMELESS)):
            return None
        return row


class Coding:
    """Numbers of a value of each thing, given when it is first kept.

    Parameters
    ----------
    numbers : Numbers
    """

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._codes = np.empty(0, np.int32)

    def column(self, things: npt.NDArray[np.int32], values: Any) -> npt.NDArray[np.int32]:
        """The number of ``values[thing]``, for each thing."""
        if (missing := int(things.max(initial=-1)) + 1 - len(self._codes)) > 0:
            self._codes = np.append(self._codes, np.full(missing, _NEW, np.int32))
        found = self._codes[things]
        if found.min(initial=0) == _NEW:
            for thing in dict.fromkeys(things[found == _NEW].tolist()):
                self._codes[thing] = self._numbers[values(thing)]
            found = self._codes[things]
        return np.asarray(found)


def _flag(row: Any) -> int:
    return flag_of_kind(getattr(row, "cat", "")) | flag_of_name(row.name)
