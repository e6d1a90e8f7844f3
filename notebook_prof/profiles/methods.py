"""Analyses as methods: docstring and parameters are the function's own, so that the two cannot differ."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from ..selection import filtered
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
    first, *further = signature.parameters.values()
    tabular = "DataFrame" in str(signature.return_annotation) and "where" not in signature.parameters

    @functools.wraps(analysis)
    def bound(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        where, trace = kwargs.pop("where", None) if tabular else None, trace_of(self)
        if where is None:
            return analysis(trace, *args, **kwargs)
        return filtered(analysis, trace, str(where), *args, **kwargs)

    me = inspect.Parameter("self", first.kind)
    if tabular:
        further.append(
            inspect.Parameter("where", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="str | None")
        )
    bound.__signature__ = signature.replace(parameters=[me, *further])  # type: ignore[attr-defined]
    return cast("Callable[Concatenate[Any, P], R]", bound)
