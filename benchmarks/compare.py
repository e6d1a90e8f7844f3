"""Comparisons of runs whose truth is known: how often unchanged code is called different, and what is found.

A training loop of a small CNN is recorded by ``nbp.profile("torch")`` again and again in one process.
*Planted 0 %* is unchanged code: the halves of one recording, two recordings next to one another, or several
a side in turns (a b b a). Otherwise a spin of so many percent of the median step, measured before each pair,
is added to every step of one side. *Called different* is what `significant` says.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Final

from notebook_prof.statistics.shift import Shift, shift_of_steps

TITLE = "Comparing recordings"
STEPS: Final = 24
UNCHANGED_PAIRS: Final = 200
PLANTED_PAIRS: Final = 100
PLANTED: Final = (0.02, 0.05, 0.2)
ALONE: Final = "one run each"
TURNS: Final = "four each, in turns"
_ORDER: Final = "abbaabba"


class Loop:
    """Steps of a small CNN, with a spin in each."""

    def __init__(self) -> None:
        import torch
        from torch import nn

        torch.manual_seed(0)
        torch.set_num_threads(1)
        self._model = nn.Sequential(
            nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10)
        )
        self._optimizer = torch.optim.SGD(self._model.parameters(), 0.01)
        self._inputs, self._labels = torch.randn(32, 3, 28, 28), torch.randint(0, 10, (32,))

    def record(self, spin_ns: float) -> Any:
        """One recording; the steps are marked."""
        import notebook_prof as nbp

        with nbp.profile("torch", step_by="mark") as p:
            for _ in nbp.steps(range(STEPS)):
                self._step(spin_ns)
        return p

    def _step(self, spin_ns: float) -> None:
        from torch.nn import functional

        loss = functional.cross_entropy(self._model(self._inputs), self._labels)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        end = time.perf_counter_ns() + spin_ns
        while spin_ns and time.perf_counter_ns() < end:
            pass


def run() -> list[dict[str, Any]]:
    """A row a way to compare."""
    loop = Loop()
    loop.record(0)
    rows = _unchanged(loop)
    for share in PLANTED:
        alone, turns = [], []
        for _ in range(PLANTED_PAIRS):
            median_ns = float(loop.record(0).trace.steps["dur"].median())
            sides = _sides(loop, share * median_ns)
            alone.append(_compare(sides["a"][:1], sides["b"][:1]))
            turns.append(_compare(sides["a"], sides["b"]))
        rows += [_row(ALONE, share, alone), _row(TURNS, share, turns)]
    return rows


def _unchanged(loop: Loop) -> list[dict[str, Any]]:
    halves, alone, turns = [], [], []
    for _ in range(UNCHANGED_PAIRS):
        sides = _sides(loop, 0)
        times = sides["a"][0].trace.steps["dur"].to_numpy()[1:]  # the first step is warm-up
        shift = shift_of_steps(times[: len(times) // 2], times[len(times) // 2 :])
        halves.append((shift, shift.significant))
        alone.append(_compare(sides["a"][:1], sides["b"][:1]))
        turns.append(_compare(sides["a"], sides["b"]))
    return [_row("halves of one run", 0, halves), _row(ALONE, 0, alone), _row(TURNS, 0, turns)]


def _sides(loop: Loop, spin_ns: float) -> dict[str, list[Any]]:
    sides: dict[str, list[Any]] = {"a": [], "b": []}
    for side in _ORDER:
        sides[side].append(loop.record(spin_ns if side == "b" else 0))
    return sides


def _compare(a: Sequence[Any], b: Sequence[Any]) -> tuple[Shift, bool]:
    """Return the change, and whether it is called one; a comparison would keep its recordings."""
    import notebook_prof as nbp

    c = nbp.compare(list(a), list(b), paired=len(a) > 1)
    return c.shift, c.significant


def _row(how: str, share: float, compared: Sequence[tuple[Shift, bool]]) -> dict[str, Any]:
    changes = [(math.expm1(shift.low), math.expm1(shift.high)) for shift, _ in compared]
    half = sorted((high - low) / 2 for low, high in changes)[len(changes) // 2]
    covered = sum(low <= share <= high for low, high in changes)
    return {
        "compared": how,
        "planted": f"{share:.0%}",
        "pairs": len(compared),
        "called different": f"{sum(significant for _, significant in compared) / len(compared):.1%}",
        "truth in the interval": f"{covered / len(compared):.1%}",
        "half width, median": f"{half:.1%}",
    }
