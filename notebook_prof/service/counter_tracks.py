"""The counter tracks of a Trace as they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..trace import Trace


@dataclass(frozen=True, slots=True)
class DrawnCounter:
    """A counter that has values.

    Attributes
    ----------
    track : int
        Key in ``trace.tracks``.
    name, group, unit : str
        ``unit`` is ``bytes``, ``1`` for shares, ``W`` … or empty.
    low, high : float
        Smallest and largest value.
    """

    track: int
    name: str
    group: str
    unit: str
    low: float
    high: float


def drawn_counters(trace: Trace) -> list[DrawnCounter]:
    """Every counter with at least one finite value, in the order of ``trace.tracks``.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.counter(b.track("GPU 0 power", "counter", unit="W"), [0, 5], [70.0, 250.0])
    >>> [(c.name, c.unit, c.low, c.high) for c in drawn_counters(b.seal())]
    [('GPU 0 power', 'W', 70.0, 250.0)]
    """
    values = trace.counters
    finite = values[np.isfinite(values["value"].to_numpy())]
    ranges = finite.groupby("track")["value"].agg(["min", "max"])
    tracks = trace.tracks.set_index("track")
    known = [key for key in tracks.index if key in ranges.index]
    return [_drawn(int(key), tracks.loc[key], *map(float, ranges.loc[key])) for key in known]


def _drawn(key: int, info: pd.Series[Any], low: float, high: float) -> DrawnCounter:
    rank = "" if pd.isna(info["rank"]) else f"rank {int(info['rank'])} · "
    unit = "" if pd.isna(info["unit"]) else str(info["unit"])
    return DrawnCounter(key, str(info["name"]) or f"counter {key}", f"{rank}counters", unit, low, high)
