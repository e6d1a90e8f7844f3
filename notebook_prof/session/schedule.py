"""When to record: a state for every step, as in PyTorch's ``schedule`` and Paddle's ``make_scheduler``."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..errors import OptionError

ScheduleFunction = Callable[[int], Any]
StepsLike = tuple[int, int | None] | slice | range | int | str


class RecordingState(enum.IntEnum):
    """The state of a recording during one step.

    ====================  =====================  ========================================================
    PyTorch               Paddle                 meaning
    ====================  =====================  ========================================================
    ``NONE``              ``CLOSED``             nothing runs
    ``WARMUP``            ``READY``              collectors run, their data is dropped
    ``RECORD``            ``RECORD``             recorded
    ``RECORD_AND_SAVE``   ``RECORD_AND_RETURN``  recorded; at its end the cycle becomes a Profile
    ====================  =====================  ========================================================

    The Paddle names are aliases of the same members.

    Examples
    --------
    >>> RecordingState.READY is RecordingState.WARMUP
    True
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    CLOSED = 0
    READY = 1
    RECORD_AND_RETURN = 3


@dataclass(frozen=True)
class Schedule:
    """Maps steps to states: ``skip_first`` idle steps, then cycles of wait, warm-up and active steps.

    Made by `schedule`. Call it with a step number.
    """

    wait: int
    warmup: int
    active: int
    repeat: int = 0
    skip_first: int = 0
    skip_first_wait: int = 0

    def __call__(self, step: int) -> RecordingState:
        if step < 0:
            raise OptionError(f"steps are counted from 0, but the state of step {step} was requested")
        if step < self.skip_first:
            return RecordingState.NONE
        step -= self.skip_first
        if self.skip_first_wait:
            step += self.wait
        cycle, position = divmod(step, self.wait + self.warmup + self.active)
        if (0 < self.repeat <= cycle) or position < self.wait:
            return RecordingState.NONE
        if position < self.wait + self.warmup:
            return RecordingState.WARMUP
        last = self.wait + self.warmup + self.active - 1
        return RecordingState.RECORD_AND_SAVE if position == last else RecordingState.RECORD

    def __str__(self) -> str:
        return (
            f"skip {self.skip_first}, then wait {self.wait}, warm up {self.warmup}, "
            f"record {self.active}, {self.repeat or 'any number of'} times"
        )


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Schedule:
    """Make a schedule with the arguments and the states of ``torch.profiler.schedule``.

    Parameters
    ----------
    wait, warmup, active : int
        Number of steps per cycle in which nothing runs, in which collectors run but the data is dropped, and
        which are recorded.
    repeat : int
        Number of cycles; 0 repeats until the recording ends.
    skip_first : int
        Number of steps before the first cycle.
    skip_first_wait : int
        If not 0, the first cycle has no ``wait``.

    Returns
    -------
    Schedule
        A function from step number (counted from 0) to `RecordingState`.

    Raises
    ------
    OptionError
        If a number is negative, or no step would be active.

    Notes
    -----
    The states follow the PyTorch documentation of ``torch.profiler.schedule``
    (https://docs.pytorch.org/docs/stable/profiler.html). Unlike PyTorch's, ``warmup=0`` prints no warning.

    Examples
    --------
    >>> states = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [states(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    numbers = {"wait": wait, "warmup": warmup, "repeat": repeat, "skip_first": skip_first}
    for name, value in numbers.items():
        if value < 0:
            raise OptionError(f"schedule({name}={value}): a number of steps cannot be negative")
    if active <= 0:
        raise OptionError(f"schedule(active={active}): no step would be recorded; active must be 1 or more")
    return Schedule(wait, warmup, active, repeat, skip_first, skip_first_wait)


@dataclass(frozen=True)
class StepRange:
    """Steps ``first`` … ``end - 1``, once, after a warm-up. ``end=None`` records until the code ends."""

    first: int
    end: int | None
    warmup: int = 1

    def __call__(self, step: int) -> RecordingState:
        end = self.end
        if end is not None and step >= end:
            return RecordingState.NONE
        if step >= self.first:
            return RecordingState.RECORD if step + 1 != end else RecordingState.RECORD_AND_SAVE
        return RecordingState.WARMUP if step >= self.first - self.warmup else RecordingState.NONE

    def quiet_until(self, step: int) -> float:
        """Return the first step from `step` on in which collectors run; infinity if there is none."""
        if self(step) is not RecordingState.NONE:
            return step
        return self.first - self.warmup if step < self.first else math.inf

    def __str__(self) -> str:
        return f"{self.first}:{'' if self.end is None else self.end}"


class WholeRun:
    """Records from start to end, regardless of steps."""

    def __call__(self, step: int) -> RecordingState:
        return RecordingState.RECORD

    def __str__(self) -> str:
        return "all"


def step_range(steps: StepsLike, warmup: int = 1) -> StepRange:
    """Parse the argument ``steps``: a tuple, slice or range, ``"3:14"``, ``5`` or ``"5"``."""
    # Without an end, recording continues until the code ends. Anything else is an OptionError, as is a range
    # without steps.
    if warmup < 1:
        raise OptionError(f"warmup={warmup}: at least one step must warm up before the first recorded one")
    first, end = _bounds(steps)
    if first < 0 or (end is not None and end < 0):
        raise OptionError(f"steps {steps!r}: steps are counted from 0 and cannot be counted from the end")
    if end is not None and end <= first:
        raise OptionError(f"steps {steps!r} contains no step: write a:b with a < b, as in 3:14 for 3 to 13")
    return StepRange(first, end, warmup)


def _bounds(steps: Any) -> tuple[int, int | None]:
    if isinstance(steps, slice | range):
        if steps.step not in (None, 1):
            raise OptionError(f"steps {steps!r}: all steps of the window are recorded, without a stride")
        return int(steps.start or 0), None if steps.stop is None else int(steps.stop)
    if isinstance(steps, int) and not isinstance(steps, bool):
        return steps, steps + 1
    with suppress(TypeError, ValueError):
        if isinstance(steps, str):
            first, colon, end = (part.strip() for part in steps.partition(":"))
            return (int(first or 0), int(end) if end else None) if colon else (int(first), int(first) + 1)
        if isinstance(steps, Sequence) and len(steps) == 2:
            return int(steps[0] or 0), None if steps[1] is None else int(steps[1])
    raise OptionError(f"steps {steps!r} cannot be understood: write a:b, as in 3:14, or a tuple (3, 14)")


def as_state(value: Any) -> RecordingState:
    """Convert a state of any schedule function: ours, PyTorch's, Paddle's, or a number from 0 to 3."""
    if isinstance(value, RecordingState):
        return value
    name = str(getattr(value, "name", None))
    if name in RecordingState.__members__:
        return RecordingState[name]
    if isinstance(value, int) and 0 <= value <= 3:
        return RecordingState(value)
    raise OptionError(f"the schedule returned {value!r}; choose from {', '.join(RecordingState.__members__)}")
