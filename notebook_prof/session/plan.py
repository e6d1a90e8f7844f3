"""The settings of a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..collectors.base import Collector
from ..collectors.options import CollectorOptions
from ..trace.trace import Trace
from .schedule import ScheduleFunction, WholeRun
from .window import Source


class EndOfWindow(BaseException):
    """Leaves the user's code after the last requested step; only with ``stop_after``.

    Not an Exception, so that a training framework does not treat it as a failed step.
    """


@dataclass(frozen=True)
class Plan:
    """The settings of a recording."""

    collectors: Sequence[str | Collector] = ()  # empty for the automatic choice
    schedule: ScheduleFunction = field(default_factory=WholeRun)  # step number to state
    step_by: str = "auto"  # one of `sources.STEP_BY`
    options: CollectorOptions = field(default_factory=CollectorOptions)
    stop_after: bool = False
    # end when the median step is known to within this fraction; see `EarlyEnd`
    until: float | None = None
    # called with the Trace of each cycle as it ends; without it, Traces are built at the end
    on_cycle: Callable[[Trace], None] | None = None
    title: str = "a recording"  # name of the recording in messages


@dataclass(frozen=True, slots=True)
class LoopInSource:
    """A loop of a cell that was rewritten to tick. ``token`` is negative if there is no sign of training."""

    token: int
    line: int
    text: str

    @property
    def source(self) -> Source:
        """The rank of its ticks."""
        return loop_source(self.token)


def recording_text(
    collectors: Sequence[str | Collector], steps: object, step_by: str, options: CollectorOptions
) -> str:
    """Return the options of a recording that differ from the defaults, such as "python 3:14 stack=True"."""
    names = [one if isinstance(one, str) else type(one).__name__ for one in collectors]
    parts = [",".join(names), "" if steps is None else str(steps), "" if step_by == "auto" else step_by]
    return " ".join(filter(None, [*parts, options.unusual]))


def loop_source(token: int) -> Source:
    """Return the rank of a loop's ticks. A negative token means that there is no sign of training."""
    return Source.WEAK_LOOP if token < 0 else Source.LOOP
