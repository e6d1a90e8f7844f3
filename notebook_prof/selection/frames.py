"""Filters on DataFrames."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd

from ..errors import OptionError
from ..trace import Trace
from ..trace.arrays import BoolArray
from ..trace.strings import as_text
from .clauses import line_texts
from .query import EXACT, PARTS, STEP, Condition, Query
from .selection import Selection

# Calls analyses under a filter or selection: some conditions become arguments, the others filter the rows.

R = TypeVar("R")

ARGUMENTS: Final = ("window", "name", "category", "track", "step", "phase", "line")
"""Dimensions that analyses may accept as parameters."""


def filtered(
    analysis: Callable[..., R], trace: Trace, where: str | Mapping[str, Any], *args: Any, **options: Any
) -> R:
    """Call an analysis under a filter or selection: conditions become arguments if possible, others filter
    the rows.

    `where` is text for `Query`, or clauses from `Selection.to_state`. Explicit options take precedence.
    """
    free = set(inspect.signature(analysis).parameters) - set(options)
    if isinstance(where, str):
        query, arguments = split_query(where, trace, free)
        table: Any = analysis(trace, *args, **{**arguments, **options})
        keep: BoolArray = passing(table, query)
    else:
        arguments = {name: where[name] for name in ARGUMENTS if name in free and where.get(name) is not None}
        table = analysis(trace, *args, **{**arguments, **options})
        given = {**arguments, **options}
        names = [name for name in ARGUMENTS if name in table.columns and name not in given]
        clauses = {name: where[name] for name in names if where.get(name) is not None}
        if not clauses:
            return table  # type: ignore[no-any-return]
        keep = Selection(**clauses).mask(table)
    return table[keep].reset_index(drop=True)  # type: ignore[no-any-return]


def split_query(where: str, trace: Trace, free: set[str]) -> tuple[Query, dict[str, Any]]:
    """Split a filter into arguments for an analysis's `free` parameters, and the remaining conditions."""
    # Only ``step``, ``phase``, ``category`` and ``line`` become arguments, and no conditions with ``!=``.
    query = Query.parse(where)
    arguments: dict[str, Any] = {}
    left = []
    for condition in query.conditions:
        name = "category" if condition.field == "type" else condition.field
        if condition.operator != "=" or name not in ("step", "phase", "category", "line") or name not in free:
            left.append(condition)
        elif name == "step":
            steps = trace.steps["step"]
            arguments[name] = steps[passing(steps.to_frame(), Query(conditions=(condition,)))].tolist()
        elif name == "line":
            lines = trace.slices["line"].cat.categories
            passes = passing(pd.DataFrame({"line": lines}), Query(conditions=(condition,)))
            arguments[name] = lines[passes].tolist()
        else:
            arguments[name] = [str(word).casefold() for word in condition.value]  # type: ignore[union-attr]
    return Query(query.words, query.patterns, tuple(left)), arguments


_COMPARE: Final = {">": gt, ">=": ge, "<": lt, "<=": le, "=": eq, "!=": ne}
_TEXT: Final = ("name", "operator", "function", "shapes", "module", "file", "description", "kernel")
_COLUMNS: Final = {
    "avg": ("mean_ns", "avg_ns"),
    "time": ("time_ns", "total_ns", "device_ns", "dur"),
    "total": ("total_ns", "dur", "time_ns"),
    "dtype": ("dtypes", "in_dtypes", "dtype"),
    "type": ("type", "category", "kind"),
    "category": ("category", "type", "kind"),
    "thread": ("thread", "track_name"),
    "bandwidth": ("bytes_per_s",),
}


def passing(table: pd.DataFrame, query: Query) -> BoolArray:
    """Return a mask of the rows that pass a filter. Raises OptionError if a condition has no column."""
    # Words and patterns may match in any text column. Missing values fail every condition.
    keep = np.ones(len(table), dtype=bool)
    for condition in query.conditions:
        keep &= _satisfies(table, condition)
    if query.words or query.patterns:
        keep &= _contains_words(table, query)
    return keep


def _satisfies(table: pd.DataFrame, condition: Condition) -> BoolArray:
    field = condition.field
    candidates = (field, f"{field}_ns", f"{field}_bytes", *_COLUMNS.get(field, ()))
    name = next((name for name in candidates if name in table.columns), None)
    if name is None:
        raise OptionError(
            f"this table cannot be filtered by {field!r}: its columns are {', '.join(table.columns)}"
        )
    column = table[name]
    if field in (*EXACT, *PARTS):
        return _among(line_texts(table) if field == "line" else column, condition)
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    if field == STEP and isinstance(condition.value, tuple):
        inside = np.zeros(len(values), dtype=bool)
        for entry in condition.value:
            first, last = entry[0], entry[1]
            inside |= (values >= float(-np.inf if first is None else first)) & (
                values < float(np.inf if last is None else last)
            )
        return inside if condition.operator == "=" else ~inside & ~np.isnan(values)
    limit = float(condition.value)  # type: ignore[arg-type]
    return np.asarray(_COMPARE[condition.operator](values, limit) & ~np.isnan(values), dtype=bool)


def _among(column: pd.Series[Any], condition: Condition) -> BoolArray:
    words = [str(word).casefold() for word in condition.value]  # type: ignore[union-attr]
    code, values = pd.factorize(column)
    texts = [str(value).casefold() for value in values]
    if condition.field == "line":
        fits = [is_line(text, words) for text in texts]
    elif condition.field in EXACT:
        fits = [text in words for text in texts]
    else:
        fits = [any(word in text for word in words) for text in texts]
    mask: BoolArray = np.array([*fits, False], dtype=bool)[code]
    return mask if condition.operator == "=" else ~mask & (code >= 0)


def is_line(text: str, words: Iterable[str]) -> bool:
    """Return whether any of the words names this line."""
    return any(text == word or text.endswith((f":{word}", f"/{word}")) for word in words)


def _contains_words(table: pd.DataFrame, query: Query) -> BoolArray:
    names = [name for name in _TEXT if name in table.columns]
    if not names:
        raise OptionError(f"there is no text in this table: its columns are {', '.join(table.columns)}")
    text = as_text(table[names[0]]).fillna("")
    for name in names[1:]:
        text = text + "\n" + as_text(table[name]).fillna("")
    code, values = pd.factorize(text)
    mask: BoolArray = query.finds_in([str(value) for value in values])[code]
    return mask
