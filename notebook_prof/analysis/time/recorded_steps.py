"""Step traces stored in a recording, as in MindSpore's folders."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...trace import Trace, Window
from ..scope import Numbers, WindowLike, many


def recorded_table(trace: Trace, name: str) -> pd.DataFrame | None:
    """Return a table from the trace's metadata; None if missing or empty."""
    table = (trace.metadata.get("tables") or {}).get(name)
    return table if isinstance(table, pd.DataFrame) and len(table) else None


def recorded_steps(trace: Trace, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame | None:
    """Return the recorded ``step rank ts dur fp_ts bp_ts``, cut at the window; None if there are none."""
    table = recorded_table(trace, "step_trace")
    if table is None:
        return None
    origin = int(trace.metadata.get("start_unix_ns", 0))
    points = {
        "ts": table["start_ns"].to_numpy() - origin,
        "fp_ts": table["fp_ns"].to_numpy() - origin,
        "bp_ts": table["bp_ns"].to_numpy() - origin,
    }
    end = table["end_ns"].to_numpy() - origin
    keep = np.ones(len(table), dtype=bool)
    if step is not None:
        keep &= table["step"].isin(many(step)).to_numpy()
    if window is not None:
        cut = Window.of(window)
        keep &= (points["ts"] < cut.end) & (end > cut.start)
        points = {name: np.clip(at, cut.start, cut.end) for name, at in points.items()}
        end = np.clip(end, cut.start, cut.end)
    steps = pd.DataFrame({"step": table["step"], "rank": table["rank"], **points})
    steps.insert(3, "dur", end - points["ts"])
    return steps[keep].reset_index(drop=True)
