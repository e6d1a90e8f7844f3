"""The filter language of Python, the command line and the page's filter box. A pure parser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import OptionError
from ..units import parse_ns

TIMES: Final = ("self", "total", "device", "time", "dur", "mean", "avg", "min", "max", "host", "gap")
NUMBERS: Final = ("count", "share", "flops", "bytes", "bandwidth", "intensity", "depth", "stream", "rank")
EXACT: Final = ("category", "phase", "type", "kind", "line")
PARTS: Final = ("name", "module", "dtype", "shapes", "file", "thread")
STEP: Final = "step"
FIELDS: Final = (*TIMES, *NUMBERS, *EXACT, *PARTS, STEP)
"""Fields that a condition may have."""

_TOKEN: Final = re.compile(r'/(?:\\.|[^/\\])+/(?=\s|$)|"[^"]*"|\S+')
_UNIT: Final = r"(ns|us|µs|ms|s|min|%|[KMGT]i?B)(?=\s|$)"
_SPACED: Final = re.compile(rf"\b({'|'.join((*TIMES, *NUMBERS))})\s*(>=|<=|!=|>|<|=)\s*([\d.]+)\s+{_UNIT}")
_GAPS: Final = re.compile(rf"\b({'|'.join(FIELDS)})\s*(>=|<=|!=|>|<|=)\s*(?=\S)")
_CONDITION: Final = re.compile(r"([A-Za-z_]+)(>=|<=|!=|>|<|=)(.+)")
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(%|[KMGTP]?i?B|[KMGTP])?")
_SCALES: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_STEPS: Final = re.compile(r"(\d+)?(:)?(\d+)?")


class Condition(NamedTuple):
    """A condition ``field operator value``."""

    field: str
    operator: str
    # For times nanoseconds, for percentages a share, otherwise bytes or a plain number. For texts, a tuple of
    # words. For steps, a tuple of half-open ranges ``(start, stop)``, with None for an open end.
    value: float | tuple[str, ...] | tuple[tuple[int | None, int | None], ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed filter. All of its parts must hold."""

    # Words that must all occur, in lower case.
    words: tuple[str, ...] = ()
    # Regular expressions that must all match, ignoring case.
    patterns: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Query:
        """Parse a filter.

        Parameters
        ----------
        text : str
            Any of these, in any order, separated by blanks:

            - words (``conv``, ``"two words"``): part of the name, ignoring case;
            - ``/regular expression/``, in RE2's syntax: without look-around and backreferences, so matching
              takes time linear in the length of the names;
            - ``self>1ms``, ``total<=5us``, ``device>=0.5s``, ``count>10``, ``share>5%``, ``bytes>1MiB``, with
              ``> >= < <= = !=``; a time without a unit is in ns;
            - ``line=12``, ``line=train.py:3``: the work of these source lines;
            - ``category=kernel,memcpy`` (or ``type=``), ``phase=backward``, ``phase!=data``: one of these
              words; ``module=layers.0``, ``dtype=half``: part of the text;
            - ``step=5``, ``step=3:7`` (3 to 6, like a Python slice), ``step=3:``, ``step=2,4``.

        Returns
        -------
        Query
            An empty text gives an empty query, which everything passes. A condition on an unknown field
            (``kernel<4``) is treated as a word.

        Raises
        ------
        OptionError
            If a value is invalid for its field, a regular expression is invalid, or a field is misspelt.
        """
        words: list[str] = []
        patterns: list[str] = []
        conditions: list[Condition] = []
        if "/" not in text and '"' not in text:
            text = _GAPS.sub(r"\1\2", _SPACED.sub(r"\1\2\3\4", text))
        for token in _TOKEN.findall(text):
            if len(token) > 2 and token[0] == token[-1] == "/":
                patterns.append(_pattern(token))
            elif len(token) > 2 and token[0] == token[-1] == '"':
                words.append(token[1:-1].casefold())
            elif (match := _CONDITION.fullmatch(token)) and _is_field(match[1], match[3]):
                conditions.append(_condition(match[1].casefold(), match[2], match[3]))
            else:
                words.append(token.casefold())
        return cls(tuple(words), tuple(patterns), tuple(conditions))

    def __bool__(self) -> bool:
        return bool(self.words or self.patterns or self.conditions)

    def finds_in(self, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which texts contain all words and patterns. Conditions are ignored."""
        keep = np.ones(len(texts), dtype=bool)
        if self.words:
            folded = [text.casefold() for text in texts]
            keep &= np.array([all(word in text for word in self.words) for text in folded], dtype=bool)
        for pattern in self.patterns:
            keep &= _search(pattern, texts)
        return keep

    def split(self, fields: Iterable[str]) -> tuple[Query, tuple[Condition, ...]]:
        """Return the query without the conditions on these fields, and the conditions that were removed."""
        chosen = set(fields)
        removed = tuple(c for c in self.conditions if c.field in chosen)
        left = tuple(c for c in self.conditions if c.field not in chosen)
        return Query(self.words, self.patterns, left), removed


def _is_field(field: str, value: str) -> bool:
    if field.casefold() in FIELDS:
        return True
    close = get_close_matches(field.casefold(), FIELDS, n=1, cutoff=0.7)
    if close and (value[:1].isdigit() or close[0] in (*EXACT, STEP)):
        raise OptionError(f"nothing can be filtered by {field!r}: did you mean {close[0]!r}?")
    return False


def _condition(field: str, operator: str, value: str) -> Condition:
    if field == STEP and operator in ("=", "!="):
        return Condition(field, operator, tuple(_steps(part) for part in value.split(",")))
    if field in TIMES:
        return Condition(field, operator, float(parse_ns(value)))
    if field in NUMBERS or field == STEP:
        return Condition(field, operator, _number(field, value))
    if operator not in ("=", "!="):
        raise OptionError(
            f"{field}{operator}{value} compares text: write {field}={value} or {field}!={value}"
        )
    return Condition(field, operator, tuple(part for part in value.split(",") if part))


def _steps(text: str) -> tuple[int | None, int | None]:
    match = _STEPS.fullmatch(text)
    if match is None or not text.strip(":"):
        raise OptionError(f"step={text} is not a range: write step=5, step=3:7, step=3: or step=2,4")
    first, last = (int(part) if part else None for part in (match[1], match[3]))
    return (first, last) if match[2] else (first, (first or 0) + 1)


def _number(field: str, text: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise OptionError(f"{text!r} is not a number: write {field}>10, share>5% or bytes>1MiB")
    number, unit = float(match[1]), match[2] or ""
    if unit == "%" or (field == "share" and number > 1):
        return number / 100
    if unit.endswith("iB"):
        return float(number * 1024 ** " KMGTP".index(unit[0]))
    return number * _SCALES[unit.removesuffix("B")]


def _pattern(token: str) -> str:
    pattern = token[1:-1]
    try:
        _search(pattern, [""])
    except ValueError as error:  # from pyarrow, or for text that is not valid Unicode
        why = str(error).partition(": ")[2] or str(error)
        raise OptionError(f"{token} is not a regular expression: {why}") from error
    return pattern


def _search(pattern: str, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return a mask of the texts that contain a pattern, in time linear in their length."""
    import pyarrow as pa
    import pyarrow.compute as pc

    sound = [text.encode("utf-8", "replace").decode() for text in texts]  # no lone surrogates
    matches = pc.match_substring_regex(pa.array(sound, pa.large_string()), pattern=f"(?im){pattern}")
    return np.asarray(matches.to_numpy(zero_copy_only=False), dtype=bool)
