"""What is computed of every rank in one go, so that each is read once for all questions."""

from __future__ import annotations

from typing import Final

import pandas as pd

from .. import analysis
from ..analysis.breakdown import breakdown
from ..analysis.collectives import collectives
from ..trace import Trace
from ..trace.taxonomy import phase_of
from .reduction import Analyses

_OPERATORS: Final = ["name", "count", "total_ns", "self_ns", "device_ns"]


def operator_sums(trace: Trace) -> pd.DataFrame:
    """Operators outside communication, or kernels where there are none: what ranks are compared by.

    Returns
    -------
    DataFrame
        ``name count total_ns self_ns device_ns``.
    """
    table = analysis.operators(trace, category="operator")
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


STANDARD: Final[Analyses] = {
    "breakdown": (breakdown, {}),
    "whole": (breakdown, {"by": "trace"}),
    "collectives": (collectives, {}),
    "operators": (operator_sums, {}),
    "idle": (idle_sums, {}),
    "memory": (analysis.memory_peak, {}),
}
