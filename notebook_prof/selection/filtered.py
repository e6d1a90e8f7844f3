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
"""Dimensions that analyses may have a parameter for."""


def filtered(
    analysis: Callable[..., R], trace: Trace, where: str | Mapping[str, Any], *args: Any, **options: Any
) -> R:
    """Call an analysis under a filter or a selection.

    Parameters
    ----------
    analysis : callable
        ``(trace, ...) -> DataFrame``.
    trace : Trace
    where : str or mapping
        A filter as `Query` reads it, or clauses as `Selection.to_state` gives them.
    *args, **options
        Further arguments of the analysis; they come before what `where` asks.

    Returns
    -------
    DataFrame
        What the analysis has parameters for is given to it; the rest of `where` filters its rows, where it
        has a column of that name. Rows are numbered anew.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> from notebook_prof.analysis import operators
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 4], dur=[3, 3], name=["mm", "add"], track=b.track("main"))
    >>> trace = b.seal()
    >>> filtered(operators, trace, "mm")["name"].tolist()
    ['mm']
    >>> filtered(operators, trace, {"name": ["add"]})["name"].tolist()
    ['add']
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
    """Split a filter into what an analysis takes as arguments, and what its table is filtered by.

    Parameters
    ----------
    where : str
    trace : Trace
    free : set of str
        Parameters of the analysis that the caller has not given.

    Returns
    -------
    Query
        The rest.
    dict
        ``step``, ``phase``, ``category`` and ``line`` arguments; those that say ``!=`` stay in the rest.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> query, arguments = split_query("mm type=kernel", TraceBuilder().seal(), {"category"})
    >>> query.words, arguments
    (('mm',), {'category': ['kernel']})
    """
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
