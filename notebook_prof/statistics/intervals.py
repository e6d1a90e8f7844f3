"""Intervals at 95 % and their foundations. Pure numpy."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from ..trace.arrays import BoolArray

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


def true_discoveries(p: FloatArray, rate: float = 1 - LEVEL) -> BoolArray:
    """Return a mask of the significant p values, by Benjamini and Hochberg (1995); nan never is."""
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested])]
    passed = p[order] <= rate * np.arange(1, len(order) + 1) / max(len(order), 1)
    believed = np.zeros(len(p), bool)
    if passed.any():
        believed[order[: np.flatnonzero(passed)[-1] + 1]] = True
    return believed


def quantile_interval(values: FloatArray, q: float, dependence: float = 1.0) -> tuple[float, float]:
    """Return a 95 % interval of a quantile; an end is infinite if there are too few values.

    Of n values, ``n / dependence`` count as independent.
    """
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
