"""What is computed of every rank in one go, so that each is read once for all questions."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ... import analysis
from ...analysis.distributed.collectives import collectives
from ...analysis.time.operators import operator_times
from ...analysis.time.steps import breakdown
from ...analysis.work.slices import slice_work
from ...trace import Trace
from ...trace.taxonomy import phase_of
from ..reading.reduction import Analyses
from .stage_work import stage_work

_OPERATORS: Final = ["name", "count", "total_ns", "self_ns", "device_ns"]


def operator_sums(trace: Trace) -> pd.DataFrame:
    """Operators outside communication, or kernels where there are none: what ranks are compared by.

    Returns
    -------
    DataFrame
        ``name count total_ns self_ns device_ns``.
    """
    table = operator_times(trace, category="operator")
    if len(table):
        talks = table["name"].map(phase_of) == "communication"
        return table.loc[~talks, _OPERATORS].reset_index(drop=True)
    table = analysis.kernels(trace)
    spent = table["total_ns"]
    return table.assign(self_ns=spent, device_ns=spent)[_OPERATORS]


def idle_sums(trace: Trace) -> pd.DataFrame:
    """Idle time of each device and step, by cause; see `notebook_prof.analysis.device_idle`."""
    gaps = analysis.device_idle(trace)
    causes = [name for name in gaps if name.endswith("_ns")]
    return gaps.groupby(["device", "step"], as_index=False, dropna=False)[["dur", *causes]].sum()


def work_sums(trace: Trace) -> pd.DataFrame:
    """FLOPs and bytes of each step, as far as shapes tell them; see `notebook_prof.analysis.work`.

    Returns
    -------
    DataFrame
        ``step`` Int32 (missing outside steps), ``flops``, ``bytes`` float64, and ``known`` int64: how many
        calls' work is known; no rows where none is.
    """
    work = slice_work(trace)
    rows = np.flatnonzero(work.outermost)
    parts = {"flops": work.flops[rows], "bytes": work.bytes[rows], "known": np.ones(len(rows), np.int64)}
    frame = pd.DataFrame({"step": trace.slices["step"].to_numpy(dtype=np.int32, na_value=-1)[rows], **parts})
    table = frame.groupby("step", as_index=False).sum()
    number = table["step"].to_numpy()
    return table.assign(step=pd.arrays.IntegerArray(number, number < 0))


STANDARD: Final[Analyses] = {
    "breakdown": (breakdown, {}),
    "whole": (breakdown, {"by": "trace"}),
    "collectives": (collectives, {}),
    "operators": (operator_sums, {}),
    "idle": (idle_sums, {}),
    "memory": (analysis.memory_peak, {}),
    "stages": (stage_work, {}),
    "work": (work_sums, {}),
}
