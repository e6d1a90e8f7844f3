"""How sure a difference is: against SciPy, and on simulated steps whose truth is known."""

import math

import numpy as np
import pytest

from notebook_prof import statistics

stats = pytest.importorskip("scipy.stats", reason="scikit-learn brings SciPy, and is not installed")


@pytest.mark.parametrize("df", [1, 2, 3, 4, 7, 11, 40])
def test_students_t_is_scipys(df: int) -> None:
    points = np.array([0.0, 0.1, 1.0, 2.5, 30.0])
    expected = stats.t.cdf(points, df) - stats.t.cdf(-points, df)
    np.testing.assert_allclose(statistics.t_probability(points, df), expected, atol=1e-12)
    for p in (0.6, 0.975, 0.999):
        assert statistics.t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9)


def test_rows_to_believe_are_scipys() -> None:
    p = np.random.default_rng(1).uniform(0, 1, 200) ** 3
    expected = stats.false_discovery_control(p) <= 0.05
    assert statistics.true_discoveries(p).tolist() == expected.tolist()
    assert statistics.true_discoveries(np.array([np.nan, np.nan])).tolist() == [False, False]


def noise(rng: np.random.Generator, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(5e6 * np.exp(0.03 * rng.standard_t(3, n)))


@pytest.mark.parametrize(("n", "most"), [(6, 0.08), (12, 0.07), (40, 0.07)])
def test_unchanged_steps_are_seldom_called_different(n: int, most: float) -> None:
    """Independent heavy-tailed noise; 200 pairs, so that 5 % have a standard error of 1.5 %."""
    rng = np.random.default_rng(n)
    significant = [statistics.shift_of_steps(noise(rng, n), noise(rng, n)).significant for _ in range(200)]
    assert np.mean(significant) <= most


@pytest.mark.parametrize("true", [0.02, 0.05, 0.2])
def test_the_interval_holds_a_planted_change(true: float) -> None:
    rng = np.random.default_rng(7)
    covered = significant = 0
    for _ in range(100):
        change = statistics.shift_of_steps(noise(rng, 40), (1 + true) * noise(rng, 40))
        covered += math.expm1(change.low) <= true <= math.expm1(change.high)
        significant += change.significant
    assert covered >= 92
    assert significant >= {0.02: 15, 0.05: 85, 0.2: 100}[true]


def test_the_change_is_a_factor_and_does_not_depend_on_the_unit() -> None:
    rng = np.random.default_rng(3)
    a, b = noise(rng, 20), 1.3 * noise(rng, 25)
    forth, back = statistics.shift_of_steps(a, b), statistics.shift_of_steps(b, a)
    scaled = statistics.shift_of_steps(1e-9 * a, 1e-9 * b)
    assert forth.value == pytest.approx(-back.value, abs=1e-9)
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low), abs=1e-6)
    assert (scaled.low, scaled.high) == pytest.approx((forth.low, forth.high), abs=1e-6)


def test_a_stall_of_a_second_weighs_as_one_of_ten_milliseconds() -> None:
    rng = np.random.default_rng(4)
    a, b = noise(rng, 20), noise(rng, 20)
    b[5] = 10e6
    short = statistics.shift_of_steps(a, b)
    b[5] = 1e9
    long = statistics.shift_of_steps(a, b)
    assert long.value == pytest.approx(short.value, abs=1e-3)
    assert long.high == pytest.approx(short.high, abs=1e-3)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_few_steps_say_nothing(n: int) -> None:
    change = statistics.shift_of_steps(np.full(n, 1.0), np.full(30, 2.0))
    assert math.isnan(change.low)
    assert not change.significant


def test_runs_that_differ_more_than_their_steps_are_not_called_different() -> None:
    """The noise between runs is ten times that of steps: three a side must know it, one a side is widened."""
    rng = np.random.default_rng(5)

    def run() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.asarray(math.exp(0.05 * rng.standard_normal()) * np.exp(0.005 * rng.standard_normal(24)))

    several = [
        statistics.shift_of_runs([run() for _ in range(3)], [run() for _ in range(3)]).significant
        for _ in range(300)
    ]
    alone = [statistics.shift_of_steps(run(), run()).significant for _ in range(100)]
    pairs = []
    for _ in range(300):
        drift = np.exp(0.2 * rng.standard_normal(4))
        pairs.append(
            statistics.shift_of_runs([d * run() for d in drift], [d * run() for d in drift], paired=True)
        )
    assert np.mean([statistics.significant for statistics in pairs]) <= 0.07
    assert np.median([statistics.high - statistics.low for statistics in pairs]) < 0.35, (
        "what both runs of a pair had cancels"
    )
    assert np.mean(several) <= 0.07
    assert np.mean(alone) > 0.5, "what the test would say without knowing about runs"


def test_warm_up_and_slow_steps() -> None:
    steady = np.full(20, 10.0) + np.arange(20) % 3
    assert statistics.warm_up(np.concatenate([[70.0, 50, 30], steady])) == 3
    assert statistics.warm_up(steady) == 1
    assert statistics.warm_up(steady[:4]) == 0
    slow = statistics.slow_steps(np.append(steady, 99.0))
    assert slow.tolist() == [False] * 20 + [True]


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("n", [5, 6, 20, 37, 100, 400])
def test_intervals_of_quantiles_are_binomial(n: int, q: float) -> None:
    low, high = statistics.quantile_interval(np.random.default_rng(n).permutation(n) + 1.0, q)
    rank = stats.binom.ppf(0.025, n, q)
    assert low == (rank if rank > 0 else -math.inf)
    rank = stats.binom.ppf(0.975, n, q) + 1
    assert high == (rank if rank <= n else math.inf)
    both = math.isfinite(low) and math.isfinite(high)
    assert both == (n >= statistics.steps_for_quantile(q))


def test_quantiles_of_steps_that_depend_on_their_neighbours_are_known_less_well() -> None:
    rng, inside = np.random.default_rng(2), 0
    for _ in range(300):
        x = np.zeros(260)
        for k, kick in enumerate(rng.normal(size=259), 1):
            x[k] = 0.6 * x[k - 1] + kick
        times = np.exp(x[60:])
        low, high = statistics.quantile_interval(times, 0.5, statistics.dependence(times))
        inside += low <= 1 <= high
    assert inside >= 270
