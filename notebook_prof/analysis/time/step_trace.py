"""MindSpore's step trace: the gap before the forward, the forward and backward, and the tail."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import as_ints
from ..grouping import covered
from ..scope import Numbers, Scope, WindowLike, on_device, on_host, recorded_steps, recorded_table, step_spans
from .phases import phases

SOURCES: Final = ("found", "file", "argument", "environment")
_LISTED: Final = 200


@dataclass(frozen=True, slots=True)
class Points:
    """The two points of each step (ns), and the operators there (missing if unknown)."""

    fp: IntArray
    bp: IntArray
    fp_name: pd.Series[Any]
    bp_name: pd.Series[Any]
    source: pd.Categorical


def find_points(
    trace: Trace, spans: pd.DataFrame, named: Mapping[str, tuple[str | None, str | None]]
) -> Points:
    """Find the points, or take those at `named` operators; OptionError if an operator given by argument runs
    in no step.
    """
    start = spans["ts"].to_numpy(dtype=np.int64)
    end = start + spans["dur"].to_numpy(dtype=np.int64)
    from_file = "fp_ts" in spans
    source = np.full(len(spans), SOURCES.index("file" if from_file else "found"))
    at: dict[str, IntArray] = {}
    names: dict[str, npt.NDArray[np.object_]] = {}
    runs = _runs(trace)
    for point, first in (("fp", True), ("bp", False)):
        if from_file:
            at[point] = spans[f"{point}_ts"].to_numpy(dtype=np.int64)
            names[point] = _recorded_names(spans, f"{point}_point")
        else:
            row = _edge(runs, _phase(runs, first), start, end, first)
            at[point] = _instant(runs, row, np.where(row < 0, end if first else start, -1), first)
            names[point] = _names(runs, row)
        for point_name, how in zip(named[point], ("argument", "environment"), strict=True):
            if point_name is None:
                continue
            row = _edge(runs, _named_runs(runs, point_name, how), start, end, first)
            if how == "argument" and len(spans) and not (row >= 0).any():
                raise OptionError(
                    f"{point}_point={point_name!r} runs in no step: {_nearest_name(runs, point_name)}"
                )
            at[point] = _instant(runs, row, at[point], first)
            names[point] = np.where(row < 0, names[point], _names(runs, row))
            source[row >= 0] = SOURCES.index(how)
            break
    make: Any = pd.Categorical.from_codes
    text = {point: pd.Series(words, dtype="str") for point, words in names.items()}
    return Points(at["fp"], at["bp"], text["fp"], text["bp"], make(source, categories=list(SOURCES)))


def _runs(trace: Trace) -> Scope:
    """Return the operators on threads or, if those have no phases, everything that ran on devices."""
    host = on_host(trace)
    if host.among("phase", ("forward", "backward")).any() or not len(on_device(trace).rows):
        operators = host.among("category", ("operator",))
        return host.only(operators) if (operators & host.among("phase", ("forward",))).any() else host
    return on_device(trace)


def _phase(runs: Scope, first: bool) -> BoolArray:
    forward = runs.among("phase", ("forward",))
    backward = runs.among("phase", ("backward",))
    return forward if first or not backward.any() else backward


def _named_runs(runs: Scope, point_name: str, how: str) -> BoolArray:
    words = [str(word) for word in runs.slices["name"].cat.categories]
    exact = [word == point_name for word in words]
    chosen = exact if any(exact) else [word.rpartition("/")[2] == point_name for word in words]
    return np.asarray(np.append(chosen, False)[runs.codes("name")], dtype=bool)


def _nearest_name(runs: Scope, point_name: str) -> str:
    words = runs.slices["name"].cat.categories[np.unique(runs.codes("name"))]
    return nearest(point_name, [str(word) for word in words[:_LISTED]])


def _edge(runs: Scope, keep: BoolArray, start: IntArray, end: IntArray, first: bool) -> IntArray:
    """Return the index in `runs` of the first to start, or the last to end, in each step; -1 without one."""
    rows = np.flatnonzero(keep)
    edge = np.full(len(start), -1, dtype=np.int64)
    if not len(rows) or not len(start):
        return edge
    if first:
        ts = runs.ts[rows]
        at = np.searchsorted(ts, start, side="left")
        inside = at < len(rows)
        inside[inside] = ts[at[inside]] < end[inside]
        edge[inside] = rows[at[inside]]
        return edge
    order = rows[np.argsort(runs.end[rows], kind="stable")]
    at = np.searchsorted(runs.end[order], end, side="right") - 1
    edge = np.where(at < 0, -1, order[at])
    edge[runs.end[edge] <= start] = -1
    # an operator that begins in the step and outlasts it is its last
    at = np.searchsorted(runs.ts[rows], end, side="left") - 1
    beyond = np.where(at < 0, rows[0], rows[at])
    outlasts = (at >= 0) & (runs.ts[beyond] >= start) & (runs.end[beyond] > end)
    return np.where(outlasts, beyond, edge)


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


def reduce_times(trace: Trace, spans: pd.DataFrame) -> IntArray:
    """Return how long any collective of each step runs (ns), on devices or else on the host."""
    recorded = recorded_table(trace, "reduces") if "rank" in spans else None
    if recorded is not None:
        ordered = recorded.sort_values("start_ns", kind="stable")
        start = ordered["start_ns"].to_numpy(dtype=np.int64)
        end = start + ordered["dur_ns"].to_numpy(dtype=np.int64)
        keys = pd.MultiIndex.from_frame(ordered[["rank", "step"]].astype("int64"))
        keys_of_spans = pd.MultiIndex.from_frame(spans[["rank", "step"]].astype("int64"))
        return _sum(keys_of_spans.get_indexer(keys), start, end, len(spans))
    work = on_device(trace)
    collectives = work.only(work.among("category", ("collective",)))
    if not len(collectives.rows):
        host = on_host(trace)
        collectives = host.only(host.among("category", ("collective",)))
    number = pd.Index(spans["step"].to_numpy(dtype=np.int64))
    row = number.drop_duplicates().get_indexer(collectives.ints("step"))
    first = np.flatnonzero(~number.duplicated())
    return _sum(np.append(first, -1)[row], collectives.ts, collectives.end, len(spans))


def _sum(row: IntArray, ts: IntArray, end: IntArray, count: int) -> IntArray:
    in_spans = row >= 0
    spent = covered(row[in_spans], ts[in_spans], end[in_spans])
    return as_ints(np.bincount(row[in_spans], spent, minlength=count).astype(np.int64))


FP_POINT: Final = "FP_POINT"
BP_POINT: Final = "BP_POINT"


def step_trace(
    trace: Trace,
    *,
    window: WindowLike = None,
    step: Numbers = None,
    fp_point: str | None = None,
    bp_point: str | None = None,
) -> pd.DataFrame:
    """Divide each step at two points: where the forward begins, and where the backward ends.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; steps are cut at its edges, steps outside are left out.
    step : int or iterable of int, optional
        Keep these steps.
    fp_point, bp_point : str, optional
        Operators that begin the forward and end the backward, by full name or by the part after the last
        ``/``. Default: the environment variables ``FP_POINT`` and ``BP_POINT``, or else points that are
        found. Steps without the operator keep the point that was found.

    Returns
    -------
    DataFrame
        By rank and step; no rows without steps. Times int64 ns.

        - ``step`` int32; ``rank`` Int32, missing if unknown; ``ts``: start of the step;
        - ``gap_ns``: from the start to the FP point (MindInsight's iteration interval); ``fp_bp_ns``: from
          there to the BP point; ``tail_ns``: from there to the end; ``total_ns``: their exact sum;
        - ``all_reduce_ns``: time with a collective of this step running anywhere; ``data_ns``: time in phase
          data on the thread of the steps; both are inside the three parts;
        - ``fp_ts``, ``bp_ts``: the two points; ``fp_point``, ``bp_point`` str: the operators there, missing
          if unknown;
        - ``points`` category: where the points come from, ``found file argument environment``.

    Raises
    ------
    OptionError
        If an operator named by argument runs in no step. One named by the environment is ignored instead,
        since it may be meant for another run.

    Notes
    -----
    Found points are the start of the first operator of phase forward, and the end of the last one of phase
    backward on any thread; without a backward, the end of the last one of phase forward. They are instants on
    the host, or on the device if only that was recorded. A MindSpore folder contains its points, taken on the
    device. Source of the parts: MindInsight's step trace.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... steps: [0                               ]
    ... main:     [mm/forward][mm_b/backward][add]
    ... ''')
    >>> step_trace(trace)[["gap_ns", "fp_bp_ns", "tail_ns", "total_ns", "fp_point"]].values.tolist()
    [[3, 27, 4, 34, 'mm']]
    """
    named = {
        "fp": (fp_point, os.environ.get(FP_POINT) or None),
        "bp": (bp_point, os.environ.get(BP_POINT) or None),
    }
    recorded = recorded_steps(trace, window, step)
    spans = recorded if recorded is not None else step_spans(trace, window, step)
    points = find_points(trace, spans, named)
    table = _parts(spans, points)
    table["all_reduce_ns"] = reduce_times(trace, spans)
    table["data_ns"] = _data(trace, window, table)
    order = ["step", "rank", "ts", "gap_ns", "fp_bp_ns", "tail_ns", "total_ns", "all_reduce_ns", "data_ns"]
    order += ["fp_ts", "bp_ts", "fp_point", "bp_point", "points"]
    return table[order].sort_values(["rank", "step"], kind="stable").reset_index(drop=True)


def _parts(spans: pd.DataFrame, points: Points) -> pd.DataFrame:
    start = spans["ts"].to_numpy(dtype=np.int64)
    total = spans["dur"].to_numpy(dtype=np.int64)
    fp = np.clip(points.fp, start, start + total)
    bp = np.clip(np.maximum(points.bp, fp), start, start + total)
    rank: Any = spans["rank"] if "rank" in spans else pd.array([None] * len(spans), dtype="Int32")
    return pd.DataFrame(
        {
            "step": spans["step"].to_numpy(dtype=np.int32),
            "rank": pd.array(rank, dtype="Int32"),
            "ts": start,
            "gap_ns": fp - start,
            "fp_bp_ns": bp - fp,
            "tail_ns": start + total - bp,
            "total_ns": total,
            "fp_ts": fp,
            "bp_ts": bp,
            "fp_point": points.fp_name,
            "bp_point": points.bp_name,
            "points": points.source,
        }
    )


def _data(trace: Trace, window: WindowLike, table: pd.DataFrame) -> Any:
    times = phases(trace, window=window)
    data = times[times["phase"] == "data"].set_index("step")["host_ns"]
    data = data[~data.index.duplicated()]
    return table["step"].map(data).fillna(0).astype("int64").to_numpy()
