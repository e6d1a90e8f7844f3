"""Where the forward of each step begins and its backward ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from ...trace.intervals import IntArray
from ..scope import Mask, Scope, on_device, on_host

SOURCES: Final = ("found", "file", "argument", "environment")
_LISTED: Final = 200


@dataclass(frozen=True, slots=True)
class Points:
    """Two points of each step.

    Attributes
    ----------
    fp, bp : ndarray of int64, shape (steps,)
        ns.
    fp_name, bp_name : Series of str, shape (steps,)
        The operators there; missing where none is known.
    source : Categorical, shape (steps,)
        One of `SOURCES`.
    """

    fp: IntArray
    bp: IntArray
    fp_name: pd.Series[Any]
    bp_name: pd.Series[Any]
    source: pd.Categorical


def find_points(
    trace: Trace, spans: pd.DataFrame, named: Mapping[str, tuple[str | None, str | None]]
) -> Points:
    """Find the points, or take the named ones.

    Parameters
    ----------
    trace : Trace
    spans : DataFrame
        ``ts dur``, and ``fp_ts bp_ts`` where a file tells them.
    named : mapping
        ``fp`` and ``bp`` → names given by argument and by the environment.

    Raises
    ------
    OptionError
        If an operator named by argument runs in no step.
    """
    start = spans["ts"].to_numpy(dtype=np.int64)
    end = start + spans["dur"].to_numpy(dtype=np.int64)
    told = "fp_ts" in spans
    source = np.full(len(spans), SOURCES.index("file" if told else "found"))
    at: dict[str, IntArray] = {}
    names: dict[str, npt.NDArray[np.object_]] = {}
    runs = _runs(trace)
    for point, first in (("fp", True), ("bp", False)):
        if told:
            at[point] = spans[f"{point}_ts"].to_numpy(dtype=np.int64)
            names[point] = _recorded_names(spans, f"{point}_point")
        else:
            row = _edge(runs, _phase(runs, first), start, end, first)
            at[point] = _instant(runs, row, np.where(row < 0, end if first else start, -1), first)
            names[point] = _names(runs, row)
        for wanted, how in zip(named[point], ("argument", "environment"), strict=True):
            if wanted is None:
                continue
            row = _edge(runs, _called(runs, wanted, how), start, end, first)
            if how == "argument" and len(spans) and not (row >= 0).any():
                raise OptionError(f"{point}_point={wanted!r} runs in no step: {_near(runs, wanted)}")
            at[point] = _instant(runs, row, at[point], first)
            names[point] = np.where(row < 0, names[point], _names(runs, row))
            source[row >= 0] = SOURCES.index(how)
            break
    make: Any = pd.Categorical.from_codes
    text = {point: pd.Series(words, dtype="str") for point, words in names.items()}
    return Points(at["fp"], at["bp"], text["fp"], text["bp"], make(source, categories=list(SOURCES)))


def _runs(trace: Trace) -> Scope:
    """The operators on threads; where they tell no phase, what ran on devices."""
    host = on_host(trace)
    if host.among("phase", ("forward", "backward")).any() or not len(on_device(trace).rows):
        operators = host.among("category", ("operator",))
        return host.only(operators) if (operators & host.among("phase", ("forward",))).any() else host
    return on_device(trace)


def _phase(runs: Scope, first: bool) -> Mask:
    forward = runs.among("phase", ("forward",))
    backward = runs.among("phase", ("backward",))
    return forward if first or not backward.any() else backward


def _called(runs: Scope, wanted: str, how: str) -> Mask:
    words = [str(word) for word in runs.slices["name"].cat.categories]
    exact = [word == wanted for word in words]
    chosen = exact if any(exact) else [word.rpartition("/")[2] == wanted for word in words]
    return np.asarray(np.append(chosen, False)[runs.codes("name")], dtype=bool)


def _near(runs: Scope, wanted: str) -> str:
    words = runs.slices["name"].cat.categories[np.unique(runs.codes("name"))]
    return nearest(wanted, [str(word) for word in words[:_LISTED]])


def _edge(runs: Scope, keep: Mask, start: IntArray, end: IntArray, first: bool) -> IntArray:
    """Place in `runs` of the first to start (the last to end) inside each step; -1 where there is none."""
    rows = np.flatnonzero(keep)
    found = np.full(len(start), -1, dtype=np.int64)
    if not len(rows) or not len(start):
        return found
    if first:
        ts = runs.ts[rows]
        at = np.searchsorted(ts, start, side="left")
        inside = at < len(rows)
        inside[inside] = ts[at[inside]] < end[inside]
        found[inside] = rows[at[inside]]
        return found
    order = rows[np.argsort(runs.end[rows], kind="stable")]
    at = np.searchsorted(runs.end[order], end, side="right") - 1
    found = np.where(at < 0, -1, order[at])
    found[runs.end[found] <= start] = -1
    # one that begins in the step and outlasts it is its last
    at = np.searchsorted(runs.ts[rows], end, side="left") - 1
    beyond = np.where(at < 0, rows[0], rows[at])
    outlasts = (at >= 0) & (runs.ts[beyond] >= start) & (runs.end[beyond] > end)
    return np.where(outlasts, beyond, found)


def _instant(runs: Scope, row: IntArray, otherwise: IntArray, first: bool) -> IntArray:
    if not len(runs.rows):
        return otherwise
    return np.where(row < 0, otherwise, (runs.ts if first else runs.end)[row])


def _names(runs: Scope, row: IntArray) -> npt.NDArray[np.object_]:
    words = np.array([*runs.slices["name"].cat.categories, None], dtype=object)
    code = np.append(runs.codes("name"), -1)
    return np.asarray(words[code[row]], dtype=object)


def _recorded_names(spans: pd.DataFrame, column: str) -> npt.NDArray[np.object_]:
    if column in spans:
        return np.asarray(spans[column], dtype=object)
    return np.full(len(spans), None, dtype=object)
