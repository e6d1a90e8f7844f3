"""What recording costs, measured by interleaved steps: with a collector whose cost is known."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

import notebook_prof as nbp
from notebook_prof.collectors.base import Availability, Collector
from notebook_prof.session import current
from notebook_prof.session.sources import PAIR
from notebook_prof.session.window import StepWindow
from notebook_prof.statistics import overhead_ratio


class PlayedClock:
    """Stands still, unless it is told to go on."""

    def __init__(self) -> None:
        self.now = time.time_ns()

    def __call__(self) -> int:
        return self.now


clock: PlayedClock | None = None


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedClock:
    """Steps are timed by a clock that `busy` moves: exact, whatever else the machine does."""
    made = PlayedClock()
    monkeypatch.setattr(sys.modules[__name__], "clock", made)
    monkeypatch.setitem(StepWindow.__init__.__kwdefaults__, "now", made)
    return made


def busy(seconds: float) -> None:
    """Compute for so long; sleeping would not be what a collector does."""
    if clock is not None:
        clock.now += round(seconds * 1e9)
        return
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Costly(Collector):
    """Adds a known time to every step while it records."""

    name = "costly"
    active = 0
    lives: list[str] = []  # noqa: RUF012 (shared on purpose: a new one is made for each cycle)

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True)

    def start(self, clock: object) -> None:
        Costly.active += 1
        self.lives.append("start")

    def stop(self) -> None:
        Costly.active -= 1
        self.lives.append("stop")

    def result(self, builder: object) -> None:
        self.lives.append("result")


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    Costly.active, Costly.lives = 0, []
    yield
    assert Costly.active == 0
    assert current.running() is None


def train(p: nbp.profile, steps: int, step_s: float, cost_s: float) -> None:
    for _ in range(steps):
        busy(step_s + cost_s * (Costly.active > 0))
        p.step()


def recorded(count: int, step_s: float = 0.004, cost_s: float = 0.002) -> nbp.profile:
    with nbp.profile(Costly(), "system", measure_overhead=True, steps=(1, 3)) as p:
        train(p, count, step_s, cost_s)
    return p


def test_a_known_cost_is_found_exactly(played: None) -> None:
    p = recorded(3 + 12 * PAIR)
    measured = p.trace.metadata["overhead"]
    assert measured["pairs"] == 12
    assert measured["unrecorded_ns"] == [4_000_000] * 12
    assert measured["recorded_ns"] == [6_000_000] * 12
    row = p.steps.overhead().iloc[0]
    assert (row["overhead_ns"], row["pairs"]) == (2e6, 12)
    assert (row["low"], row["ratio"], row["high"]) == (1.5, 1.5, 1.5)


def test_the_profile_is_that_of_the_window_alone() -> None:
    p = recorded(3 + 3 * PAIR)
    assert p.trace.steps["step"].tolist() == [1, 2]
    assert len(p.cycles) == 1
    assert p.trace.metadata["steps_seen"] == 3 + 3 * PAIR
    assert p.trace.metadata["overhead"]["pairs"] == 3


def test_no_cost_is_not_called_one(played: None) -> None:
    p = recorded(3 + 8 * PAIR, cost_s=0.0)
    assert p.trace.metadata["overhead"]["ratio"] == 1.0
    assert "costly-recording" not in set(p.trust["code"])


def test_a_high_cost_is_reported_in_the_trust_report_and_the_verdict(played: None) -> None:
    p = recorded(3 + 6 * PAIR, step_s=0.002, cost_s=0.006)
    assert "costly-recording" in set(p.trust["code"])
    assert "times as long" in str(p.verdict)


def test_too_few_steps_are_said() -> None:
    p = recorded(5, step_s=0.0005, cost_s=0.0)
    assert "overhead" not in p.trace.metadata
    assert "overhead-not-measured" in p.trace.report
    assert p.steps.overhead().empty


def test_stop_after_waits_for_the_measurement() -> None:
    count = 0
    with nbp.profile(Costly(), steps=(1, 3), measure_overhead=True, stop_after=True) as p:
        for _ in range(1000):
            busy(0.0003)
            count += 1
            p.step()
    assert count == 3 + 12 * PAIR
    assert p.trace.metadata["overhead"]["pairs"] == 12


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        off = (1e6 * rng.normal(1.0, 0.05, 12)).astype(int)
        on = (1.2e6 * rng.normal(1.0, 0.05, 12)).astype(int)
        _, low, high = overhead_ratio(on.tolist(), off.tolist())
        hits += low <= 1.2 <= high
    assert 0.88 <= hits / 200 <= 1.0
