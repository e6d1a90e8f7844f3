"""MindSpore's step trace: the gap before the forward, the forward and backward, and the tail."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray
from ..grouping import covered
from ..scope import (
    Numbers,
    Scope,
    WindowLike,
    bounds,
    on_device,
    on_host,
    recorded_steps,
    recorded_table,
    step_spans,
)
from .phases import phases

SOURCES: Final = ("found", "file")


def _points(trace: Trace, spans: pd.DataFrame) -> dict[str, Any]:
    """Return the points (ns) and their operators, from the file or else by detection."""
    if "fp_ts" in spans:
        of_file: dict[str, Any] = {"points": "file"}
        for point in ("fp", "bp"):
            named = np.asarray(spans.get(f"{point}_point", [None] * len(spans)), dtype=object)
            of_file[f"{point}_ts"] = spans[f"{point}_ts"].to_numpy(dtype=np.int64)
            of_file[f"{point}_point"] = pd.Series(named, dtype="str")
        return of_file
    start, end = bounds(spans)
    runs = on_host(trace)
    if not runs.among("phase", ("forward", "backward")).any() and len(on_device(trace).rows):
        runs = on_device(trace)  # threads have no phases, so take everything that ran on devices
    else:
        operators = runs.among("category", ("operator",))
        if (operators & runs.among("phase", ("forward",))).any():
            runs = runs.only(operators)
    forward, backward = (runs.among("phase", (phase,)) for phase in ("forward", "backward"))
    words = [str(word) for word in runs.slices["name"].cat.categories]
    names = np.array([*words, None], dtype=object)[np.append(runs.codes("name"), -1)]
    fp = _edge(runs, forward, start, end, first=True)
    bp = _edge(runs, backward if backward.any() else forward, start, end, first=False)
    return {
        "points": "found",
        "fp_ts": np.where(fp < 0, end, np.append(runs.ts, 0)[fp]),
        "fp_point": pd.Series(names[fp], dtype="str"),
        "bp_ts": np.where(bp < 0, start, np.append(runs.end, 0)[bp]),
        "bp_point": pd.Series(names[bp], dtype="str"),
    }


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


def _reduce_times(trace: Trace, spans: pd.DataFrame) -> IntArray:
    """Return how long any collective of each step runs (ns), on devices or else on the host."""
    recorded = recorded_table(trace, "reduces") if "rank" in spans else None
    if recorded is not None:
        ordered = recorded.sort_values("start_ns", kind="stable")
        ts = ordered["start_ns"].to_numpy(dtype=np.int64)
        end = ts + ordered["dur_ns"].to_numpy(dtype=np.int64)
        keys, of_spans = (
            pd.MultiIndex.from_frame(table[["rank", "step"]].astype("int64")) for table in (ordered, spans)
        )
        row = of_spans.get_indexer(keys)
    else:
        work = on_device(trace).where(category="collective")
        work = work if len(work.rows) else on_host(trace).where(category="collective")
        number = pd.Index(spans["step"].to_numpy(dtype=np.int64))
        first = np.append(np.flatnonzero(~number.duplicated()), -1)
        row = first[number.drop_duplicates().get_indexer(work.ints("step"))]
        ts, end = work.ts, work.end
    inside = row >= 0
    spent = covered(row[inside], ts[inside], end[inside])
    return np.bincount(row[inside], spent, minlength=len(spans)).astype(np.int64)


def step_trace(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """Divide each step at two points: where the forward begins, and where the backward ends.

    Parameters
    ----------
    window, step
        As in `steps`.

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
        - ``points`` category: where the points come from, ``found`` or ``file``.

    Notes
    -----
    Found points are the start of the first operator of phase forward, and the end of the last one of phase
    backward on any thread (without a backward, of phase forward): on the host, or on the device if only that
    was recorded. A MindSpore folder contains its points, taken on the device; `open_profile` takes others as
    ``fp_point=`` and ``bp_point=``. Source of the parts: MindInsight's step trace.

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
    recorded = recorded_steps(trace, window, step)
    spans = recorded if recorded is not None else step_spans(trace, window, step)
    points = _points(trace, spans)
    start, end = bounds(spans)
    fp = np.clip(points["fp_ts"], start, end)
    bp = np.clip(np.maximum(points["bp_ts"], fp), start, end)
    times = phases(trace, window=window)
    data = times[times["phase"] == "data"].drop_duplicates("step").set_index("step")["host_ns"]
    rank: Any = spans["rank"] if "rank" in spans else [None] * len(spans)
    table = pd.DataFrame(
        {
            "step": spans["step"].to_numpy(dtype=np.int32),
            "rank": pd.array(rank, dtype="Int32"),
            "ts": start,
            "gap_ns": fp - start,
            "fp_bp_ns": bp - fp,
            "tail_ns": end - bp,
            "total_ns": end - start,
            "all_reduce_ns": _reduce_times(trace, spans),
            "data_ns": spans["step"].map(data).fillna(0).astype("int64").to_numpy(),
            "fp_ts": fp,
            "bp_ts": bp,
            **{name: points[name] for name in ("fp_point", "bp_point")},
            "points": pd.Categorical([points["points"]] * len(spans), categories=list(SOURCES)),
        }
    )
    return table.sort_values(["rank", "step"], kind="stable").reset_index(drop=True)
