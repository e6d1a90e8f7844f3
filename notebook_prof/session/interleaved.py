"""A window followed by alternately recorded and unrecorded steps, to measure the overhead of recording."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ..trace.report import ImportReport
from .records import StepRecords
from .schedule import RecordingState, StepRange

SETTLE: Final = 1
"""Number of unmeasured steps after every switch: they absorb the cost of starting and stopping."""
PAIR: Final = 2 * (SETTLE + 1)
FEWEST: Final = 3
"""Fewest pairs that give a useful interval."""
DEFAULT: Final = (1, 11)
"""The default window: one warm-up step, then ten recorded steps."""


@dataclass(frozen=True)
class Interleaved(StepRange):
    """Like `StepRange`, but followed by `pairs` rounds of two unrecorded steps and two recorded steps whose
    data is dropped.

    The first of each two lets things settle, the second is measured.

    >>> states = Interleaved(1, 2, pairs=1)
    >>> [states(step).name for step in range(7)]
    ['WARMUP', 'RECORD_AND_SAVE', 'NONE', 'NONE', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """

    pairs: int = 12

    def __call__(self, step: int) -> RecordingState:
        if self.end is None or step < self.end:
            return super().__call__(step)
        pair, tick = divmod(step - self.end, PAIR)
        if pair >= self.pairs or tick <= SETTLE:
            return RecordingState.NONE
        return RecordingState.RECORD if tick < PAIR - 1 else RecordingState.RECORD_AND_SAVE

    def quiet_until(self, step: int) -> float:
        """Return `step` while there is something to measure, then infinity."""
        if self.end is None or step < self.end:
            return super().quiet_until(step)
        return math.inf if self.is_over(step) else step

    def is_over(self, step: int) -> bool:
        """Return whether everything is measured."""
        return self.end is not None and step >= self.end + self.pairs * PAIR

    def __str__(self) -> str:
        return super().__str__()


def interleave(steps: StepRange | None) -> Interleaved:
    """Measure after these steps, or after step 10 if there are none or they have no end."""
    if steps is None:
        return Interleaved(*DEFAULT)
    end = steps.end if steps.end is not None else steps.first + DEFAULT[1] - DEFAULT[0]
    return Interleaved(steps.first, end, steps.warmup)


class OverheadMeter:
    """Collects step times of both kinds and computes their ratio."""

    def __init__(self, plan: Interleaved) -> None:
        self._plan = plan
        self._recorded: list[int] = []

    def add(self, steps: StepRecords) -> None:
        """Add a recorded block; its last step is measured, unless it failed."""
        last = steps.first + len(steps) - 1
        if len(steps) == SETTLE + 1 and last not in steps.partial:
            self._recorded.append(steps.dur[-1])

    def result(self, plain: StepRecords, report: ImportReport) -> dict[str, object]:
        """Return ``metadata["overhead"]``. With fewer than three pairs it is empty, and an issue is
        reported."""
        # `plain` has the unrecorded steps from the window's end on
        end = self._plan.end or 0
        whole = plain.dur[: len(plain) - bool(plain.partial)]  # only the last step of a loop can have failed
        measured = list(whole[SETTLE :: SETTLE + 1])
        pairs = min(len(measured), len(self._recorded))
        if pairs < FEWEST:
            report.add(
                "overhead-not-measured",
                "info",
                example=f"{pairs} pairs of recorded and unrecorded steps ran after step {end - 1}",
                effect="the overhead of recording is not known",
                advice=f"run at least {FEWEST * PAIR} more steps than the window, or record fewer",
            )
            return {}
        recorded, unrecorded = self._recorded[:pairs], measured[:pairs]
        from ..analysis.time.overhead import overhead_ratio  # imports all analyses

        ratio, low, high = overhead_ratio(recorded, unrecorded)
        return {
            "ratio": ratio,
            "low": low,
            "high": high,
            "pairs": pairs,
            "recorded_ns": recorded,
            "unrecorded_ns": unrecorded,
        }
