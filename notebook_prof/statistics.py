"""Statistics of step times: counted steps, 95 % intervals, and the difference of two series.

Times are compared as logarithms: a change is a factor, in any unit. Steps depend on their predecessors, so
they are taken in blocks. Two runs differ by more than their steps show, so their interval is widened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from .trace import Trace
from .trace.arrays import BoolArray

LEVEL: Final = 0.95

FloatArray = npt.NDArray[np.float64]


def t_probability(t: npt.ArrayLike, df: int) -> FloatArray:
    """Return the probability of Student's t between -t and t, with whole degrees of freedom `df` ≥ 1."""
    # These are the closed forms of Abramowitz and Stegun (1964), 26.7.3 and 26.7.4.
    angle = np.arctan(np.abs(np.asarray(t, np.float64)) / math.sqrt(df))
    cos, sin = np.cos(angle), np.sin(angle)
    odd = df % 2
    term, total = cos if odd else np.ones_like(cos), np.zeros_like(cos)
    for k in range(1 + odd, df, 2):
        total = total + term
        term = term * cos * cos * k / (k + 1)
    return np.asarray(2 / math.pi * (angle + sin * total) if odd else sin * total)


def t_quantile(p: float, df: int) -> float:
    """Return the quantile of Student's t, for p over one half."""
    low, high = 0.0, 1.0
    while t_probability(high, df) < 2 * p - 1:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, df) < 2 * p - 1 else (low, middle)
    return high


def true_discoveries(p: FloatArray) -> BoolArray:
    """Return a mask of the significant p values, by Benjamini and Hochberg (1995); nan never is."""
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested])]
    passed = p[order] <= (1 - LEVEL) * np.arange(1, len(order) + 1) / max(len(order), 1)
    believed = np.zeros(len(p), bool)
    if passed.any():
        believed[order[: np.flatnonzero(passed)[-1] + 1]] = True
    return believed


def quantile_interval(values: FloatArray, q: float, dependence: float = 1.0) -> tuple[float, float]:
    """Return a 95 % interval of a quantile; an end is infinite if there are too few values."""
    # Of n values, ``n / dependence`` count as independent.
    # The interval uses order statistics, for any distribution (Hahn and Meeker, *Statistical Intervals*,
    # 1991, 5.2): the number of values below the quantile is binomial, with at most 2.5 % in each tail.
    ascending, count = np.sort(values), max(1, int(len(values) / dependence))
    k = np.arange(count + 1)
    logs = np.cumsum(np.log(np.maximum(k, 1)))
    below = np.cumsum(np.exp(logs[-1] - logs - logs[::-1] + k * math.log(q) + (count - k) * math.log1p(-q)))
    tail = (1 - LEVEL) / 2
    low = int(np.searchsorted(below, tail, side="right"))  # this many values are below it in all but the tail
    high = int(np.searchsorted(below, 1 - tail, side="left")) + 1
    scale = len(values) / count
    first = ascending[math.ceil(low * scale) - 1] if low > 0 else -math.inf
    last = ascending[math.ceil(high * scale) - 1] if high <= count else math.inf
    return float(first), float(last)


def steps_for_quantile(q: float) -> int:
    """Return the number of values that `quantile_interval` needs for both ends."""
    return math.ceil(math.log((1 - LEVEL) / 2) / math.log(max(q, 1 - q)))


LEAST: Final = 4
"""Minimum number of steps per side."""
MOST_BLOCKS: Final = 12
SLOW: Final = 5.0
"""A slow step is this many deviations longer than the median."""
_WARM_UP: Final = 0.2


def counted_steps(trace: Trace) -> pd.DataFrame:
    """List the steps of the longest loop by time, and whether each counts: ``step ts dur_ns used slow``."""
    # A recording without steps has a single row that covers all of it, numbered -1. Steps that do not count:
    # warm-up (`warm_up`), steps cut by the recording and, if more than half of the others remain, steps in
    # which ``torch.compile`` compiled.
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
    """Return the number of warm-up steps: the first and slow ones after it, at most a fifth; 0 below 5."""
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
    """Return the number of steps that carry as much information as one independent step."""
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


LEAST_RUNS: Final = 3
"""With at least this many runs per side, runs are compared instead of steps."""
_RUN_TO_RUN: Final = 3.0
_STEPS_OF_FACTOR: Final = 12
MOST_PAIRS: Final = 60
"""Number of pairs of unchanged runs from which the noise between runs is learnt."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The factor by which one side is longer than the other, as a logarithm."""

    # ``exp(value) - 1`` is the relative change; `low` and `high` are its 95 % interval, nan if unknown.
    value: float
    low: float
    high: float
    # Number of steps on each side, or of runs.
    n: tuple[int, int]
    # Factor that widened the interval for noise between runs; 1 if none did.
    factor: float = 1.0

    @property
    def significant(self) -> bool:
        """Whether 0 is outside the interval."""
        return self.low > 0 or self.high < 0


def shift_of_steps(a: FloatArray, b: FloatArray) -> Shift:
    """Compare the positive step times of two sides, as measured; below 4 per side, the interval is nan."""
    # The value is Hodges and Lehmann's: the median of all differences of logarithms. The interval has all
    # shifts that the test of Brunner and Munzel (2000) does not reject at 5 %, with means of blocks of
    # neighbouring steps in place of single placements, and with one less than the smaller number of blocks as
    # degrees of freedom.
    x, y = np.log(a), np.log(b)
    n = len(x), len(y)
    value = float(np.median(np.subtract.outer(y, x))) if min(n) else math.nan
    if min(n) < LEAST:
        return Shift(value, math.nan, math.nan, n)
    blocks = [block_starts(x), block_starts(y)]
    limit = t_quantile(0.5 + LEVEL / 2, min(map(len, blocks)) - 1)

    def rejected(shift: float) -> bool:
        of_a, of_b = _placements(x + shift, y)
        spread = 0.0
        for ranks, starts, size in zip((of_a, of_b), blocks, n, strict=True):
            variance = max(float(np.var(block_means(ranks, starts), ddof=1)), 1 / (12 * size * size))
            spread += variance / len(starts)
        return bool(abs(of_b.mean()) > limit * math.sqrt(spread))

    widest = 4 * max(float(np.ptp(x)), float(np.ptp(y)), 1e-9)
    low = value - _edge(lambda d: rejected(value - d), widest)
    high = value + _edge(lambda d: rejected(value + d), widest)
    return Shift(value, low, high, n)


def shift_of_runs(a: Sequence[FloatArray], b: Sequence[FloatArray], *, paired: bool = False) -> Shift:
    """Compare several runs per side by Student's t over the logarithms of their medians; `n` counts runs."""
    # With `paired`, runs at the same index were made in succession, so that the machine's state cancels.
    # Otherwise Welch's t is used, with the degrees of freedom of the side with fewer runs.
    x, y = (np.log([float(np.median(run)) for run in runs]) for runs in (a, b))
    value = float(y.mean() - x.mean())
    if min(len(x), len(y)) < 2:
        return Shift(value, math.nan, math.nan, (len(x), len(y)))
    if paired:
        variance = float((y - x).var(ddof=1)) / len(x)
    else:
        variance = float(x.var(ddof=1)) / len(x) + float(y.var(ddof=1)) / len(y)
    half = t_quantile(0.5 + LEVEL / 2, min(len(x), len(y)) - 1) * math.sqrt(variance)
    return Shift(value, value - half, value + half, (len(x), len(y)))


def factor_of_runs(steps: int) -> float:
    """Return the factor that widens an interval for noise between runs."""
    # The factor is assumed, not measured on this machine: ``3 max(1, √(steps / 12))``. With it, neighbouring
    # runs of unchanged code were called different in 3–6 % of 175 pairs; without it in 30–43 %. It grows with
    # the steps because more steps of the same two runs add no information about the runs.
    return _RUN_TO_RUN * max(1.0, math.sqrt(steps / _STEPS_OF_FACTOR))


def learned_factor(ratios: Sequence[float]) -> float | None:
    """Learn the factor, at least 1, from the last 60 ratios of unchanged pairs; None with fewer than 19."""
    # The ``⌈0.95 (m + 1)⌉``-th smallest of m ratios, as in split-conformal prediction: the next pair of
    # unchanged runs is below it in 95 % of cases, for any distribution, if pairs are alike. Fewer than 19
    # pairs cannot give 95 %.
    last = np.sort(np.asarray(ratios, np.float64)[-MOST_PAIRS:])
    at = math.ceil(LEVEL * (len(last) + 1))
    return max(1.0, float(last[at - 1])) if at <= len(last) else None


def ratio_of_halves(shift: Shift) -> float:
    """Return the distance of a shift from 0 in half-widths of its interval; nan if unknown."""
    half = shift.value - shift.low if shift.value > 0 else shift.high - shift.value
    return round(abs(shift.value) / half, 9) if half > 0 else math.nan


def widened(shift: Shift, factor: float) -> Shift:
    """Return the same shift with an interval `factor` times as wide."""
    low = shift.value - factor * (shift.value - shift.low)
    return replace(shift, low=low, high=shift.value + factor * (shift.high - shift.value), factor=factor)


def _placements(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return for each value the share of the other side that is smaller, less one half."""
    by_a, by_b = np.sort(a), np.sort(b)
    of_a = np.searchsorted(by_b, a, "left") + np.searchsorted(by_b, a, "right")
    of_b = np.searchsorted(by_a, b, "left") + np.searchsorted(by_a, b, "right")
    return of_a / (2 * len(b)) - 0.5, of_b / (2 * len(a)) - 0.5


def _edge(rejected: Callable[[float], bool], widest: float) -> float:
    """Return the distance from which shifts are rejected."""
    near, far = 0.0, 1e-4
    while not rejected(far) and far < widest:
        near, far = far, 2 * far
    for _ in range(20):
        middle = (near + far) / 2
        near, far = (near, middle) if rejected(middle) else (middle, far)
    return far
