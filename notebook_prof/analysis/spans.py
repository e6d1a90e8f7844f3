"""The steps of a trace as stretches of time, cut at a window."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace import Trace, Window
from .scope import Numbers, WindowLike, many


def step_spans(trace: Trace, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """Steps that touch the window, cut at its edges.

    Returns
    -------
    DataFrame
        ``step ts dur source`` as in ``trace.steps``, by step; without a window, unchanged.
    """
    table = trace.steps
    keep = np.ones(len(table), dtype=bool)
    if step is not None:
        keep &= table["step"].isin(many(step)).to_numpy()
    if window is not None:
        cut = Window.of(window)
        end = np.minimum((table["ts"] + table["dur"]).to_numpy(), cut.end)
        ts = np.maximum(table["ts"].to_numpy(), cut.start)
        table = table.assign(ts=ts, dur=np.maximum(end - ts, 0))
        keep &= end > ts
    return table[keep].reset_index(drop=True)
