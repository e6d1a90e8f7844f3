"""Where the numbers of events are: found once for all events that differ in their digits only.

torch writes every event in the same way, so most of them are, around the bracket that opens their
arguments, a *form* filled with digits. A form is understood by regular expressions, which prove that its
text is JSON whatever the digits are, but for zeros in front.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from .coding import Numbers
from .columns import Ints
from .digits import MOST_DIGITS, whole_before
from .rows import AllArguments
from .stretches import Bytes, alike

LEFT: Final = 72
"""How much text is looked at up to and with the bracket; enough for the times before it."""

Codes = npt.NDArray[np.int32]

_FIELDS: Final = ("times", "ts", "ts_end", "dur", "dur_end", "args", "end")
_OF_NUMBER: Final = ("start", "end", "sign")
_ZEROS: Final = tuple(f"zero {i}" for i in range(10))

_TIME: Final = rb"0{1,16}(?:\.000)?"
_TIMES: Final = re.compile(
    rb'"ts": ?(?P<ts>%b)\s*,\s*(?:"dur": ?(?P<dur>%b)\s*,\s*)?"args": ?\{\Z' % (_TIME, _TIME)
)
_ITEM: Final = re.compile(rb'\s*"([^"\\\x01-\x1f]+)": ?(-?)(0+(?:\.0+)?|null|true|false)(?=\s*[,}])')
_COMMA: Final = re.compile(rb"\s*,\s*")
_CLOSED: Final = re.compile(rb"\s*\}\s*\}\s*,\s*(?=\{)")
_TAIL: Final = re.compile(rb'(?:\s*,\s*"([^"\\\x01-\x1f]+)": ?-?(0+))?\s*\}\s*\}\s*,\s*\Z')
_READ: Final = frozenset(name.encode() for name in AllArguments.__struct_encode_fields__)


class Forms:
    """Forms of texts around the brackets of arguments.

    Parameters
    ----------
    width : int
        How much text is looked at, `LEFT` of it up to and with the bracket.
    numbers : mapping of str to str
        Names of columns, and the keys of the arguments from which they are read.

    Attributes
    ----------
    places : dict of ndarray of int32
        For each form, where in the text is what: ``times`` the key of the start, ``ts ts_end dur dur_end``
        the numbers (-1 for none), ``args`` where the arguments go on behind the numbers at their beginning,
        ``end`` where the event and the comma behind it end, -1 if that is not in the text. ``times`` is -1
        for forms that are not understood. Of each column ``NAME start``, ``NAME end`` and ``NAME sign``.
    """

    def __init__(self, width: int, numbers: Mapping[str, str]) -> None:
        self.width = width
        self._names = {key.encode(): name for name, key in numbers.items()}
        self._forms = Numbers()
        told = (f"{name} {what}" for name in numbers for what in _OF_NUMBER)
        self._columns = (*_FIELDS, *told, *_ZEROS)
        self.places = {name: np.empty(0, np.int32) for name in self._columns}

    def __len__(self) -> int:
        return len(self._forms)

    def of(self, texts: Bytes) -> Codes:
        """The form of each text; see `stretches.windows`."""
        before = len(self._forms)
        forms = alike(texts, self.width, self._forms)
        if len(self._forms) > before:
            fresh = [self._understood(form) for form in islice(self._forms, before, None)]
            for name, values in self.places.items():
                more = [each.get(name, -1) for each in fresh]
                self.places[name] = np.concatenate([values, np.array(more, np.int32)])
        return forms

    def no_zeros(self, texts: Bytes, forms: Codes) -> npt.NDArray[np.bool_]:
        """Texts in which no number of two or more digits starts with a zero, which JSON forbids."""
        good = np.ones(len(forms), bool)
        begin = np.arange(len(forms)) * self.width
        for name in _ZEROS:
            at = self.places[name][forms]
            if at.max(initial=-1) < 0:
                break
            good &= (texts[begin + at] != ord("0")) | (at < 0)
        return good

    def numbers(self, name: str, texts: Bytes, forms: Codes, rows: Ints, nothing: int) -> Ints:
        """The numbers of one column in some of the texts; `nothing` where there is none."""
        end = self.places[f"{name} end"][forms[rows]]
        told = np.flatnonzero(end >= 0)
        rows, end, result = rows[told], end[told], np.full(len(rows), nothing, np.int64)
        digits = end - self.places[f"{name} start"][forms[rows]]
        values = whole_before(texts, rows * self.width + end, digits)
        result[told] = values * self.places[f"{name} sign"][forms[rows]]
        return result

    def _understood(self, form: bytes) -> dict[str, int]:
        text = form.replace(b"\0", b"0")
        times = _TIMES.search(text, 0, LEFT)
        if times is None:
            return {}
        found = {"times": times.start(), "args": LEFT}
        found["ts"], found["ts_end"] = times.span("ts")
        found["dur"], found["dur_end"] = times.span("dur")
        zeros = [times.start(name) for name in ("ts", "dur") if (times[name] or b"").startswith(b"00")]
        while item := _ITEM.match(text, found["args"]):
            name = self._names.get(item[1])
            if item[1] in _READ if name is None else not _is_whole(item[3]):
                break
            if name is not None:
                found[f"{name} start"], found[f"{name} end"] = item.span(3)
                found[f"{name} sign"] = -1 if item[2] else 1
            if item[3].startswith(b"00"):
                zeros.append(item.start(3))
            if more := _COMMA.match(text, item.end()):
                found["args"] = more.end()
                continue
            if closed := _CLOSED.match(text, item.end()):
                found["args"] = found["end"] = closed.end()
            break
        if len(zeros) > len(_ZEROS):
            return {}
        return found | dict(zip(_ZEROS, zeros, strict=False))


class Tails:
    """Ends of events, with a last argument that nobody reads.

    Parameters
    ----------
    width : int
        How much text is looked at.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._forms = Numbers()
        self._lengths = self._zeros = np.empty(0, np.int32)

    def __len__(self) -> int:
        return len(self._forms)

    def lengths(self, texts: Bytes) -> Codes:
        """How long the tail of each text is, with the comma behind the event; -1 where it is none."""
        before = len(self._forms)
        forms = alike(texts, self.width, self._forms)
        if len(self._forms) > before:
            fresh = [self._understood(form) for form in islice(self._forms, before, None)]
            more = np.array(fresh, np.int32).T
            self._lengths = np.concatenate([self._lengths, more[0]])
            self._zeros = np.concatenate([self._zeros, more[1]])
        zero = self._zeros[forms]
        bad = (texts[np.arange(len(forms)) * self.width + zero] == ord("0")) & (zero >= 0)
        return np.where(bad, np.int32(-1), self._lengths[forms])

    def _understood(self, form: bytes) -> tuple[int, int]:
        text = form.replace(b"\0", b"0")
        found = _TAIL.search(text)
        if found is None:
            return -1, -1
        if found[1] is None or found[1] in _READ:
            return self.width - (found.end(2) if found[1] else found.start()), -1
        return self.width - found.start(), found.start(2) if found[2].startswith(b"00") else -1


def _is_whole(number: bytes) -> bool:
    return number.startswith(b"0") and b"." not in number and len(number) <= MOST_DIGITS
