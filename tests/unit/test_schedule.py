"""The schedule is that of PyTorch; windows of steps are half-open."""

from __future__ import annotations

import itertools
import warnings

import pytest

from notebook_prof.errors import OptionError
from notebook_prof.session.schedule import RecordingState, StepRange, as_state, schedule, step_range

NAMES = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
GRID = list(itertools.product((0, 1, 3), (0, 1, 2), (1, 2, 4), (0, 1, 3), (0, 2, 5), (0, 1)))


def test_every_state_equals_torch() -> None:
    torch_profiler = pytest.importorskip("torch.profiler")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns for warmup=0
        for values in GRID:
            numbers = dict(zip(NAMES, values, strict=True))
            ours, theirs = schedule(**numbers), torch_profiler.schedule(**numbers)
            for step in range(40):
                assert ours(step).name == theirs(step).name, (numbers, step)
                assert as_state(theirs(step)) is ours(step)
    assert len(GRID) > 300


@pytest.mark.parametrize(
    "wrong", [{"wait": -1}, {"warmup": -2}, {"active": 0}, {"repeat": -1}, {"skip_first": -1}]
)
def test_impossible_schedules_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        schedule(**({"wait": 1, "warmup": 1, "active": 1} | wrong))


def test_range_is_half_open_and_warms_up_before() -> None:
    states = [step_range((3, 6))(step).name for step in range(8)]
    assert states == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
    assert [step_range("3:6", warmup=3)(step).name for step in range(3)] == ["WARMUP"] * 3
    assert step_range((0, 1))(0) is RecordingState.RECORD_AND_SAVE


def test_range_without_end_records_on() -> None:
    states = [step_range("2:")(step).name for step in (0, 1, 2, 1000)]
    assert states == ["NONE", "WARMUP", "RECORD", "RECORD"]


@pytest.mark.parametrize(
    ("option", "first", "end"),
    [
        ((3, 14), 3, 14),
        ([3, 14], 3, 14),
        (slice(3, 14), 3, 14),
        (slice(14), 0, 14),
        (range(3, 14), 3, 14),
        ("3:14", 3, 14),
        (" 3 : 14 ", 3, 14),
        (":4", 0, 4),
        ("4:", 4, None),
        (":", 0, None),
        ("5", 5, 6),
        (5, 5, 6),
        ((2, None), 2, None),
    ],
)
def test_ways_to_write_steps(option: object, first: int, end: int | None) -> None:
    assert step_range(option) == StepRange(first, end)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "word"),
    [
        *((odd, "cannot be understood") for odd in ("a:b", "3-14", "", "3:4:5", True, 2.5, None)),
        *((odd, "cannot be understood") for odd in ((1, 2, 3), ("x", 2))),
        ((4, 4), "contains no step"),
        ("7:3", "contains no step"),
        ("-3:2", "from 0"),
        (range(0, 9, 2), "stride"),
    ],
)
def test_impossible_steps(option: object, word: str) -> None:
    with pytest.raises(OptionError, match=word):
        step_range(option)  # type: ignore[arg-type]
