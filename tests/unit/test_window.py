"""The automaton of steps, with a clock that counts its own calls."""

from __future__ import annotations

import itertools
import timeit
from typing import Any

import pytest

from notebook_prof.session.records import Run, StepRecords
from notebook_prof.session.schedule import ScheduleFunction, WholeRun, schedule, step_range
from notebook_prof.session.window import StepWindow, TickSource


class Log:
    """Actions that write down what they were told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.steps: list[StepRecords] = []

    def warm(self) -> None:
        self.calls.append("warm")

    def start(self) -> None:
        self.calls.append("start")

    def stop(self, steps: StepRecords) -> None:
        self.calls.append("stop")
        self.steps.append(steps)

    def abandon(self) -> None:
        self.calls.append("abandon")


def window(states: ScheduleFunction, **more: object) -> tuple[StepWindow, Log]:
    log = Log()
    made = StepWindow(states, log, now=itertools.count(0, 10).__next__, **more)  # type: ignore[arg-type]
    made.open()
    return made, log


def numbers(steps: StepRecords) -> list[int]:
    return list(range(steps.first, steps.first + len(steps)))


def ticked(states: ScheduleFunction, letters: str, **more: object) -> tuple[StepWindow, Log]:
    """A window that has ended after ticks of these sources."""
    counted, log = window(states, **more)
    for letter in letters:
        counted.tick(SOURCES[letter])
    counted.close()
    return counted, log


SOURCES = {"L": TickSource.LOOP, "H": TickSource.HOOK, "M": TickSource.MARK, "W": TickSource.WEAK_LOOP}
WHOLE = "warm start stop"
CYCLES = {"wait": 1, "warmup": 1, "active": 2, "repeat": 2}
CASES: dict[str, tuple[ScheduleFunction, str, str, list[list[int]], str, int]] = {
    # states, ticks: calls, steps recorded, the source that counted, and how many it counted
    "the steps asked for": (step_range((3, 6)), "L" * 10, WHOLE, [[3, 4, 5]], "L", 10),
    "an end within the window": (step_range((3, 14)), "LLLLL", WHOLE, [[3, 4]], "L", 5),
    "a window not reached": (step_range((5, 6)), "L", "", [], "L", 1),
    "a warm-up for nothing": (step_range((2, 4)), "L", "warm abandon", [], "L", 1),
    "cycles": (schedule(**CYCLES), "M" * 20, f"{WHOLE} {WHOLE}", [[2, 3], [6, 7]], "M", 20),
    "cycles without a break": (
        *(schedule(wait=0, warmup=0, active=1), "MMM", " ".join(["start stop"] * 4)),
        *([[0], [1], [2], []], "M", 3),
    ),
    "recorded, then none": (lambda step: 2 if step == 1 else 0, "MMMM", "start stop", [[1]], "M", 4),
    "weaker ones do not count": (step_range((3, 6)), "LHLHLHLH", WHOLE, [[3]], "L", 4),
    "a better one counts anew": (step_range((5, 7)), "HH" + "M" * 8, WHOLE, [[5, 6]], "M", 8),
    "a better one within the window": (step_range((1, 3)), "HMH", WHOLE, [[1]], "H", 2),
    "a better one of a whole run": (WholeRun(), "HHMHM", "start stop", [[0, 1]], "M", 2),
}


def test_what_is_recorded_by_states_and_ticks() -> None:
    for name, (states, ticks, calls, steps, source, count) in CASES.items():
        counted, log = ticked(states, ticks)
        assert (log.calls, [numbers(part) for part in log.steps]) == (calls.split(), steps), name
        assert (counted.source, counted.step_count) == (SOURCES[source], count), name


@pytest.mark.parametrize(
    ("options", "ticks", "source"),
    [
        ({"announced": TickSource.LOOP}, "HHH", None),
        ({"announced": TickSource.LOOP}, "HL", TickSource.LOOP),
        ({"announced": TickSource.WEAK_LOOP}, "WHW", TickSource.HOOK),
        ({"allowed": frozenset({TickSource.HOOK})}, "MH", TickSource.HOOK),
    ],
)
def test_which_source_may_count(options: dict[str, Any], ticks: str, source: TickSource | None) -> None:
    counted, _ = ticked(step_range((3, 6)), ticks, **options)
    assert (counted.source, counted.step_count) == (source, int(source is not None))


def test_steps_do_not_overlap_and_have_length() -> None:
    _, log = ticked(WholeRun(), "MMMM")
    ts, dur = log.steps[0].ts, log.steps[0].dur
    assert all(length > 0 for length in dur)
    assert all(a + d <= b for a, d, b in zip(ts, dur, ts[1:], strict=False))


@pytest.mark.clock("what a tick costs")
def test_a_tick_outside_the_window_costs_less_than_three_microseconds() -> None:
    counted, _ = window(step_range((10**9, 10**9 + 1)))
    counted.tick(TickSource.LOOP)
    each = min(timeit.repeat(lambda: counted.tick(TickSource.LOOP), number=20_000, repeat=5)) / 20_000
    assert each < 3e-6  # about 0.15 µs on a quiet machine: 1 % of a step of 15 µs


def test_an_announced_source_counts_though_a_weaker_one_ticks_first() -> None:
    counted, log = window(step_range((1, 3)))
    for _ in range(4):
        counted.announce(TickSource.MARK)  # the step begins
        counted.tick(TickSource.HOOK)  # its optimizer
        counted.tick(TickSource.MARK)  # the step ends
    counted.close()
    assert (counted.source, counted.step_count, counted.ignored[TickSource.HOOK]) == (TickSource.MARK, 4, 4)
    assert numbers(log.steps[0]) == [1, 2]


@pytest.mark.parametrize(("source", "count"), [(TickSource.LOOP, 2), (TickSource.HOOK, 1)])
def test_a_step_that_an_exception_ended_is_partial(source: TickSource, count: int) -> None:
    """A hook stops ticking: the step that was running is kept."""
    counted, log = window(WholeRun())
    for number in range(count):
        counted.tick(source, failed=number > 0)
    counted.close(failed=True)
    assert (numbers(log.steps[0]), log.steps[0].partial, counted.step_count) == ([0, 1], {1}, 2)


def test_time_between_two_loops_belongs_to_no_step() -> None:
    counted, log = window(WholeRun())
    clock = counted._now
    counted.tick(TickSource.LOOP, run=Run("a", 2, "for x in y", clock()))
    counted.tick(TickSource.LOOP, run=Run("a", 2, "for x in y", clock()))
    counted.tick(TickSource.LOOP, run=Run("b", 5, "for z in y", clock()))
    counted.close()
    steps = log.steps[0]
    assert steps.ts[1] > steps.ts[0] + steps.dur[0]
    assert (numbers(steps), steps.loop.tolist()) == ([0, 1, 2], [0, 0, 1])


def test_what_was_not_recorded_is_counted_where_it_ended() -> None:
    counted, log = window(step_range((3, 5)))
    run = Run("a", 2, "for x in y", 0)
    for _ in range(9):
        counted.tick(TickSource.LOOP, run=run)
    counted.close()
    assert sum(count for _, count in run.unrecorded) + len(log.steps[0]) == 9
    assert [count for _, count in run.unrecorded] == [2, 1, 4]
    assert len(counted.moves) == 3  # warmed, started, stopped


def test_a_loop_that_is_given_up_loses_its_steps_where_all_was_recorded() -> None:
    counted, log = window(WholeRun())
    good, fast = Run("a", 2, "for x in y", 0), Run("b", 5, "for z in y", 1000)
    counted.tick(TickSource.LOOP, run=good)
    fast.begin_ns = counted._now()
    for _ in range(4):
        counted.tick(TickSource.LOOP, run=fast)
    counted.give_up(fast)
    counted.give_up(fast)
    counted.close()
    assert (numbers(log.steps[0]), counted.step_count) == ([0], 1)
    assert (counted.runs, counted.given_up) == ([good], [fast])
    counted, log = window(step_range((1, 3)))
    for _ in range(4):
        counted.tick(TickSource.WEAK_LOOP, run=good)
    counted.give_up(good)
    counted.close()
    assert (numbers(log.steps[0]), counted.runs[0].given_up) == ([1, 2], True)
