"""The settings of a recording."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ..collectors.base import Collector
from ..collectors.options import CollectorOptions
from ..trace.report import ImportReport
from ..trace.trace import Trace
from ..units import format_ns
from .schedule import ScheduleFunction, WholeRun
from .window import TickSource

# Remembers cells whose recording was expensive, so the next recording leaves out the expensive data.

LONG_STOP_NS: Final = 1_000_000_000
"""Stopping a recording may always take this long."""
_MOST_CELLS: Final = 1000

_lock = threading.Lock()
_dear: dict[str, tuple[int, int]] = {}
"""Cells whose recording took longer to stop than the cell ran, by text, with both durations."""


def within(options: CollectorOptions, source: str | None, report: ImportReport) -> CollectorOptions:
    """Fill in the options left unset."""
    if options.shapes is not None:
        return options
    # shapes are recorded unless an earlier recording of this cell took too long to stop
    dear = None if source is None else _dear.get(_body(source))
    if dear is None:
        return replace(options, shapes=True)
    stop_ns, recorded_ns = dear
    report.add(
        "shapes-left-out",
        "info",
        example=f"an earlier recording of this cell took {format_ns(stop_ns)} to stop, the cell "
        f"{format_ns(recorded_ns)}: it makes many small operators, and shapes are two thirds of that",
        effect="operators are not split by shape, and their work in FLOP is not known",
        advice="%%profile --shapes records them again",
    )
    return replace(options, shapes=False)


def spent(source: str | None, recorded_ns: int, stop_ns: int) -> None:
    """Remember how long a recording of this cell took to stop, if that was too long."""
    if source is None or stop_ns <= max(LONG_STOP_NS, recorded_ns):
        return
    with _lock:
        while len(_dear) >= _MOST_CELLS:
            del _dear[next(iter(_dear))]
        _dear.setdefault(_body(source), (stop_ns, recorded_ns))


def _body(source: str) -> str:
    """Return the cell without its ``%%profile`` line, since its options may change."""
    first, _, body = source.lstrip().partition("\n")
    return body if first.startswith("%%profile") else source


class EndOfWindow(BaseException):
    """Leaves the user's code after the last requested step; only with ``stop_after``."""

    # Not an Exception, so that a training framework does not treat it as a failed step.


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
    # called with the Trace of each cycle when it ends; otherwise Traces are built at the end
    on_cycle: Callable[[Trace], object] | None = None
    title: str = "a recording"  # name of the recording in messages


@dataclass(frozen=True, slots=True)
class LoopInSource:
    """A loop of a cell that was rewritten to tick. ``token`` is negative if there is no sign of training."""

    token: int
    line: int
    text: str

    @property
    def source(self) -> TickSource:
        """The rank of its ticks."""
        return loop_source(self.token)


def recording_text(
    collectors: Sequence[str | Collector], steps: object, step_by: str, options: CollectorOptions
) -> str:
    """Return the options of a recording that differ from the defaults, such as "python 3:14 stack=True"."""
    names = [one if isinstance(one, str) else type(one).__name__ for one in collectors]
    parts = [",".join(names), "" if steps is None else str(steps), "" if step_by == "auto" else step_by]
    return " ".join(filter(None, [*parts, options.unusual]))


def loop_source(token: int) -> TickSource:
    """Return the rank of a loop's ticks. A negative token means that there is no sign of training."""
    return TickSource.WEAK_LOOP if token < 0 else TickSource.LOOP
