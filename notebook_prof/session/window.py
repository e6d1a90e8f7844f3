"""The automaton of steps: which source counts them, and when the collectors warm up, start and stop."""

from __future__ import annotations

import enum
import time
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from .schedule import RecordingState, ScheduleFunction, StepRange, WholeRun, as_state

_RECORD = RecordingState.RECORD


class Source(enum.IntEnum):
    """Who says that a step has ended; the higher wins.

    ``WEAK_LOOP`` is a loop of the cell that shows no sign of training: anything better replaces it.
    """

    WEAK_LOOP = 0
    HOOK = 1
    LOOP = 2
    MARK = 3

    @property
    def label(self) -> str:
        """The word of the steps table: ``loop``, ``hook`` or ``mark``."""
        return "loop" if self is Source.WEAK_LOOP else self.name.lower()


class Actions(Protocol):
    """What the window drives: the collectors of one recording."""

    def warm(self) -> None:
        """Run the collectors; what they see is dropped."""

    def start(self) -> None:
        """Record from now on; works with and without an earlier `warm`."""

    def stop(self, steps: StepRecords) -> None:
        """End a cycle, whose recorded steps are these."""

    def abandon(self) -> None:
        """Give up a warm-up that led to nothing."""


@dataclass
class StepRecords:
    """Recorded steps of one cycle: consecutive numbers from ``first``, Unix nanoseconds."""

    first: int = 0
    ts: array[int] = field(default_factory=lambda: array("q"))
    dur: array[int] = field(default_factory=lambda: array("q"))
    partial: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.ts)


class StepWindow:
    """Count steps and move the collectors through the states of a schedule.

    Outside the recorded steps a tick is a few comparisons; no clock is read.

    Parameters
    ----------
    schedule : callable
        Step number to state.
    actions : Actions
        Warmed, started and stopped at the borders of steps.
    announced : Source, optional
        A source known beforehand; weaker ones are only counted. A `Source.WEAK_LOOP` blocks nobody.
    allowed : frozenset of Source, optional
        Only these may count; by default all.
    now : callable
        Clock in Unix nanoseconds.
    timed : bool
        Keep the times of unrecorded steps too, from the first cycle's end on.

    Attributes
    ----------
    plain : StepRecords
        Those unrecorded steps; not consecutive, so only the first of its numbers is right.
    seen : int
        Steps that ended.
    closed : bool
        Whether the recording has not begun or has ended.
    source : Source or None
        Who counts; None until the first tick.
    ignored : Counter
        Ticks of sources that do not count.
    replaced : tuple of (Source, int) or None
        A weaker source that had counted some steps before a better one came.
    """

    def __init__(
        self,
        schedule: ScheduleFunction,
        actions: Actions,
        *,
        announced: Source | None = None,
        allowed: frozenset[Source] | None = None,
        now: Callable[[], int] = time.time_ns,
        timed: bool = False,
    ) -> None:
        self._schedule = schedule
        self._coerce = not isinstance(schedule, StepRange | WholeRun)
        self._actions = actions
        self._floor = Source.WEAK_LOOP if announced is None else announced
        self._allowed = frozenset(Source) if allowed is None else allowed
        self._now = now
        self._timed = timed
        self._state = RecordingState.NONE
        self._begun_ns = 0
        self._quiet_until = 0.0
        self._steps = StepRecords()
        self.plain = StepRecords()
        self.closed = True
        self.seen = 0
        self.cycles = 0
        self.source: Source | None = None
        self.ignored: Counter[Source] = Counter()
        self.replaced: tuple[Source, int] | None = None

    @property
    def recording(self) -> bool:
        """Whether the collectors record now."""
        return self._state >= _RECORD

    @property
    def past(self) -> bool:
        """Whether a cycle was recorded and no step from here on asks for anything."""
        return self.cycles > 0 and self._state is RecordingState.NONE

    def open(self) -> None:
        """Begin step 0."""
        self.closed = False
        self._move(self._state_of(0))

    def announce(self, source: Source) -> None:
        """Let no weaker source count, unless one does already."""
        if self.source is None:
            self._floor = max(self._floor, source)

    def begin_step(self) -> None:
        """Take now as the beginning of the current step: a loop has just begun."""
        if self._state >= _RECORD:
            self._begun_ns = self._now()

    def tick(self, source: Source, *, failed: bool = False) -> None:
        """End the current step and begin the next.

        Parameters
        ----------
        source : Source
            Who says so; ignored, but counted, if it is not the one that counts.
        failed : bool
            Whether an exception ended the step.
        """
        if source is self.source and self.seen + 1 < self._quiet_until:
            self.seen += 1
            return
        if self.closed or (source is not self.source and not self._admit(source)):
            return
        if self._state >= _RECORD:
            self._keep(self._steps, self._now(), partial=failed)
        elif self._timed and self.cycles:
            self._keep(self.plain, self._now(), partial=failed)
        self.seen += 1
        state = self._schedule(self.seen)
        if self._coerce:
            state = as_state(state)
        if state is not self._state or state is RecordingState.RECORD_AND_SAVE:
            self._move(state)
        if state is RecordingState.NONE and isinstance(self._schedule, StepRange) and not self.closed:
            self._quiet_until = self._schedule.quiet_until(self.seen)
        if state >= _RECORD or self._timed:
            self._begun_ns = self._now()

    def close(self, *, failed: bool = False) -> None:
        """End the recording.

        Parameters
        ----------
        failed : bool
            Whether the code ended with an exception: the step that was running under a hook or marks
            is then kept as a partial one. A loop has ticked already.
        """
        if self.closed:
            return
        self.closed = True
        self._quiet_until = 0.0
        if failed and self._state >= _RECORD and self.source in (Source.HOOK, Source.MARK):
            self._keep(self._steps, self._now(), partial=True)
            self.seen += 1
        self._move(RecordingState.NONE)

    def _state_of(self, step: int) -> RecordingState:
        return as_state(self._schedule(step))

    def _admit(self, source: Source) -> bool:
        """Whether this source counts from now on; decides when a source ticks that did not so far."""
        current = self.source
        weaker = source < self._floor or (current is not None and source < current)
        if weaker or source not in self._allowed:
            self.ignored[source] += 1
            return False
        if current is not None:
            if self.cycles or self._state is not self._state_of(0):
                # the window was placed by the weaker count: moving it now would lose what was recorded
                self.ignored[source] += 1
                return False
            self.replaced = (current, self.seen)
            self.seen = 0
            self._steps = StepRecords()
        self.source = source
        return True

    def _keep(self, steps: StepRecords, now_ns: int, *, partial: bool) -> None:
        if not len(steps):
            steps.first = self.seen
        steps.ts.append(self._begun_ns)
        steps.dur.append(max(0, now_ns - self._begun_ns))
        if partial:
            steps.partial.add(self.seen)

    def _move(self, state: RecordingState) -> None:
        before, self._state = self._state, state
        ends = before is RecordingState.RECORD_AND_SAVE or (before is _RECORD and state < _RECORD)
        if ends:
            self.cycles += 1
            steps, self._steps = self._steps, StepRecords()
            self._actions.stop(steps)
        elif before is RecordingState.WARMUP and state is RecordingState.NONE:
            self._actions.abandon()
        fresh = ends or before is RecordingState.NONE
        if state is RecordingState.WARMUP and fresh:
            self._actions.warm()
        elif state >= _RECORD and (fresh or before is RecordingState.WARMUP):
            self._actions.start()
            self._begun_ns = self._now()
