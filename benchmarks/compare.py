"""Comparisons of runs whose truth is known: how often unchanged code is called different, and what is found.

A training loop of a small CNN is recorded again and again in one process. *Planted 0 %* is unchanged code:
the halves of one recording (as `compare` judges them, and by their steps alone, as it does not), two
recordings next to one another, or several a side in turns (a b b a), by
``nbp.profile("torch")``. Otherwise a spin of so many percent of the median step, measured before each pair,
is added to every step of one side; in turns these are cells under ``%%profile_ab --rounds 4`` that differ in
one line. *Called different* is what `significant` says; *line named* is how often this line has the largest
difference of those that are called different, with what it calls (`Comparison.statements`), and *line's
truth* how often its interval holds what was planted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from notebook_prof.statistics import Shift, shift_of_steps

TITLE = "Comparing recordings"
STEPS: Final = 24
UNCHANGED_PAIRS: Final = 200
PLANTED_PAIRS: Final = 100
PLANTED: Final = (0.02, 0.05, 0.2)
ALONE: Final = "one run each"
TURNS: Final = "four each, in turns"
_ORDER: Final = "abbaabba"
_CELL: Final = """for _ in range({steps}):
    loss = functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    spin({spin_ns})
"""


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
        spin(spin_ns)

    def turns(self, spin_ns: int) -> Any:
        """Compare two cells by ``%%profile_ab``, of which the second spins longer in its last line."""
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.utils.capture import capture_output
        from torch.nn import functional

        shell = InteractiveShell.instance()
        shell.user_ns |= {"functional": functional, "spin": spin, "model": self._model}
        shell.user_ns |= {"optimizer": self._optimizer, "inputs": self._inputs, "labels": self._labels}
        bodies = [_CELL.format(steps=STEPS, spin_ns=ns) for ns in (0, spin_ns)]
        with capture_output():
            shell.run_line_magic("load_ext", "notebook_prof")
            shell.run_cell("%%profile_ab compared --rounds 4\n" + "%% b\n".join(bodies)).raise_error()
        return shell.user_ns.pop("compared")


def spin(ns: float) -> None:
    """Keep a core busy for so long."""
    end = time.perf_counter_ns() + ns
    while ns and time.perf_counter_ns() < end:
        pass


def run() -> list[dict[str, Any]]:
    """A row a way to compare."""
    loop = Loop()
    loop.record(0)
    rows = _unchanged(loop)
    for share in PLANTED:
        alone, turns, lines = [], [], []
        for _ in range(PLANTED_PAIRS):
            spin_ns = round(share * float(loop.record(0).trace.steps["dur"].median()))
            alone.append(_compare([loop.record(0)], [loop.record(spin_ns)]))
            c = loop.turns(spin_ns)
            turns.append((c.shift, c.significant))
            lines.append(_line(c.statements, spin_ns))
        rows += [_row(ALONE, share, alone), _row(TURNS, share, turns, lines)]
    return rows


def _unchanged(loop: Loop) -> list[dict[str, Any]]:
    steps_alone, halves, alone, turns = [], [], [], []
    for _ in range(UNCHANGED_PAIRS):
        sides = _sides(loop, 0)
        trace = sides["a"][0].trace
        times = trace.steps["dur"].to_numpy()[1:]  # the first step is warm-up
        shift = shift_of_steps(times[: len(times) // 2], times[len(times) // 2 :])
        steps_alone.append((shift, shift.significant))
        first, second = (trace.sel(step=half) for half in np.split(trace.steps["step"].to_numpy(), 2))
        halves.append(_compare([first], [second]))
        alone.append(_compare(sides["a"][:1], sides["b"][:1]))
        turns.append(_compare(sides["a"], sides["b"]))
    ways = (
        ("halves, by steps alone", steps_alone),
        ("halves of one run", halves),
        (ALONE, alone),
        (TURNS, turns),
    )
    return [_row(how, 0, compared) for how, compared in ways]


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


def _line(table: Any, spin_ns: int) -> tuple[bool, bool]:
    """Return whether the planted line is named, and whether its interval holds what was planted."""
    different = table.loc[table["significant"], "text"]
    (planted,) = table[table["text"].str.startswith("spin(")].to_dict("records")
    named = len(different) > 0 and str(different.iloc[0]).startswith("spin(")
    return named, bool(planted["low_ns"] <= spin_ns <= planted["high_ns"])


def _share(answers: Sequence[bool]) -> str:
    return f"{sum(answers) / len(answers):.1%}"


def _row(
    how: str,
    share: float,
    compared: Sequence[tuple[Shift, bool]],
    lines: Sequence[tuple[bool, bool]] = (),
) -> dict[str, Any]:
    changes = [(math.expm1(shift.low), math.expm1(shift.high)) for shift, _ in compared]
    half = sorted((high - low) / 2 for low, high in changes)[len(changes) // 2]
    named, covered = zip(*lines, strict=True) if lines else ((), ())
    return {
        "compared": how,
        "planted": f"{share:.0%}",
        "pairs": len(compared),
        "called different": _share([significant for _, significant in compared]),
        "truth in the interval": _share([low <= share <= high for low, high in changes]),
        "half width, median": f"{half:.1%}",
        "line named": _share(named) if lines else "",
        "line's truth in its interval": _share(covered) if lines else "",
    }
