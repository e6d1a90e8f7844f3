"""The filter box: the table rows and slices that pass a `Query`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from ..errors import OptionError, nearest
from ..selection import Query, passing
from ..selection.query import STEP, Condition
from ..trace import CATEGORIES, PHASES
from ..trace.arrays import BoolArray

if TYPE_CHECKING:
    from .store import ViewStore

_DIMENSIONS: Final = {
    "step": "step",
    "phase": "phase",
    "category": "category",
    "type": "category",
    "line": "line",
}
_WORDS: Final = {"phase": PHASES, "category": CATEGORIES}
_OF_A_SLICE: Final = (
    *("name", "category", "type", "phase", "thread", "module", "shapes", "line"),
    *("self", "total", "dur", "time", "depth", STEP),
)


def narrowed(
    store: ViewStore, query: Query, state: Mapping[str, Any], own: Sequence[str]
) -> tuple[Query, dict[str, Any], tuple[str, ...]]:
    """Turn conditions on step, phase, category and line into clauses, as ``where=`` does."""
    # Returns the rest of the query, the state with those clauses, and `own` without their dimensions.
    left, conditions = query.split(_DIMENSIONS)
    out = dict(state)
    for condition in conditions:
        dimension = _DIMENSIONS[condition.field]
        _check_words(condition)
        values = _values(store, dimension)
        keep = passing(pd.DataFrame({dimension: values}), Query(conditions=(condition,)))
        fitting = [value for value, fits in zip(values, keep.tolist(), strict=True) if fits]
        if dimension not in own and out.get(dimension) is not None:
            fitting = [value for value in fitting if value in out[dimension]]
        out[dimension] = fitting
        own = tuple(name for name in own if name != dimension)
    return left, out, tuple(own)


def slices_passing(store: ViewStore, query: Query) -> BoolArray:
    """Return a mask of the slices that pass a filter; ``total``, ``dur`` and ``time`` mean the duration."""
    c, slices = store.columns, store.trace.slices
    keep: BoolArray = np.append(query.finds_in(c.names), False)[c.name]  # code -1 reads the False
    for condition in query.conditions:
        if condition.field not in _OF_A_SLICE:
            raise OptionError(
                f"a slice has no {condition.field}: it can be found by {', '.join(_OF_A_SLICE)}"
            )
        _check_words(condition)
    if any(condition.field == "thread" for condition in query.conditions):
        slices = slices.assign(thread=slices["track"].map({track.track: track.name for track in c.tracks}))
    return keep & passing(slices, Query(conditions=query.conditions))


def _check_words(condition: Condition) -> None:
    dimension = _DIMENSIONS.get(condition.field, "")
    for word in condition.value if dimension in _WORDS and isinstance(condition.value, tuple) else ():
        if str(word).casefold() not in _WORDS[dimension]:
            raise OptionError(
                f"there is no {dimension} {word!r}: {nearest(str(word).casefold(), _WORDS[dimension])}"
            )


def _values(store: ViewStore, dimension: str) -> list[Any]:
    c = store.columns
    if dimension == "step":
        return [int(step) for step in store.trace.steps["step"]]
    return {"phase": c.phases, "category": c.categories, "line": c.lines}[dimension]
