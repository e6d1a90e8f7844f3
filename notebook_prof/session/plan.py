"""What is asked of a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..collectors.base import Collector
from ..collectors.options import CollectorOptions
from ..trace.trace import Trace
from .schedule import ScheduleFunction, WholeRun
from .window import Source


class EndOfWindow(BaseException):
    """Leaves the user's code after the last asked step; only with ``stop_after``.

    Not an Exception, so that a training framework does not take it for a failed step.
    """


@dataclass(frozen=True)
class Plan:
    """What was asked.

    Attributes
    ----------
    collectors : sequence of str or Collector
        Empty for the automatic choice.
    schedule : callable
        Step number to state.
    step_by : str
        One of `sources.STEP_BY`.
    options : CollectorOptions
    stop_after : bool
    until : float, optional
        End when the median step is known to this share of itself; see `EarlyEnd`.
    on_cycle : callable, optional
        Gets the Trace of every finished cycle at once; otherwise they are made at the end.
    title : str
        What to call the recording in messages.
    """

    collectors: Sequence[str | Collector] = ()
    schedule: ScheduleFunction = field(default_factory=WholeRun)
    step_by: str = "auto"
    options: CollectorOptions = field(default_factory=CollectorOptions)
    stop_after: bool = False
    until: float | None = None
    on_cycle: Callable[[Trace], None] | None = None
    title: str = "a recording"


@dataclass(frozen=True, slots=True)
class LoopInSource:
    """The loop of a cell that was made to tick; ``token`` is negative if it shows no sign of training."""

    token: int
    line: int
    text: str

    @property
    def source(self) -> Source:
        """How much its ticks count."""
        return loop_source(self.token)


def recording_text(
    collectors: Sequence[str | Collector], steps: object, step_by: str, options: CollectorOptions
) -> str:
    """Write what of a recording is not as by default; empty if nothing is.

    Examples
    --------
    >>> recording_text(["python"], "3:14", "auto", CollectorOptions(stack=True))
    'python 3:14 stack=True'
    """
    names = [one if isinstance(one, str) else type(one).__name__ for one in collectors]
    parts = [",".join(names), "" if steps is None else str(steps), "" if step_by == "auto" else step_by]
    return " ".join(filter(None, [*parts, options.unusual]))


def loop_source(token: int) -> Source:
    """Return how much the ticks of a loop count; a negative token shows no sign of training."""
    return Source.WEAK_LOOP if token < 0 else Source.LOOP
