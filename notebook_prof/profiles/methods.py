"""Analyses as methods: docstring and parameters are the function's own, so that the two cannot differ."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from ..selection import Query, passing
from ..trace import Trace
from .namespace import trace_of

P = ParamSpec("P")
R = TypeVar("R")


def method(analysis: Callable[Concatenate[Trace, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a method of an analysis, for a Profile or a namespace: the Trace is filled in.

    A method that returns a table also takes ``where=``, a filter as `notebook_prof.selection.Query` reads it.

    Examples
    --------
    >>> from notebook_prof.analysis import steps
    >>> made = method(steps)
    >>> made.__doc__ == steps.__doc__, list(inspect.signature(made).parameters)
    (True, ['self', 'window', 'step', 'where'])
    """
    signature = inspect.signature(analysis)
    first, *rest = signature.parameters.values()
    tabular = "DataFrame" in str(signature.return_annotation) and "where" not in signature.parameters

    @functools.wraps(analysis)
    def bound(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        where, trace = kwargs.pop("where", None) if tabular else None, trace_of(self)
        if where is None:
            return analysis(trace, *args, **kwargs)
        query, asked = arguments(str(where), trace, set(signature.parameters) - set(kwargs))
        kwargs.update(asked)
        table: Any = analysis(trace, *args, **kwargs)
        return cast(R, table[passing(table, query)].reset_index(drop=True))

    me = inspect.Parameter("self", first.kind)
    if tabular:
        rest.append(
            inspect.Parameter("where", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="str | None")
        )
    bound.__signature__ = signature.replace(parameters=[me, *rest])  # type: ignore[attr-defined]
    return cast("Callable[Concatenate[Any, P], R]", bound)


def arguments(where: str, trace: Trace, free: set[str]) -> tuple[Query, dict[str, Any]]:
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
        ``step``, ``phase`` and ``category`` arguments; those that say ``!=`` stay in the rest.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> query, asked = arguments("mm type=kernel", TraceBuilder().seal(), {"category"})
    >>> query.words, asked
    (('mm',), {'category': ['kernel']})
    """
    query = Query.parse(where)
    asked: dict[str, Any] = {}
    left = []
    for condition in query.conditions:
        name = "category" if condition.field == "type" else condition.field
        if condition.operator != "=" or name not in ("step", "phase", "category") or name not in free:
            left.append(condition)
        elif name == "step":
            steps = trace.steps["step"]
            asked[name] = steps[passing(steps.to_frame(), Query(conditions=(condition,)))].tolist()
        else:
            asked[name] = [str(word).casefold() for word in condition.value]  # type: ignore[union-attr]
    return Query(query.words, query.patterns, tuple(left)), asked
