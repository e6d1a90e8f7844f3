"""The counted steps of a recording, and how much each depends on the one before."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..trace import Trace
from ..trace.arrays import BoolArray
from .intervals import FloatArray, quantile_interval

LEAST: Final = 4
"""Minimum number of steps a side."""
MOST_BLOCKS: Final = 12
SLOW: Final = 5.0
"""A slow step is this many deviations longer than the median."""
_WARM_UP: Final = 0.2


def counted_steps(trace: Trace) -> pd.DataFrame:
    """List the steps of the longest loop by time, and whether each counts: ``step ts dur_ns used slow``.

    A recording without steps has a single row that covers all of it, numbered -1.
    """
    # Steps that do not count: warm-up (`warm_up`), steps cut by the recording and, if more than half of the
    # others remain, steps in which ``torch.compile`` compiled.
    table = trace.steps
    if not len(table):
        whole = pd.DataFrame({"step": [-1], "ts": [trace.span.start], "dur_ns": [trace.span.dur]})
        return whole.assign(used=True, slow=False)
    longest = table.groupby("loop")["dur"].sum().idxmax()
    rows = table[(table["loop"] == longest) & (table["dur"] > 0)].sort_values("ts")
    times = rows["dur"].to_numpy(np.float64)
    used = ~rows["step"].isin(trace.metadata.get("partial_steps") or []).to_numpy()
    counted = np.flatnonzero(used)
    used[counted[: warm_up(times[counted])]] = False
    steady = used & ~compiling(trace, rows["ts"].to_numpy(np.int64), rows["dur"].to_numpy(np.int64))
    used = steady if 2 * steady.sum() > used.sum() else used
    slow = np.zeros(len(rows), bool)
    slow[used] = slow_steps(times[used])
    columns = {"step": rows["step"].astype("int64"), "ts": rows["ts"], "dur_ns": rows["dur"]}
    return pd.DataFrame(columns).assign(used=used, slow=slow).reset_index(drop=True)


def compiling(trace: Trace, ts: npt.NDArray[np.int64], dur: npt.NDArray[np.int64]) -> BoolArray:
    """Return the spans in which ``torch.compile`` compiled, as far as recorded."""
    table = (trace.metadata.get("tables") or {}).get("compilations")
    if not isinstance(table, pd.DataFrame) or not len(table):
        return np.zeros(len(ts), bool)
    begins = np.sort(table["ts"].to_numpy(np.int64))
    ends = np.sort((table["ts"] + table["dur"]).to_numpy(np.int64))
    return np.asarray(np.searchsorted(begins, ts + dur) > np.searchsorted(ends, ts, side="right"))


def warm_up(times: FloatArray) -> int:
    """Return the number of leading warm-up steps: the first, and slow ones after it, at most a fifth; 0 below
    5.
    """
    if len(times) <= LEAST:
        return 0
    slow = slow_steps(times, times[len(times) // 2 :])
    most, count = max(1, int(_WARM_UP * len(times))), 1
    while count < most and slow[count]:
        count += 1
    return count


def slow_steps(times: FloatArray, usual: FloatArray | None = None) -> BoolArray:
    """Return a mask of the steps that exceed the median by more than five deviations."""
    # The deviation is 1.4826 times the median absolute deviation, and at least 1 % of the median.
    usual = times if usual is None else usual
    if not len(usual):
        return np.zeros(len(times), bool)
    middle = float(np.median(usual))
    deviation = max(1.4826 * float(np.median(np.abs(usual - middle))), 0.01 * middle)
    return np.asarray(times > middle + SLOW * deviation)


def dependence(times: FloatArray) -> float:
    """Return how many steps carry as much information as one independent step."""
    # One plus twice the autocorrelations of the ranks, up to the first one below ``2/√n``.
    n = len(times)
    ranks = np.argsort(np.argsort(times)).astype(np.float64)
    ranks -= ranks.mean()
    variance = float(ranks @ ranks) or 1.0
    tau = 1.0
    for lag in range(1, n // 4 + 1):
        correlation = float(ranks[:-lag] @ ranks[lag:]) / variance
        if correlation < 2 / math.sqrt(n):
            break
        tau += 2 * correlation
    return tau


def median_interval(times: FloatArray) -> tuple[float, float, float]:
    """Return the median of the counted steps and its 95 % interval; ends are infinite with too few steps."""
    # Warm-up is left out as in `counted_steps`, and `dependence` reduces the number of steps.
    used = times[warm_up(times) :]
    if not len(used):
        return math.nan, -math.inf, math.inf
    return float(np.median(used)), *quantile_interval(used, 0.5, dependence(used))


def block_starts(times: FloatArray) -> npt.NDArray[np.int64]:
    """Return the starts of 2 to 12 blocks of neighbouring steps, as long as steps depend on one another."""
    # A block has ``max(n^⅓, τ)`` steps, at most n/6, with τ from `dependence`.
    n = len(times)
    size = int(np.clip(round(max(n ** (1 / 3), dependence(times))), 1, max(1, n // 6)))
    count = int(np.clip(n // size, 2, MOST_BLOCKS))
    lengths = [len(part) for part in np.array_split(np.arange(n), count)]
    return np.concatenate([[0], np.cumsum(lengths[:-1])]).astype(np.int64)


def block_means(values: FloatArray, starts: npt.NDArray[np.int64]) -> FloatArray:
    """Return the mean of each block along the first axis."""
    counts = np.diff(np.append(starts, len(values)))
    sums = np.add.reduceat(values, starts, axis=0)
    return np.asarray(sums / counts.reshape(-1, *[1] * (values.ndim - 1)))
