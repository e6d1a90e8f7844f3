"""The laws of the soak test on made-up measurements: what grows is found, what is flat passes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from .laws import FIRST, LEAST, MOST_MB, Measured, can_be_judged, changed, judged, slope_mb

PROFILES = 5
"""A round."""


def rounds(
    count: int = 40,
    memory_mb: Callable[[int], float] = lambda number: 300.0,
    threads: Callable[[int], int] = lambda number: 20,
    handler: Callable[[int], str] = lambda number: "default",
) -> list[Measured]:
    """Measurements of a kernel, by the number of the round."""
    return [
        Measured(
            number=number,
            profiles=PROFILES * number,
            memory_bytes=round(memory_mb(number) * 1e6),
            counts={"threads": threads(number)},
            state={"handlers": handler(number)},
            details={"threads": (f"thread of round {number}",)},
            actions=(f"deed {number}",),
        )
        for number in range(count)
    ]


def noise(seed: int, size: float) -> Callable[[int], float]:
    """The same noise for the same round."""
    return lambda number: random.Random(seed * 1000 + number).uniform(-size, size)


PASSES: dict[str, dict[str, Callable[[int], float]]] = {
    "flat": {},
    "fills before the tenth round": {
        "memory_mb": lambda number: 200 + 10 * min(number, FIRST),
        "threads": lambda number: 10 + min(number, FIRST),
    },
    "comes and goes": {"threads": lambda number: 20 + number % 3},
    "grows by less": {"memory_mb": lambda number: 300 + 0.5 * MOST_MB * PROFILES * number},
    "a step": {"memory_mb": lambda number: 300 + (50 if number >= 36 else 0)},
    **{
        f"noise {seed}": {"memory_mb": lambda number, seed=seed: 300 + noise(seed, 3.0)(number)}
        for seed in range(20)
    },
}


@pytest.mark.parametrize("kind", PASSES)
def test_what_does_not_grow_passes(kind: str) -> None:
    played = rounds(**PASSES[kind])  # type: ignore[arg-type]
    assert judged(played) == []
    assert slope_mb(played) == 0 or kind != "a step"


def test_one_thread_a_round_is_found_with_what_was_done() -> None:
    (broken,) = judged(rounds(threads=lambda number: 20 + number))
    assert broken.law == "threads"
    assert [one.number for one in broken.rounds] == list(range(FIRST + 1, 40))
    assert "deed 17" in broken.table()
    assert "thread of round 17" in broken.table()
    assert "deed 9" not in broken.table(), "before the tenth round"


@pytest.mark.parametrize("seed", range(20))
def test_memory_that_grows_is_found_below_the_noise(seed: int) -> None:
    tremble = noise(seed, 3.0)
    grows = rounds(memory_mb=lambda number: 300 + 2 * MOST_MB * PROFILES * number + tremble(number))
    (broken,) = judged(grows)
    assert broken.law == "memory"
    assert slope_mb(grows) == pytest.approx(2 * MOST_MB, abs=MOST_MB / 2)


def test_what_is_not_given_back_is_found_at_once() -> None:
    played = rounds(count=4, handler=lambda number: "ours" if number == 2 else "default")
    (broken,) = judged(played)
    assert (broken.law, broken.sentence) == ("handlers", "was default, became ours")
    assert [one.number for one in broken.rounds] == [2]
    assert changed(rounds(count=4)) == []


def test_a_short_life_is_not_judged() -> None:
    grows = rounds(count=FIRST + LEAST - 1, threads=lambda number: 20 + number)
    assert not can_be_judged(grows)
    assert judged(grows) == []
    assert can_be_judged(rounds(count=FIRST + LEAST))
