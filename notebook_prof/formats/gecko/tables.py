"""Tables of the Firefox Profiler: columns, or rows behind a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Raw

from ...trace.arrays import FloatArray, IntArray

_LARGEST: Final = 2.0**61
_BROKEN: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_MS: Final = 1_000_000


class GeckoTable:
    """One table of a profile, in either of the two ways of writing it."""

    def __init__(self, text: Raw | bytes | None) -> None:
        content: Any = None
        if text:
            try:
                content = msgspec.json.decode(text)
            except _BROKEN:
                content = None
        table = content if isinstance(content, dict) else {}
        # None in a row without a value; columns may be shorter than the table
        self.columns = _columns(table)
        # what is beside the columns, such as ``weightType``
        self.facts = {name: value for name, value in table.items() if not isinstance(value, list)}
        self.count = max(map(len, self.columns.values()), default=0)

    def __contains__(self, name: str) -> bool:
        return any(value is not None for value in self.columns.get(name, ()))

    def values(self, name: str) -> list[Any]:
        """Return a column as it was written, None where nothing was."""
        column = self.columns.get(name, [])
        return column + [None] * (self.count - len(column))

    def numbers(self, name: str) -> FloatArray:
        """Return a column of numbers, nan where there is none."""
        return to_floats(self.values(name))

    def integers(self, name: str, missing: int = -1) -> IntArray:
        """Return a column of positions or ids."""
        value = self.numbers(name)
        ok = np.isfinite(value) & (np.abs(value) < _LARGEST)
        return np.where(ok, np.where(ok, value, 0).astype(np.int64), missing)

    def ns(self, name: str) -> IntArray:
        """Return a column of milliseconds in ns; `NO_TIME` where there is none."""
        return ms_to_ns(self.numbers(name))

    def times(self) -> IntArray:
        """Return when each row was, in ns: its time, or what was added up until it."""
        if "time" in self or "timeDeltas" not in self:
            return self.ns("time")
        deltas = self.numbers("timeDeltas")
        return np.where(np.isfinite(deltas), ms_to_ns(np.cumsum(np.nan_to_num(deltas))), NO_TIME)


NO_TIME: Final = -(1 << 61)
"""Marks a missing time."""


def ms_to_ns(value: FloatArray) -> IntArray:
    """Return milliseconds in ns; `NO_TIME` for what is no time.

    >>> ms_to_ns(np.array([0.25, np.nan])).tolist()
    [250000, -2305843009213693952]
    """
    scaled = value * _MS
    ok = np.isfinite(scaled) & (np.abs(scaled) < _LARGEST)
    return np.where(ok, np.rint(np.where(ok, scaled, 0)).astype(np.int64), NO_TIME)


def to_floats(values: Sequence[Any]) -> FloatArray:
    """Return numbers as an array, with nan for what is no number.

    >>> to_floats([1, None, "x", 2.5]).tolist()
    [1.0, nan, nan, 2.5]
    """
    try:
        return np.array(values, np.float64).reshape(len(values))
    except (TypeError, ValueError, OverflowError):
        return np.array([_float(value) for value in values], np.float64)


def _float(value: Any) -> float:
    try:
        return float(value) if isinstance(value, int | float) else float("nan")
    except OverflowError:
        return float("nan")


def _columns(content: Mapping[str, Any]) -> dict[str, list[Any]]:
    schema, rows = content.get("schema"), content.get("data")
    if not isinstance(schema, dict) or not isinstance(rows, list):
        return {name: value for name, value in content.items() if isinstance(value, list)}
    columns = list(zip_longest(*(row if isinstance(row, list) else () for row in rows)))
    return {
        str(name): list(columns[at]) if at < len(columns) else [None] * len(rows)
        for name, at in schema.items()
        if isinstance(at, int) and at >= 0
    }
