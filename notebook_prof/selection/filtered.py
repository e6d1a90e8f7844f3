"""Analyses under a filter or a selection: a part becomes arguments, the rest filters the rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import pandas as pd

from ..trace import Trace
from ..trace.arrays import BoolArray
from .frames import passing
from .query import Query
from .selection import Selection

R = TypeVar("R")

ARGUMENTS: Final = ("window", "name", "category", "track", "step", "phase", "line")
"""Dimensions for which analyses may have a parameter."""


def filtered(
    analysis: Callable[..., R], trace: Trace, where: str | Mapping[str, Any], *args: Any, **options: Any
) -> R:
    """Call an analysis under a filter or a selection: its parameters first, the rest filters its rows.

    `where` is text for `Query`, or clauses as from `Selection.to_state`; explicit options take precedence.
    """
    free = set(inspect.signature(analysis).parameters) - set(options)
    if isinstance(where, str):
        query, arguments = split_query(where, trace, free)
        table: Any = analysis(trace, *args, **{**arguments, **options})
        keep: BoolArray = passing(table, query)
    else:
        arguments = {name: where[name] for name in ARGUMENTS if name in free and where.get(name) is not None}
        table = analysis(trace, *args, **{**arguments, **options})
        clauses = _clauses(where, table, {**arguments, **options})
        if not clauses:
            return table  # type: ignore[no-any-return]
        keep = Selection(**clauses).mask(table)
    return table[keep].reset_index(drop=True)  # type: ignore[no-any-return]


def _clauses(state: Mapping[str, Any], table: pd.DataFrame, arguments: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name in ARGUMENTS if name in table.columns and name not in arguments]
    return {name: state[name] for name in names if state.get(name) is not None}


def split_query(where: str, trace: Trace, free: set[str]) -> tuple[Query, dict[str, Any]]:
    """Split a filter into arguments of an analysis (its `free` parameters) and the rest."""
    # Arguments are ``step``, ``phase``, ``category`` and ``line``; conditions with ``!=`` stay in the rest.
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
