"""Analyses under the selection: what they take as arguments, and what their rows are filtered by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import pandas as pd

from ...selection import Selection
from ...trace import Trace

DIMENSIONS: Final = ("window", "name", "category", "track", "step", "phase")


def selection_of(state: Mapping[str, Any]) -> Selection:
    """The selection that a state tells of.

    Examples
    --------
    >>> selection_of({"step": [4], "focus": 7, "revision": 3})
    Selection(step 4)
    """
    return Selection(**{name: state[name] for name in DIMENSIONS if state.get(name) is not None})


def arguments(analysis: Callable[..., Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """Clauses of a selection that an analysis has parameters for.

    Parameters
    ----------
    analysis : callable
    state : mapping
        As `Selection.to_state` gives it.

    Examples
    --------
    >>> from notebook_prof import analysis
    >>> arguments(analysis.steps, Selection(step=4, name="mm").to_state())
    {'step': [4]}
    """
    known = inspect.signature(analysis).parameters
    return {name: state[name] for name in DIMENSIONS if name in known and state.get(name) is not None}


def ask(
    analysis: Callable[..., pd.DataFrame], trace: Trace, state: Mapping[str, Any], **options: Any
) -> pd.DataFrame:
    """Call an analysis under a selection, as ``where=`` of a Profile's methods does.

    Clauses that it has parameters for are given to it; the others filter its rows, where it has a column of
    that name.

    Returns
    -------
    DataFrame

    Examples
    --------
    >>> from notebook_prof import TraceBuilder, analysis
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 4], dur=[3, 3], name=["mm", "add"], track=b.track("main"))
    >>> ask(analysis.operators, b.seal(), Selection(name="mm").to_state())["name"].tolist()
    ['mm']
    """
    given = arguments(analysis, state)
    table = analysis(trace, **{**given, **options})
    rest = {
        name: value
        for name, value in state.items()
        if name in DIMENSIONS and name in table.columns and value is not None and name not in given
    }
    return table[Selection(**rest).mask(table)].reset_index(drop=True) if rest else table


def followed(*analyses: Callable[..., Any]) -> tuple[str, ...]:
    """Dimensions that any of the analyses has a parameter for, for `Panel.under`."""
    known = {name for analysis in analyses for name in inspect.signature(analysis).parameters}
    return tuple(name for name in DIMENSIONS if name in known)
