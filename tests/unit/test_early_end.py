"""A recording that ends before its steps: by hand, or when the median is known."""

from __future__ import annotations

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof.errors import OptionError
from notebook_prof.jupyter.options import parse
from notebook_prof.session import current
from notebook_prof.session.records import EarlyEnd, Run, StepRecords
from notebook_prof.session.schedule import ScheduleFunction, WholeRun, schedule, step_range
from notebook_prof.session.window import StepWindow, TickSource
from notebook_prof.statistics import counted_steps, median_interval
from notebook_prof.units import parse_share

from .test_window import Log, numbers


class Clock:
    """Moves by what the next step takes."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        self.ns += 1
        return self.ns


def run(states: ScheduleFunction, end: EarlyEnd, times: list[int], ask: int = -1) -> tuple[StepWindow, Log]:
    """Run steps of these lengths; the end is requested in step `ask`."""
    clock, log = Clock(), Log()
    window = StepWindow(states, log, now=clock, early_end=end)
    window.open()
    loop = Run("loop", 3, "for x in loader", 0)
    for step, length in enumerate(times):
        clock.ns += length
        if step == ask:
            end.ask()
        window.tick(TickSource.LOOP, run=loop)
    window.close()
    return window, log


@pytest.mark.parametrize(
    ("states", "calls", "steps"),
    [
        (WholeRun(), ["start", "stop"], [0, 1, 2, 3, 4, 5]),
        (step_range((3, 40)), ["warm", "start", "stop"], [3, 4, 5]),
        (step_range((6, 9)), ["warm", "abandon"], []),
        (step_range((30, 40)), [], []),
        (schedule(wait=1, warmup=1, active=2), ["warm", "start", "stop", "warm", "abandon"], [2, 3]),
    ],
)
def test_what_was_asked_for_by_hand_ends_with_the_step_that_runs(
    states: ScheduleFunction, calls: list[str], steps: list[int]
) -> None:
    """Steps are counted on to the end of the loop; nothing begins again."""
    end = EarlyEnd()
    window, log = run(states, end, [1000] * 50, ask=5)
    assert log.calls == calls
    assert [number for part in log.steps for number in numbers(part)] == steps
    assert window.step_count == 50
    assert (end.reason, end.step) == ("asked", 6 if calls else 29)  # nothing is asked long before a window
    assert sum(count for one in window.runs for _, count in one.unrecorded) == 50 - len(steps)


def test_it_ends_when_the_median_is_known_and_not_before() -> None:
    """Each look is at the interval of the steps until then, the loop's own; its time is in no step."""
    rng = np.random.default_rng(5)
    times = [9000, *rng.normal(1000, 60, 400).astype(int).tolist()]
    end = EarlyEnd(0.02)
    window, log = run(WholeRun(), end, times)
    recorded = np.asarray(log.steps[0].dur, np.float64)
    assert end.reason == "known"
    assert 16 <= len(recorded) == end.step < 400

    def width(count: int) -> float:
        median, low, high = median_interval(recorded[:count])
        return float(max(high - median, median - low) / median)

    assert width(len(recorded)) <= 0.02
    earlier = [16]
    while earlier[-1] < len(recorded):
        earlier.append(int(max(earlier[-1] * 1.1, earlier[-1] + 1)))
    assert all(width(count) > 0.02 for count in earlier if count < len(recorded))
    assert end.looks == sum(count <= len(recorded) for count in earlier)
    assert len(window.moves) >= end.looks
    assert set(np.abs(recorded - times[: len(recorded)]).tolist()) <= {0.0, 1.0, 2.0, 3.0}


def test_a_loop_that_never_settles_is_recorded_whole() -> None:
    times = [1000, 3000] * 40
    end = EarlyEnd(0.02)
    _, log = run(WholeRun(), end, times)
    assert end.reason == ""
    assert len(log.steps[0]) == 80


def test_steps_of_another_loop_do_not_count() -> None:
    records = StepRecords()
    for i in range(40):
        records.add(i, 1000 if i < 20 else 10 + i % 3, int(i >= 20))
    end = EarlyEnd(0.2)
    assert end.half_width(records) < 0.2
    assert end.interval is not None
    assert end.interval[0] == 11


def test_stopping_on_width_does_not_make_intervals_lie() -> None:
    """Of 300 loops without any change the interval at the end holds the true median in 92 % or more."""
    rng = np.random.default_rng(7)
    inside = 0
    for _ in range(300):
        times = np.exp(rng.standard_t(3, 400) * 0.05) * 1_000_000
        end, records = EarlyEnd(0.03), StepRecords()
        for i, time in enumerate(times):
            records.add(i, int(time), 0)
            if end.reached(records, i + 1):
                break
        assert end.interval is not None
        inside += end.interval[1] <= 1_000_000 <= end.interval[2]
    assert inside / 300 >= 0.92


def test_a_profile_says_that_it_ended_and_why() -> None:
    with nbp.profile("python", until="90%") as p:
        for _ in range(60):
            sum(range(2000))
            nbp.step()
    (issue,) = [one for one in p.trace.report if one.code in ("ended-early", "median-not-known")]
    assert "the median step is known to ±" in issue.example
    if issue.code == "ended-early":
        assert len(p.trace.steps) < 60
        assert p.trace.metadata["steps_seen"] == 60
        assert counted_steps(p.trace)["used"].sum() >= 8


def test_what_was_stopped_by_hand_does_not_leave_the_block() -> None:
    """Also where the block was to be left when its steps are recorded."""
    ran = 0
    with nbp.profile("python", steps=(1, 20), stop_after=True) as p:
        for number in range(30):
            ran += 1
            if number == 4 and (session := current.running()) is not None:
                session.early_end.ask()
            nbp.step()
    assert ran == 30
    assert p.trace.steps["step"].tolist() == [1, 2, 3, 4]
    (issue,) = [one for one in p.trace.report if one.code == "ended-early"]
    assert issue.example == "it was stopped by hand; 5 steps had ended"


@pytest.mark.parametrize("text", ["0", "100%", "two", "-1%", "nan"])
def test_a_wrong_share_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(OptionError, match="write it as 2%"):
        parse_share(text)
    with pytest.raises(OptionError, match=r"--until .* write it as 2%"):
        parse(f"p --until={text}")


def test_a_share_is_read_from_the_option() -> None:
    assert parse("p --until 2%").until == 0.02
