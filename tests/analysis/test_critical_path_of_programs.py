"""The critical path against simulated programs whose true path is known."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest

from notebook_prof import Profile
from tests.programs import Costs, Run, elsewhere, joined, program

from ..draws import EXPLORE, draws

COUNT = draws(120)
FIRST = (0, 5000) if EXPLORE else (0,)


def walked_path(run: Run, *, waits_recorded: bool) -> list[tuple[int, int, str, str]]:
    pieces = Profile(run.trace(waits_told=waits_recorded)).critical_path()
    names = pieces["name"].astype(object).fillna("")
    columns = (pieces["start_ns"], pieces["end_ns"], pieces["resource"].astype(str), names)
    return [(int(a), int(b), str(c), str(d)) for a, b, c, d in zip(*columns, strict=True)]


def compared(runs: Iterable[Run], *, waits_recorded: bool = True) -> tuple[float, float]:
    """Share of programs whose paths are equal piece by piece, and mean share of time charged otherwise."""
    equal, off = [], []
    for run in runs:
        resources = {name: name for name in run.stretches}
        true, walked = joined(run.path()), joined(walked_path(run, waits_recorded=waits_recorded))
        walked = [(a, b, _short(c, resources), d) for a, b, c, d in walked]
        equal.append(true == walked)
        off.append(0.0 if equal[-1] else _difference(true, walked) / run.end)
    return float(np.mean(equal)), float(np.mean(off))


def _short(resource: str, names: dict[str, str]) -> str:
    return next((name for name in names if resource == name or resource.endswith(f" {name}")), resource)


def _difference(a: list[tuple[int, int, str, str]], b: list[tuple[int, int, str, str]]) -> int:
    cuts = sorted({t for piece in [*a, *b] for t in piece[:2]})
    out = 0
    for begin, end in pairwise(cuts):
        of = [next((p[2:] for p in path if p[0] <= begin < p[1]), None) for path in (a, b)]
        out += (end - begin) * (of[0] != of[1])
    return out


@pytest.mark.parametrize(
    ("options", "waits_recorded", "least", "most_off"),
    [
        ({}, True, 0.95, 0.002),
        ({"threads": False}, True, 0.99, 0.0005),
        ({"streams": 1}, True, 0.95, 0.002),
        ({"events": False}, False, 0.9, 0.01),
        ({}, False, 0.85, 0.02),
    ],
    ids=["all-waits", "one-thread", "one-stream", "no-events-no-waits", "no-waits"],
)
@pytest.mark.parametrize("first", FIRST)
def test_the_walk_finds_the_true_path(
    first: int, options: dict[str, object], waits_recorded: bool, least: float, most_off: float
) -> None:
    """Rates of the rest: two hand-overs in a row, and waits for a stream that nothing names."""
    count = COUNT if waits_recorded else 100  # without waits few programs have most of what is off
    runs = (Run(program(seed, **options)) for seed in range(first, first + count))  # type: ignore[arg-type]
    equal, off = compared(runs, waits_recorded=waits_recorded)
    assert equal >= least
    assert off <= most_off


def test_a_thread_beside_it_changes_little() -> None:
    """It has streams of its own; calls that wait for the whole device wait for them, too."""
    runs = (
        Run(program(seed), helper=elsewhere(program(seed + 1_000, length=12, threads=False)))
        for seed in range(draws(60))
    )
    equal, off = compared(runs)
    assert equal >= 0.9
    assert off <= 0.002


def test_chance_in_latencies_changes_what_is_a_near_tie() -> None:
    runs = (Run(program(seed), Costs(noise=4_000, seed=seed)) for seed in range(draws(60)))
    equal, off = compared(runs)
    assert equal >= 0.85
    assert off <= 0.01
