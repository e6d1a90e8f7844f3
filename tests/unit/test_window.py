"""The automaton of steps, with a clock that counts its own calls."""

from __future__ import annotations

import inspect
import itertools
import sys
import timeit
from types import FrameType
from typing import Any

import pytest

from notebook_prof.session.records import Run, StepRecords
from notebook_prof.session.schedule import ScheduleFunction, WholeRun, schedule, step_range
from notebook_prof.session.window import Source, StepWindow


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


def test_records_the_requested_steps_only() -> None:
    counted, log = window(step_range((3, 6)))
    for _ in range(10):
        counted.tick(Source.LOOP)
    counted.close()
    assert log.calls == ["warm", "start", "stop"]
    assert numbers(log.steps[0]) == [3, 4, 5]
    assert (counted.step_count, counted.source, counted.past) == (10, Source.LOOP, True)


def test_steps_do_not_overlap_and_have_length() -> None:
    counted, log = window(WholeRun())
    for _ in range(4):
        counted.tick(Source.MARK)
    counted.close()
    ts, dur = log.steps[0].ts, log.steps[0].dur
    assert all(length > 0 for length in dur)
    assert all(a + d <= b for a, d, b in zip(ts, dur, ts[1:], strict=False))


def test_outside_the_window_a_tick_looks_at_the_clock_at_most_once() -> None:
    reads = itertools.count()
    counted = StepWindow(step_range((1000, 1001)), Log(), now=lambda: next(reads))
    counted.open()
    for _ in range(900):
        counted.tick(Source.LOOP)
    assert next(reads) <= 1
    run = Run("loop", 2, "for x in y", begin_ns=0)
    for _ in range(50):
        counted.tick(Source.LOOP, run=run)
    assert next(reads) <= 53


@pytest.mark.clock("what a tick costs")
def test_a_tick_outside_the_window_costs_less_than_a_microsecond() -> None:
    counted, _ = window(step_range((10**9, 10**9 + 1)))
    counted.tick(Source.LOOP)
    each = min(timeit.repeat(lambda: counted.tick(Source.LOOP), number=20_000, repeat=5)) / 20_000
    assert each < 1e-6  # about 0.15 µs on a quiet machine: 1 % of a step of 15 µs


def test_ends_in_the_middle_of_the_window() -> None:
    counted, log = window(step_range((3, 14)))
    for _ in range(5):
        counted.tick(Source.LOOP)
    counted.close()
    assert (log.calls, numbers(log.steps[0])) == (["warm", "start", "stop"], [3, 4])


def test_window_that_is_never_reached() -> None:
    counted, log = window(step_range((5, 6)))
    counted.tick(Source.LOOP)
    counted.close()
    assert (log.calls, counted.step_count, counted.past) == ([], 1, False)


def test_warm_up_that_leads_to_nothing_is_given_up() -> None:
    counted, log = window(step_range((2, 4)))
    counted.tick(Source.LOOP)
    counted.close()
    assert log.calls == ["warm", "abandon"]


def test_cycles_repeat() -> None:
    counted, log = window(schedule(wait=1, warmup=1, active=2, repeat=2))
    for _ in range(20):
        counted.tick(Source.MARK)
    counted.close()
    assert log.calls == ["warm", "start", "stop"] * 2
    assert [numbers(steps) for steps in log.steps] == [[2, 3], [6, 7]]


def test_cycles_without_a_break() -> None:
    counted, log = window(schedule(wait=0, warmup=0, active=1))
    for _ in range(3):
        counted.tick(Source.MARK)
    counted.close()
    assert log.calls == ["start", "stop"] * 4
    assert [numbers(steps) for steps in log.steps] == [[0], [1], [2], []]


def test_a_foreign_schedule_with_record_before_none() -> None:
    counted, log = window(lambda step: 2 if step == 1 else 0)
    for _ in range(4):
        counted.tick(Source.MARK)
    counted.close()
    assert (log.calls, numbers(log.steps[0])) == (["start", "stop"], [1])


def test_first_source_counts_and_weaker_ones_do_not() -> None:
    counted, _ = window(step_range((3, 6)))
    for _ in range(4):
        counted.tick(Source.LOOP)
        counted.tick(Source.HOOK)
    assert (counted.source, counted.step_count, counted.ignored[Source.HOOK]) == (Source.LOOP, 4, 4)


def test_a_better_source_starts_the_count_anew_before_the_window() -> None:
    counted, log = window(step_range((5, 7)))
    counted.tick(Source.HOOK)
    counted.tick(Source.HOOK)
    for _ in range(8):
        counted.tick(Source.MARK)
    counted.close()
    assert (counted.source, counted.replaced, counted.step_count) == (Source.MARK, (Source.HOOK, 2), 8)
    assert numbers(log.steps[0]) == [5, 6]


def test_a_better_source_is_only_noted_once_the_window_began() -> None:
    counted, log = window(step_range((1, 3)))
    counted.tick(Source.HOOK)
    counted.tick(Source.MARK)
    counted.tick(Source.HOOK)
    counted.close()
    assert (counted.source, counted.replaced, counted.ignored[Source.MARK]) == (Source.HOOK, None, 1)
    assert numbers(log.steps[0]) == [1]


def test_an_announced_source_counts_though_a_weaker_one_ticks_first() -> None:
    counted, log = window(step_range((1, 3)))
    for _ in range(4):
        counted.announce(Source.MARK)  # the step begins
        counted.tick(Source.HOOK)  # its optimizer
        counted.tick(Source.MARK)  # the step ends
    counted.close()
    assert (counted.source, counted.step_count, counted.ignored[Source.HOOK]) == (Source.MARK, 4, 4)
    assert numbers(log.steps[0]) == [1, 2]


def test_without_a_window_a_better_source_replaces_all_steps() -> None:
    counted, log = window(WholeRun())
    for source in (Source.HOOK, Source.HOOK, Source.MARK, Source.HOOK, Source.MARK):
        counted.tick(source)
    counted.close()
    assert (log.calls, numbers(log.steps[0])) == (["start", "stop"], [0, 1])


def test_an_announced_source_keeps_weaker_ones_out() -> None:
    counted, _ = window(step_range((3, 6)), announced=Source.LOOP)
    counted.tick(Source.HOOK)
    assert (counted.source, counted.step_count) == (None, 0)
    counted.tick(Source.LOOP)
    assert (counted.source, counted.step_count) == (Source.LOOP, 1)


def test_a_weak_loop_gives_way_to_hooks() -> None:
    counted, _ = window(step_range((3, 6)), announced=Source.WEAK_LOOP)
    counted.tick(Source.WEAK_LOOP)
    counted.tick(Source.HOOK)
    counted.tick(Source.WEAK_LOOP)
    assert (counted.source, counted.step_count) == (Source.HOOK, 1)


def test_only_allowed_sources_count() -> None:
    counted, _ = window(WholeRun(), allowed=frozenset({Source.HOOK}))
    counted.tick(Source.MARK)
    counted.tick(Source.HOOK)
    assert (counted.source, counted.step_count) == (Source.HOOK, 1)


def test_a_step_that_an_exception_ended_is_partial() -> None:
    counted, log = window(WholeRun())
    counted.tick(Source.LOOP)
    counted.tick(Source.LOOP, failed=True)
    counted.close(failed=True)
    assert (numbers(log.steps[0]), log.steps[0].partial) == ([0, 1], {1})


def test_the_step_that_failed_under_a_hook_is_kept() -> None:
    counted, log = window(WholeRun())
    counted.tick(Source.HOOK)
    counted.close(failed=True)
    assert (numbers(log.steps[0]), log.steps[0].partial, counted.step_count) == ([0, 1], {1}, 2)


def test_nothing_ticks_after_the_end_and_closing_twice_is_closing_once() -> None:
    counted, log = window(WholeRun())
    counted.close()
    counted.tick(Source.MARK)
    counted.close()
    assert (counted.step_count, log.calls) == (0, ["start", "stop"])


def test_time_between_two_loops_belongs_to_no_step() -> None:
    counted, log = window(WholeRun())
    clock = counted._now
    counted.tick(Source.LOOP, run=Run("a", 2, "for x in y", clock()))
    counted.tick(Source.LOOP, run=Run("a", 2, "for x in y", clock()))
    counted.tick(Source.LOOP, run=Run("b", 5, "for z in y", clock()))
    counted.close()
    steps = log.steps[0]
    assert steps.ts[1] > steps.ts[0] + steps.dur[0]
    assert (numbers(steps), steps.loop.tolist()) == ([0, 1, 2], [0, 0, 1])


def test_what_was_not_recorded_is_counted_where_it_ended() -> None:
    counted, log = window(step_range((3, 5)))
    run = Run("a", 2, "for x in y", 0)
    for _ in range(9):
        counted.tick(Source.LOOP, run=run)
    counted.close()
    assert sum(count for _, count in run.unrecorded) + len(log.steps[0]) == 9
    assert [count for _, count in run.unrecorded] == [2, 1, 4]
    assert len(counted.moves) == 3  # warmed, started, stopped


def test_a_loop_that_is_given_up_loses_its_steps_where_all_was_recorded() -> None:
    counted, log = window(WholeRun())
    good, fast = Run("a", 2, "for x in y", 0), Run("b", 5, "for z in y", 1000)
    counted.tick(Source.LOOP, run=good)
    fast.begin_ns = counted._now()
    for _ in range(4):
        counted.tick(Source.LOOP, run=fast)
    counted.give_up(fast)
    counted.give_up(fast)
    counted.close()
    assert (numbers(log.steps[0]), counted.step_count, counted.runs, counted.given_up) == (
        [0],
        1,
        [good],
        [fast],
    )
    counted, log = window(step_range((1, 3)))
    for _ in range(4):
        counted.tick(Source.WEAK_LOOP, run=good)
    counted.give_up(good)
    counted.close()
    assert (numbers(log.steps[0]), counted.runs[0].given_up) == ([1, 2], True)


def test_an_interrupt_leaves_no_part_of_a_step() -> None:
    """At every line of it."""
    lines = len(inspect.getsource(StepRecords.add).splitlines()) + len(
        inspect.getsource(StepRecords.whole).splitlines()
    )
    interrupted = 0
    for line in range(lines):
        records, passed = StepRecords(), [0]
        records.add(10, 5, 0)

        def trace(frame: FrameType, event: str, _: Any, passed: list[int] = passed, line: int = line) -> Any:
            if event == "line" and frame.f_code.co_name in ("add", "whole"):
                passed[0] += 1
                if passed[0] == line + 1:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            records.add(20, 7, 1)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(before)
        records.whole()
        assert (list(records.ts), list(records.dur), list(records.loop)) in (
            ([10], [5], [0]),
            ([10, 20], [5, 7], [0, 1]),
        )
    assert interrupted >= 4
