"""Whether memory is higher after every step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace import Trace
from .memory import memory


def level_growth(trace: Trace, spans: pd.DataFrame | None = None) -> pd.DataFrame:
    """Compare the memory of each device at the ends of the steps; the first step may set things up.

    Parameters
    ----------
    trace : Trace
    spans : DataFrame, optional
        ``ts dur`` of the steps; default: all.

    Returns
    -------
    DataFrame
        A row a device: ``device`` int16, ``growth_bytes`` int64 (median between ends of steps, 0 with fewer
        than three), ``steps`` int64 (how many ends were compared), ``grows`` bool: in every one.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b, n = TraceBuilder(), np.arange(4)
    >>> b.steps(step=n, ts=n * 10, dur=np.full(4, 10), source="loop")
    >>> b.allocations(ts=n * 10 + 1, addr=n + 1, bytes=8, device=0, allocated=8 * n, reserved=99)
    >>> level_growth(b.seal()).values.tolist()
    [[0, 8, 2, True]]
    """
    steps = trace.steps if spans is None else spans
    curve = memory(trace)
    ends = (steps["ts"] + steps["dur"]).sort_values().to_numpy()
    rows = []
    for number in np.unique(curve["device"].to_numpy()):
        part = curve[curve["device"] == number]
        place = np.searchsorted(part["ts"].to_numpy(), ends, side="right") - 1
        level = part["allocated_bytes"].to_numpy()[place[place >= 0]]
        added = np.diff(level[1:])
        median = int(np.median(added)) if len(added) else 0
        rows.append((int(number), median, len(added), bool(len(added) and (added > 0).all())))
    table = pd.DataFrame(rows, columns=["device", "growth_bytes", "steps", "grows"])
    return table.astype({"device": "int16", "growth_bytes": "int64", "steps": "int64", "grows": "bool"})
