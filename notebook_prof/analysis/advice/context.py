"""A rule's advice, and the inputs of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.arrays import BoolArray
from ...trace.report import Statement
from ...units import format_ns
from ..critical_path.replay.what_if import what_if
from ..device.idle import device_idle
from ..input.pipeline import input_pipeline, loaders
from ..scope import Scope, WindowLike, on_device, on_host, recorded_table, step_spans
from ..source.line_calls import imports, line_calls
from ..time.account import ACCOUNT
from ..time.cpu import whole_cores
from ..time.one_time import one_time, steady_steps
from ..time.phases import stepping_track
from ..verdict.claims import Claim, Sentence, Source, cite, cite_share, say
from ..verdict.inputs import VerdictInputs, gather

MOST_ROWS: Final = 1000
WORTH: Final = 0.05
"""Lines, waits and pools below this share of the measured time are not reported."""
RECORDED_NS: Final = 700
"""Cost of one thread slice in torch's profiler, measured by ``benchmarks/advice.py``."""


@dataclass(frozen=True, slots=True)
class Advice(Statement):
    """A rule's finding: `code` is the rule, `advice` the remedy, `rows` the longest of `count` slices."""

    count: int = 0
    # Expected saving over everything measured, without the cost of recording.
    gain_ns: int = 0
    gain_bytes: int = 0
    # Whether the gain is a calculated upper bound, not one measured on a program.
    bound: bool = False
    # The line that the advice is about, like ``cell:7`` or ``/home/me/train.py:7``; empty if there is none.
    place: str = ""
    # Arguments of `what_if` for the most that the remedy could do; the answer bounds the gain.
    what_if: Mapping[str, Any] = field(default_factory=dict)


class AdviceContext:
    """The inputs of the rules, each computed when first needed."""

    def __init__(self, trace: Trace, window: WindowLike = None) -> None:
        self.trace, self.whole_window = trace, window
        self.window = _after_slow_first_step(trace, window)
        self.withheld: dict[str, str] = {}

    @cached_property
    def facts(self) -> VerdictInputs:
        """The verdict's inputs over all steps except a first one with one-time work."""
        return gather(self.trace, self.window)

    @cached_property
    def total_ns(self) -> int:
        """Measured wall time without one-time work: of the cell, else of the steps, else of all work."""
        once = int(imports(self.trace, **self.asking)["total_ns"].sum())
        cell = recorded_table(self.trace, ACCOUNT)
        if cell is not None and self.whole_window is None:
            total = int(cell.loc[cell["kind"].isin(["steps", "code", "not-recorded"]), "dur"].sum())
            once += int(one_time(self.trace)["total_ns"].sum())
            return max(total - once, total // 100, 1)
        if len(self.facts.steps):
            return max(self.facts.total_ns, 1)
        return max(self.facts.total_ns - once, self.facts.total_ns // 100, 1)

    @property
    def plain_ns(self) -> int:
        """`total_ns` without the cost of recording."""
        return max(self.total_ns - self.cost_ns(), 1)

    @cached_property
    def whole(self) -> tuple[int, Source, str]:
        """The denominator of shares in sentences: ns, public table, and name in words."""
        cell = recorded_table(self.trace, ACCOUNT)
        if cell is not None and self.whole_window is None:
            return int(cell["dur"].sum()), Source("account", "dur"), "the cell"
        return self.facts.total_ns, self.facts.total, self.facts.whole

    def share(self, ns: int, source: Source) -> Sentence:
        """Describe a duration as a share of `whole`; empty if it is longer, as on several threads."""
        whole, of, words = self.whole
        return say(", ", cite_share(ns / whole, source, of), f" of {words}") if 0 < ns <= whole else say()

    def each(self, total: float, source: Source, text: Callable[[float], str] = format_ns) -> Claim:
        """Return a claim about the mean per step or, without steps, about the total."""
        if not len(self.facts.steps):
            return cite(text(total), total, source)
        steps = Source("steps", "dur", arguments=self.facts.arguments, reduce="count")
        return cite(text(total / self.facts.count), total / self.facts.count, source, of=steps)

    def on_thread(self, column: str, names: Sequence[str]) -> Source:
        """Return the source of a sum over slices with these names, on the thread of the steps and in them."""
        where = {"name": tuple(names), "track": stepping_track(self.trace)}
        return Source("operators", column, where, {"by": ("name", "track"), **self.replay_arguments})

    def cost_ns(self, keep: BoolArray | None = None) -> int:
        """Return the cost of recording torch's slices (those of `host` in `keep`); 0 with a device."""
        # With a device the host runs ahead, so recording costs nothing.
        if len(self.device.rows):
            return 0
        recorded = ~self.host.among("category", ("python",))
        count = int((recorded if keep is None else recorded & keep).sum())
        return min(count * RECORDED_NS, self.total_ns // 2)

    def most_gain_ns(self, question: Mapping[str, Any]) -> int | None:
        """Return the most time that all steps together could save; None if the replay refuses to answer."""
        # Without device work, or without a known critical path, a step takes as long as its thread; the rules
        # take that into account.
        if not question or self.facts.path is None:
            return None
        answer = what_if(self.trace, **question, **self.replay_arguments)
        if answer.refused or answer.upper is None:
            return None
        return max(answer.upper, 0) * len(answer.steps)

    @property
    def replay_arguments(self) -> dict[str, Any]:
        """Arguments that restrict `what_if` to the judged steps: all but a slow first one."""
        looking = dict(self.facts.arguments)
        return looking if self._numbers is None else {**looking, "step": self._numbers}

    @property
    def machine(self) -> Mapping[str, Any]:
        """Facts of the machine (`collectors.machine`); empty for files of other profilers."""
        facts = self.trace.metadata.get("machine")
        return facts if isinstance(facts, Mapping) else {}

    @property
    def cpus(self) -> int:
        """Cores available to the process, within the container's quota; 0 if unknown."""
        return whole_cores(self.trace)

    @property
    def asking(self) -> dict[str, Any]:
        """Arguments that restrict an analysis to the scope of `advice`."""
        return {} if self.whole_window is None else {"window": self.whole_window}

    @cached_property
    def loader_facts(self) -> pd.DataFrame:
        """The DataLoaders that the run iterates."""
        return loaders(self.trace)

    @cached_property
    def line_calls(self) -> pd.DataFrame:
        """Library functions by the user's line that calls them, without imports."""
        table = line_calls(self.trace, window=self.whole_window)
        return table[~table["module"].str.startswith("importlib")]

    @property
    def a_step(self) -> str:
        """The suffix of a mean per step, such as in "3 ms a step"; empty if there are no steps."""
        return " a step" if len(self.facts.steps) else ""

    @cached_property
    def host(self) -> Scope:
        """Slices of the steps' thread during the steps."""
        return self.threads.only(self.threads.ints("track") == stepping_track(self.trace))

    @cached_property
    def threads(self) -> Scope:
        """Slices of all threads, in the steps."""
        return on_host(self.trace, self.window).where(step=self._numbers)

    @cached_property
    def device(self) -> Scope:
        """Device work launched by the steps."""
        return on_device(self.trace, self.window).where(step=self._numbers)

    @cached_property
    def idle(self) -> pd.DataFrame:
        """Idle gaps of the devices between the first and the last step."""
        return device_idle(self.trace, window=self.idle_window if len(self.device.rows) else (0, 0))

    @property
    def idle_window(self) -> WindowLike:
        spans = self.facts.steps
        if not len(spans):
            return self.window
        return int(spans["ts"].min()), int((spans["ts"] + spans["dur"]).max())

    @cached_property
    def input(self) -> pd.DataFrame:
        """How the steps got their data: `input_pipeline`."""
        return input_pipeline(self.trace, window=self.window)

    @property
    def _numbers(self) -> list[int] | None:
        spans = self.facts.steps
        return spans["step"].tolist() if len(spans) else None


def evidence(scope: Scope, keep: BoolArray) -> dict[str, Any]:
    """Return `rows`, of the longest slices in `keep`, and `count`, the number of slices in `keep`."""
    positions = np.flatnonzero(keep)
    spent = (scope.end - scope.ts)[positions]
    order = np.argsort(-spent, kind="stable")[:MOST_ROWS]
    return {"rows": scope.rows[positions[order]], "count": len(positions)}


def named(scope: Scope, words: Sequence[str], *, start: bool = False) -> BoolArray:
    """Return a mask of the slices whose name contains (or starts with) one of `words`, ignoring case."""
    test = str.startswith if start else str.__contains__
    lowered = [word.lower() for word in words]
    return scope.named(lambda name: any(test(name.lower(), word) for word in lowered))


def names_of(scope: Scope, keep: BoolArray) -> list[str]:
    """Return the distinct names of the slices in `keep`."""
    words = scope.slices["name"].cat.categories
    return [str(words[code]) for code in np.unique(scope.codes("name")[keep]) if code >= 0]


def _after_slow_first_step(trace: Trace, window: WindowLike) -> WindowLike:
    """Exclude a first step with one-time work from the window."""
    steps = step_spans(trace, window).sort_values("ts")
    several = "loop" in steps and len(steps["loop"].unique()) > 1
    if len(steps) < 2 or several or int(steps["step"].iloc[0]) in steady_steps(trace, window):
        return window
    last = int((steps["ts"] + steps["dur"]).max()) if window is None else int(window[1])
    return int(steps["ts"].iloc[1]), last
