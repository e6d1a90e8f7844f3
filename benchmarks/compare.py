"""Comparisons of runs whose truth is known: how often unchanged code is called different, and what is found.

A training loop of a small CNN is recorded by ``nbp.profile("torch")`` again and again in one process.
*Planted 0 %* is unchanged code: two recordings of it next to one another, or several a side in turns (a b
b a). Otherwise a spin of so many percent of the median step, measured before each pair, is added to every
step of one side. *Called different* means that the interval leaves 0 out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

TITLE = "Comparing recordings"
STEPS: Final = 24
PAIRS: Final = 30
PLANTED: Final = (0.05, 0.2)
_TURNS: Final = "abbaabba"


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
    import notebook_prof as nbp

    loop = Loop()
    loop.record(0)
    rows = []
    for share in (0.0, *PLANTED):
        alone, turns = [], []
        for _ in range(PAIRS):
            median_ns = float(loop.record(0).trace.steps["dur"].median())
            sides: dict[str, list[Any]] = {"a": [], "b": []}
            for side in _TURNS:
                sides[side].append(loop.record(share * median_ns if side == "b" else 0))
            alone.append(nbp.compare(sides["a"][0], sides["b"][0]))
            turns.append(nbp.compare(sides["a"], sides["b"], paired=True))
        rows += [_row("one run each", share, alone), _row("four each, in turns", share, turns)]
    return rows


def _row(how: str, share: float, compared: Sequence[Any]) -> dict[str, Any]:
    half = sorted((c.interval[1] - c.interval[0]) / 2 for c in compared)[len(compared) // 2]
    covered = sum(c.interval[0] <= share <= c.interval[1] for c in compared)
    return {
        "compared": how,
        "planted": f"{share:.0%}",
        "pairs": len(compared),
        "called different": f"{sum(c.significant for c in compared) / len(compared):.0%}",
        "truth in the interval": f"{covered / len(compared):.0%}",
        "half width, median": f"{half:.1%}",
    }
