"""The account of a cell, for any program of statements, ticks and moves on a virtual clock."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof.collectors.statements import SHOWING
from notebook_prof.session.cell import KINDS, account
from notebook_prof.session.records import Run, StepRecords
from notebook_prof.session.schedule import WholeRun, step_range
from notebook_prof.session.window import StepWindow, TickSource

from ..draws import draws


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


class Slow:
    """Collectors that take time to start and to stop."""

    def __init__(self, clock: Clock, cost: int) -> None:
        self.clock, self.cost = clock, cost
        self.steps: list[StepRecords] = []

    def warm(self) -> None:
        self.clock.now += self.cost

    start = abandon = warm

    def stop(self, steps: StepRecords) -> None:
        self.steps.append(steps)
        self.warm()


TIME = st.integers(0, 30)
LOOP = st.tuples(st.just("loop"), st.integers(2, 9), st.lists(TIME, max_size=12), TIME, st.booleans())
STATEMENT = st.tuples(st.just("code"), st.integers(2, 9), TIME)
SCHEDULE = st.one_of(
    st.just(WholeRun()),
    st.tuples(st.integers(0, 9), st.integers(1, 6)).map(lambda ab: step_range((ab[0], ab[0] + ab[1]))),
)


def play(program: list[Any], schedule: Any, cost: int, shown: int) -> tuple[Any, StepWindow, Slow, Clock]:
    clock = Clock()
    slow = Slow(clock, cost)
    window = StepWindow(schedule, slow, now=clock)
    window.open()
    begin = clock.now
    marks: list[tuple[int, int]] = []
    for kind, line, *values in program:
        marks.append((clock.now, line))
        if kind == "code":
            clock.now += values[0]
            continue
        bodies, after, given_up = values
        run = Run(line, line, f"line {line}", clock.now)
        for body in bodies:
            clock.now += body
            window.tick(TickSource.LOOP, run=run)
        if given_up:
            window.give_up(run)
        clock.now += after
    marks.append((clock.now, SHOWING))
    clock.now += shown
    end = clock.now
    window.close()
    ts = np.array([ts for ts, _ in marks], np.int64)
    line = np.array([line for _, line in marks], np.int64)
    runs = window.runs if window.source is not None else []
    table = account((begin, end), (ts, line), runs, slow.steps, window.moves, lambda n: f"line {n}")
    return table, window, slow, clock


@settings(max_examples=draws(300))
@given(
    st.lists(st.one_of(STATEMENT, LOOP), min_size=1, max_size=6),
    SCHEDULE,
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_the_account_is_a_partition(program: list[Any], schedule: Any, cost: int, shown: int) -> None:
    table, window, slow, clock = play(program, schedule, cost, shown)
    length = clock.now - 1_000_000 - sum(end - begin for begin, end in window.moves[-1:] if end == clock.now)
    ts, dur = table["ts"].to_numpy(), table["dur"].to_numpy()
    assert (dur > 0).all()
    assert (ts[1:] == ts[:-1] + dur[:-1]).all()
    assert set(table["kind"]) <= set(KINDS) - {"not-recorded"}
    assert dur.sum() <= length + cost
    if not len(table):
        return
    first_to_last = int(ts[-1] + dur[-1] - ts[0])
    assert dur.sum() == first_to_last
    # steps that were recorded and those that were not, all of them
    assert table["steps"].sum() == window.step_count
    spent = sum(dur[i] for i in range(len(table)) if table["kind"].iloc[i] == "steps")
    recorded = [(t, t + d) for part in slow.steps for t, d in zip(part.ts, part.dur, strict=True)]
    assert spent == sum(end - begin for begin, end in recorded)
    assert table.loc[table["kind"] == "steps", "loop"].min() >= 0 if spent else True
    kinds = table["kind"].isin(["code", "profiler"])
    assert (table.loc[kinds, "loop"] == -1).all()
