"""The difference of two series of step times, and its certainty. Pure numpy.

Times are compared as logarithms: a change is a factor, in any unit. Steps depend on their predecessors, so
they
are taken in blocks. Two runs differ by more than their steps show, so the interval of two runs is widened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .intervals import LEVEL, FloatArray, t_quantile
from .steps import LEAST, block_means, block_starts

LEAST_RUNS: Final = 3
"""With at least this many runs a side, runs are compared instead of steps."""
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


def shift_of_steps(a: FloatArray, b: FloatArray, *, factor: float = 1.0) -> Shift:
    """Compare the positive step times of two sides, in measured order; the interval is nan below 4 steps a
    side.

    `factor` multiplies both halves of the interval; see `factor_of_runs`.
    """
    # The value is Hodges and Lehmann's: the median of all differences of logarithms. The interval has all
    # shifts that the test of Brunner and Munzel (2000) does not reject at 5 %, with means of blocks of
    # neighbouring steps in place of single placements, and with one less than the smaller number of blocks as
    # degrees of freedom.
    x, y = np.log(a), np.log(b)
    n = len(x), len(y)
    value = float(np.median(np.subtract.outer(y, x))) if min(n) else math.nan
    if min(n) < LEAST:
        return Shift(value, math.nan, math.nan, n, factor)
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
    return Shift(value, value - factor * (value - low), value + factor * (high - value), n, factor)


def shift_of_runs(a: Sequence[FloatArray], b: Sequence[FloatArray], *, paired: bool = False) -> Shift:
    """Compare several runs a side: Student's t over the logarithms of their medians; `n` counts runs."""
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
    """Return that factor from pairs of unchanged runs (`ratio_of_halves`, the last 60), at least 1; None
    below 19.
    """
    # The ``⌈0.95 (m + 1)⌉``-th smallest of m ratios, as in split-conformal prediction: the next pair of
    # unchanged runs is below it in 95 % of cases, for any distribution, if pairs are alike. Fewer than 19
    # pairs cannot give 95 %.
    last = np.sort(np.asarray(ratios, np.float64)[-MOST_PAIRS:])
    at = math.ceil(LEVEL * (len(last) + 1))
    return max(1.0, float(last[at - 1])) if at <= len(last) else None


def ratio_of_halves(shift: Shift) -> float:
    """Return by how many half widths a shift is away from 0; nan if unknown."""
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
