"""The cost of recording, by operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.schema import Table
from ..device.kernel_launches import launching_rows
from ..scope import WindowLike, on_host
from .thread_time import SMALL_NS

ROUNDS: Final = 2000
_COLUMNS: Final = Table.of(
    "overhead",
    "part:str ratio:float64 low:float64 high:float64 overhead_ns:float64 share:float64 events:int64",
)


def overhead(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Return how much recording added to each step, if it was measured.

    ``%%profile --measure-overhead`` and ``nbp.profile(measure_overhead=True)`` measure it with alternately
    recorded and unrecorded steps after the window.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns: divide the overhead by the operators of this part only.

    Returns
    -------
    DataFrame
        ``part ratio low high overhead_ns share events``: a row ``all``, then ``launch-bound`` and ``other``;
        empty if it was not measured. The `ratio` of a part is that of a step with only this part of the
        overhead. Shares are NaN without recorded operators.

    Notes
    -----
    The ratio is that of the medians; its interval comes from a bootstrap over pairs (Efron 1979; 2,000
    rounds, percentiles). Unrecorded steps have no operators, so the division is a model and not a
    measurement: every recorded slice costs the same. An operator is *launch-bound* if the device work that it
    launched is shorter than itself or, if it launched none, if its self time is below 10 µs.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder(metadata={"overhead": {
    ...     "ratio": 1.2, "low": 1.1, "high": 1.3, "pairs": 3, "unrecorded_ns": [100, 100, 100]}})
    >>> _ = b.slices(ts=[0, 50_000], dur=[5_000, 50_000], name=["add", "mm"], track=b.track("main"))
    >>> overhead(b.seal())[["part", "overhead_ns", "share"]].round(3).values.tolist()
    [['all', 20.0, 1.0], ['launch-bound', 10.0, 0.5], ['other', 10.0, 0.5]]
    """
    measured: Any = trace.metadata.get("overhead")
    if not isinstance(measured, dict) or "ratio" not in measured:
        return _COLUMNS.empty()
    plain = float(np.median(measured["unrecorded_ns"]))
    events, bound = _events(trace, window)
    share = np.array([1.0, bound / events, 1 - bound / events]) if events else np.array([1.0, np.nan, np.nan])
    ends = {key: 1 + (float(measured[key]) - 1) * share for key in ("ratio", "low", "high")}
    return _COLUMNS.frame(
        {
            "part": ["all", "launch-bound", "other"],
            **ends,
            "overhead_ns": (float(measured["ratio"]) - 1) * plain * share,
            "share": share,
            "events": [events, bound, events - bound],
        }
    )


def overhead_ratio(recorded: Sequence[int], unrecorded: Sequence[int]) -> tuple[float, float, float]:
    """Return the ratio of the median step times, and the ends of its 95 % bootstrap interval over pairs."""
    on, off = np.asarray(recorded, np.float64), np.asarray(unrecorded, np.float64)
    rows = np.random.default_rng(0).integers(0, len(on), (ROUNDS, len(on)))
    ratios = np.median(on[rows], axis=1) / np.maximum(np.median(off[rows], axis=1), 1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(np.median(on) / max(np.median(off), 1)), float(low), float(high)


def _events(trace: Trace, window: WindowLike) -> tuple[int, int]:
    """Count slices on host threads, and how many of them are, or are in, launch-bound operators."""
    host = on_host(trace, window).where(category=("operator", "collective", "launch", "sync"))
    operator = host.where(category=("operator", "collective"))
    if not len(operator.rows):
        return 0, 0
    slices, owner = trace.slices, launching_rows(trace)
    has_owner = owner >= 0
    launched = np.bincount(owner[has_owner], slices["dur"].to_numpy()[has_owner], len(slices))[operator.rows]
    spent = operator.end - operator.ts
    bound = np.where(launched > 0, launched < spent, operator.self_ns < SMALL_NS)
    owners = np.zeros(len(slices) + 1, dtype=bool)
    owners[operator.rows[bound]] = True
    calls = host.among("category", ("launch", "sync"))
    return len(host.rows), int(bound.sum() + owners[host.ints("parent")[calls]].sum())
