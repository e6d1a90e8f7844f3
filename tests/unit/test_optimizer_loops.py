"""Optimizer steps: the loop of each, and trainers with a loop of their own."""

from __future__ import annotations

import itertools
import sys
from types import ModuleType

import pytest

from notebook_prof.session.records import Run
from notebook_prof.session.sources import OptimizerLoops, trainer_ticks


class Optimizer:
    """Stands for one of torch."""


class Loops:
    """Steps of optimizers by one letter each; a line change by a digit."""

    def __init__(self) -> None:
        self.line, self.since = 1, 0
        self.clock = itertools.count(10, 10)
        self.ticks: list[tuple[Run, int | None]] = []
        self.optimizers: dict[str, Optimizer] = {}
        self.loops = OptimizerLoops(self.tick, self.location, self.clock.__next__)

    def tick(self, run: Run, at_ns: int | None) -> None:
        self.ticks.append((run, at_ns))

    def location(self) -> tuple[int, str, int]:
        return self.line, f"line {self.line}", self.since

    def run(self, program: str) -> list[int]:
        """Number of the loop of every step, in order of appearance."""
        for letter in program:
            if letter.isdigit():
                self.line, self.since = int(letter), next(self.clock)
            else:
                self.loops.stepped(self.optimizers.setdefault(letter, Optimizer()))
        keys = list(dict.fromkeys(run.key for run, _ in self.ticks))
        return [keys.index(run.key) for run, _ in self.ticks]


@pytest.mark.parametrize(
    ("program", "loops"),
    [
        ("AAAA", [0, 0, 0, 0]),
        ("ABABAB", [0, 0, 0]),
        ("ABCABCABC", [0, 0, 0]),
        ("AAABAAAB", [0] * 6),
        ("GDDDGDDDG", [0] * 7),
        ("AAABBBCCC", [0, 0, 0, 1, 1, 1, 2, 2, 2]),
        ("AAABBBAAA", [0, 0, 0, 1, 1, 1, 0, 0, 0]),
        ("1AAA2AAA", [0, 0, 0, 1, 1, 1]),
        ("1AA2B3C", [0, 0, 1, 2]),
    ],
)
def test_loops_of_optimizers(program: str, loops: list[int]) -> None:
    assert Loops().run(program) == loops


def test_the_first_step_of_the_next_loop_is_reported_afterwards() -> None:
    made = Loops()
    made.run("AABB")
    assert [at is not None for _, at in made.ticks] == [False, False, True, False]
    begin, first_ended = made.ticks[2][0].begin_ns, made.ticks[2][1]
    assert first_ended is not None
    assert begin < first_ended


def test_a_loop_begins_with_its_first_forward_or_its_statement() -> None:
    made = Loops()
    made.run("2")
    made.loops.first_forward_ns = forward = next(made.clock)
    made.run("AA3A")
    runs = list(dict.fromkeys(run for run, _ in made.ticks))
    assert [run.begin_ns for run in runs] == [forward, made.since]
    assert [(run.line, run.text) for run in runs] == [(2, "line 2"), (3, "line 3")]


def test_the_next_optimizer_takes_over_from_a_deleted_one() -> None:
    made = Loops()
    made.run("A")
    made.optimizers.clear()
    assert made.run("B") == [0, 1]


class Stepping:
    def step(self, by: int = 1) -> int:
        return by


@pytest.fixture
def fastai(monkeypatch: pytest.MonkeyPatch) -> type[Stepping]:
    module = ModuleType("fastai.optimizer")
    module.Optimizer = Stepping  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastai.optimizer", module)
    return Stepping


def test_a_step_is_reported_with_its_optimizer(fastai: type[Stepping]) -> None:
    optimizers: list[object] = []
    original, optimizer = fastai.__dict__["step"], fastai()
    remove = trainer_ticks(optimizers.append)
    assert optimizer.step(by=3) == 3
    remove()
    remove()
    optimizer.step()
    assert (optimizers, fastai.__dict__["step"]) == ([optimizer], original)


def test_what_was_replaced_since_stays(fastai: type[Stepping], monkeypatch: pytest.MonkeyPatch) -> None:
    remove = trainer_ticks(lambda _: None)
    theirs = lambda self: 7  # noqa: E731
    before = fastai.__dict__["step"]
    fastai.step = theirs  # type: ignore[method-assign, assignment]
    remove()
    assert fastai().step() == 7
    fastai.step = before.__wrapped__  # type: ignore[attr-defined, method-assign]
