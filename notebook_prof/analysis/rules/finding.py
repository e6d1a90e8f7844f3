"""What a rule says, and what it looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace, Window
from ...trace.intervals import IntArray
from ..device_idle import device_idle
from ..facts import Facts, gather
from ..input_pipeline import input_pipeline
from ..phases import stepping_track
from ..scope import Mask, Scope, WindowLike, on_device, on_host

MOST_ROWS: Final = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece of advice.

    Attributes
    ----------
    rule : str
    finding : str
        What was found, with its numbers.
    remedy : str
        What to try.
    gain_ns : int
        What could be gained at most, over all that was measured.
    gain_bytes : int
        The same of memory; 0 for advice about time.
    select : mapping
        A selection that shows the evidence.
    rows : ndarray of int64
        Rows of ``trace.slices``, the longest first; at most `MOST_ROWS`.
    count : int
        How many rows there are.
    """

    rule: str
    finding: str
    remedy: str
    gain_ns: int = 0
    gain_bytes: int = 0
    select: Mapping[str, Any] = field(default_factory=dict)
    rows: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    count: int = 0


class Run:
    """What the rules look at; each part is worked out when it is first asked for.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns.
    """

    def __init__(self, trace: Trace, window: WindowLike = None) -> None:
        self.trace, self.window = trace, window

    @cached_property
    def facts(self) -> Facts:
        """The numbers that the verdict rests on."""
        return gather(self.trace, self.window)

    @property
    def total_ns(self) -> int:
        """Measured wall time: the steps or, without any, all of it."""
        return max(self.facts.total_ns, 1)

    @property
    def step_count(self) -> int:
        """Steps, at least 1."""
        return max(len(self.facts.steps), 1)

    @cached_property
    def host(self) -> Scope:
        """Slices of the thread that runs the steps, in the steps."""
        return self.threads.only(self.threads.ints("track") == stepping_track(self.trace))

    @cached_property
    def threads(self) -> Scope:
        """Slices of all threads, in the steps."""
        return on_host(self.trace, self.window).where(step=self._numbers)

    @cached_property
    def device(self) -> Scope:
        """Device work that the steps launched."""
        return on_device(self.trace, self.window).where(step=self._numbers)

    @cached_property
    def idle(self) -> pd.DataFrame:
        """Idle gaps of the devices between the first and the last step."""
        spans = self.facts.steps
        if not len(self.device.rows):
            return device_idle(self.trace, window=(0, 0))
        cut = self.window
        if len(spans):
            cut = Window(int(spans["ts"].min()), int((spans["ts"] + spans["dur"]).max()))
        return device_idle(self.trace, window=cut)

    @cached_property
    def loaders(self) -> frozenset[str]:
        """How the steps got their data, as in `input_pipeline`."""
        return frozenset(input_pipeline(self.trace, window=self.window)["loader"])

    @property
    def _numbers(self) -> list[int] | None:
        spans = self.facts.steps
        return spans["step"].tolist() if len(spans) else None


def evidence(scope: Scope, keep: Mask) -> tuple[IntArray, int]:
    """Rows of the longest slices where `keep`, and how many there are."""
    places = np.flatnonzero(keep)
    spent = (scope.end - scope.ts)[places]
    order = np.argsort(-spent, kind="stable")[:MOST_ROWS]
    return scope.rows[places[order]], len(places)


def named(scope: Scope, words: Sequence[str], *, start: bool = False) -> Mask:
    """Which slices have a name that holds (or starts with) one of `words`, whatever the case."""
    lowered = [str(name).lower() for name in scope.slices["name"].cat.categories]
    test = str.startswith if start else str.__contains__
    wanted = [any(test(name, word.lower()) for word in words) for name in lowered]
    return np.asarray(np.append(np.array(wanted, dtype=bool), False)[scope.codes("name")], dtype=bool)


def names_of(scope: Scope, keep: Mask) -> list[str]:
    """The distinct names of the slices where `keep`."""
    words = scope.slices["name"].cat.categories
    return [str(words[code]) for code in np.unique(scope.codes("name")[keep]) if code >= 0]
