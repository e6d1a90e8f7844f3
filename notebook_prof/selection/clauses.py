"""A single clause: a dimension, the values kept in it, and its source."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Final, SupportsIndex, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import OptionError, SelectionError, nearest
from ..trace.intervals import Window
from ..trace.strings import as_text
from ..units import format_ns, parse_ns

DIMENSIONS: Final = ("window", "name", "category", "track", "step", "phase", "rank", "group", "line")
_TEXT: Final = frozenset({"name", "category", "phase", "group", "line"})
_SHOWN: Final = 3

Value = tuple[int, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clause:
    """The values kept in one dimension, and the source that asked for it."""

    dimension: str
    # ``window``: ``(start, end)`` in ns from the start of the trace, half-open; ``name category phase group
    # line``: sorted texts; ``track step rank``: sorted integers.
    value: Value
    # The view (or other writer) that set the clause; None for Python.
    source: Hashable = None

    def mask(self, table: pd.DataFrame) -> NDArray[np.bool_]:
        """Return a mask of the rows that satisfy the clause; all rows if the table lacks its column."""
        # A window keeps rows that overlap it. For a row without duration (an instant, a counter sample), its
        # ``ts`` decides.
        if self.dimension == "window":
            return _touches(table, cast("tuple[int, int]", self.value))
        if self.dimension not in table.columns:
            return np.ones(len(table), dtype=bool)
        column = line_texts(table) if self.dimension == "line" else table[self.dimension]
        if isinstance(column.dtype, pd.CategoricalDtype):
            fits = column.cat.categories.isin(list(self.value))
            codes = column.cat.codes.to_numpy()
            return np.asarray(np.append(fits, False)[codes], dtype=bool)  # code -1 uses the appended False
        return np.asarray(column.isin(list(self.value)), dtype=bool)

    def describe(self) -> str:
        """Describe the clause, for example ``2.1 ms – 5 ms`` or ``step 4``."""
        if self.dimension == "window":
            return " – ".join(format_ns(int(bound)) for bound in self.value)
        text = _in_words(self.value)
        return text if self.dimension == "name" else f"{self.dimension} {text}"


def line_texts(table: pd.DataFrame) -> pd.Series[Any]:
    """Return the lines of a table's rows as slices spell them, such as ``cell:12``."""
    column = table["line"]
    if "file" not in table.columns or not pd.api.types.is_integer_dtype(column.dtype):
        return column
    short = as_text(table["file"]).fillna("").str.replace("\\", "/").str.rpartition("/")[2]
    return short + ":" + as_text(column).fillna("")


def normalise(dimension: str, value: object) -> Value | None:
    """Return a value in canonical form; None for no restriction. Raises SelectionError if it is invalid."""
    check(dimension)
    if value is None:
        return None
    if dimension == "window":
        return _window(value)
    many = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    if not many:
        return None
    if dimension in _TEXT:
        if wrong := [item for item in many if not isinstance(item, str)]:
            if dimension == "line" and isinstance(wrong[0], int):
                raise SelectionError(f"selection.line takes places: 'cell:{wrong[0]}'; got {wrong[0]}")
            raise SelectionError(f"selection.{dimension} takes names (text); got {wrong[0]!r}")
        return tuple(sorted({str(item) for item in many}))
    return tuple(sorted({whole(dimension, item) for item in many}))


def check(dimension: str) -> None:
    """Raise SelectionError with close matches unless `dimension` is a known dimension."""
    if dimension in DIMENSIONS:
        return
    near, every = nearest(dimension, DIMENSIONS), ", ".join(DIMENSIONS)
    more = "" if near.endswith(every) else f" (the dimensions are {every})"
    raise SelectionError(f"there is no selection dimension {dimension!r}: {near}{more}")


def whole(dimension: str, value: object) -> int:
    """Return a whole number as int, or raise SelectionError."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, bool | np.bool_):
        with contextlib.suppress(TypeError):
            return operator.index(cast(SupportsIndex, value))
    raise SelectionError(f"selection.{dimension} takes whole numbers; got {value!r}")


def _window(value: object) -> Window:
    pair = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else []
    if len(pair) != 2:
        raise SelectionError(
            f"selection.window is a pair (start, end) of times, in ns or as text such as '2ms'; got {value!r}"
        )
    start, end = _time(pair[0], math.floor), _time(pair[1], math.ceil)
    if end <= start:
        raise SelectionError(
            f"selection.window [{format_ns(start)}, {format_ns(end)}) is empty: it must end after its start"
        )
    return Window(start, end)


def _time(value: object, rounding: Callable[[float], int]) -> int:
    """Parse one bound of a window. Fractions of a ns, which pages send, widen it."""
    if isinstance(value, str):
        try:
            return parse_ns(value)
        except OptionError as error:
            raise SelectionError(f"selection.window: {error}") from error
    if isinstance(value, float | np.floating) and math.isfinite(value):
        return int(rounding(float(value)))
    return whole("window", value)


def _touches(table: pd.DataFrame, window: tuple[int, int]) -> NDArray[np.bool_]:
    if "ts" not in table.columns:
        return np.ones(len(table), dtype=bool)
    ts = table["ts"].to_numpy()
    inside: NDArray[np.bool_] = ts >= window[0]
    if "dur" in table.columns:
        inside = inside | (ts + table["dur"].to_numpy() > window[0])
    return np.asarray(inside & (ts < window[1]), dtype=bool)


def _in_words(value: Value) -> str:
    if len(value) > 2 and isinstance(value[0], int) and value[-1] - value[0] == len(value) - 1:
        return f"{value[0]}–{value[-1]}"
    shown = ", ".join(str(item) for item in value[:_SHOWN])
    hidden = len(value) - _SHOWN
    return f"{shown} and {hidden} more" if hidden > 0 else shown
