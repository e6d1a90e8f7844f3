"""Time by phase of training."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...analysis.time.phases import phases
from .events import PHASES, STEP, Events
from .spread import ratios, spread

_PHASE: Final = {
    "data": "Dataloader",
    "forward": "Forward",
    "backward": "Backward",
    "optimizer": "Optimization",
}


def model_table(events: Events) -> pd.DataFrame:
    """Steps, the four phases and the rest, on host and devices.

    Returns
    -------
    DataFrame
        ``name`` (``ProfileStep Dataloader Forward Backward Optimization Others``), ``calls`` and, with
        ``cpu_`` and ``gpu_``, ``total_ns avg_ns max_ns min_ns ratio``; no rows without phases. In Paddle's
        files a call is an outermost event of the phase, and device time is the sum of the kernels below;
        elsewhere a call is the phase's share of one step.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> model_table(Events(TraceBuilder().seal())).empty
    True
    """
    if not events.own_types:
        return _from_steps(events)
    rows = events.phase_rows
    steps = np.flatnonzero(events.of(STEP))
    whole = spread(np.array([STEP] * len(steps), dtype=object), events.dur[steps], events.kernel_ns[steps])
    parts = spread(events.type[rows], events.dur[rows], events.kernel_ns[rows])
    return _joined(whole, parts)


def _joined(whole: pd.DataFrame, parts: pd.DataFrame) -> pd.DataFrame:
    if parts.empty or whole.empty:
        return ratios(whole.iloc[:0].copy(), 0, 0)
    parts = parts.set_index("name").reindex(PHASES).fillna(0).reset_index()
    rest = whole.iloc[:1].copy()
    rest["name"], rest["calls"] = "Others", 0
    for place in ("cpu", "gpu"):
        column = f"{place}_total_ns"
        rest[column] = whole[column].iloc[0] - parts[column].sum()
        for other in ("avg", "max", "min"):
            rest[f"{place}_{other}_ns"] = np.nan
    table = pd.concat([whole, parts, rest], ignore_index=True).astype({"calls": "int64"})
    return ratios(table, float(whole["cpu_total_ns"].iloc[0]), float(whole["gpu_total_ns"].iloc[0]))


def _from_steps(events: Events) -> pd.DataFrame:
    table = phases(events.trace)
    table = table[table["step"].notna()] if len(events.trace.steps) else table.iloc[:0]
    per_step = table.groupby("step", sort=False)[["host_ns", "device_ns"]].sum()
    whole = spread(
        np.array([STEP] * len(per_step), dtype=object),
        per_step["host_ns"].to_numpy(dtype=np.int64),
        per_step["device_ns"].to_numpy(dtype=np.int64),
    )
    named = table["phase"].astype("object").map(_PHASE)
    known = table[named.notna() & ((table["host_ns"] > 0) | (table["device_ns"] > 0))]
    parts = spread(
        named[known.index].to_numpy(dtype=object),
        known["host_ns"].to_numpy(dtype=np.int64),
        known["device_ns"].to_numpy(dtype=np.int64),
    )
    return _joined(whole, parts)
