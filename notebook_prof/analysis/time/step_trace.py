"""The step trace: the gap before the forward, forward and backward, and the tail."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ..scope import Numbers, WindowLike
from ..spans import step_spans
from .phases import phases
from .points import Points, find_points
from .recorded_steps import recorded_steps
from .reduces import reduce_times

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
        Operators that begin the forward and end the backward, by their full names or by what follows the last
        ``/``. Default: the environment's ``FP_POINT`` and ``BP_POINT``, or else what is found. Steps in which
        an operator does not run keep the point that is found.

    Returns
    -------
    DataFrame
        By rank and step; no rows without steps. Times int64 ns.

        - ``step`` int32; ``rank`` Int32, missing where it is not known; ``ts``: start of the step;
        - ``gap_ns``: from the start to the FP point (MindInsight's iteration interval); ``fp_bp_ns``: from
          there to the BP point; ``tail_ns``: from there to the end; ``total_ns``: they sum exactly to it;
        - ``all_reduce_ns``: time with a collective of this step running anywhere; ``data_ns``: time in phase
          data on the thread of the steps; both lie inside the three parts;
        - ``fp_ts``, ``bp_ts``: the two points; ``fp_point``, ``bp_point`` str: the operators there, missing
          where none is known;
        - ``points`` category: where the points come from, ``found file argument environment``.

    Raises
    ------
    OptionError
        If an operator that was named by argument runs in no step. One that the environment names is then left
        alone, since it may have been meant for another run.

    Notes
    -----
    Found points are the start of the first operator of phase forward, and the end of the last one of phase
    backward on any thread; without a backward, the end of the last one of phase forward. They are instants of
    the host, or of the device where only that was recorded. A MindSpore folder has its own points, taken on
    the device. Source of the parts: MindInsight's step trace.

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
