"""The state machine of steps, which decides what counts them and when collectors warm up, start and stop."""

from __future__ import annotations

import enum
import math
import time
from collections import Counter
from collections.abc import Callable, Hashable

from ..interrupts import DelayedInterrupt
from .records import EarlyEnd, Run, StepRecords
from .schedule import RecordingState, ScheduleFunction, StepRange, WholeRun, as_state

_RECORD = RecordingState.RECORD


class TickSource(enum.IntEnum):
    """Sources of steps. The source with the highest rank wins."""

    # a loop of the cell without a sign of training, which any better source replaces
    WEAK_LOOP = 0
    HOOK = 1
    LOOP = 2
    MARK = 3

    @property
    def label(self) -> str:
        """The name in the steps table: ``loop``, ``hook`` or ``mark``."""
        return "loop" if self is TickSource.WEAK_LOOP else self.name.lower()


class Actions:
    """What a window does to the collectors of a recording. The base class, for an ended one, does nothing."""

    def warm(self) -> None:
        """Run the collectors without keeping their data."""

    def start(self) -> None:
        """Record from now on. Works with or without an earlier `warm`."""

    def stop(self, steps: StepRecords) -> None:
        """End a cycle with these recorded steps."""

    def abandon(self) -> None:
        """Discard a warm-up that was not followed by a recording."""


class StepWindow:
    """Counts steps and moves the collectors through the states of a schedule."""

    # Outside the recorded steps, a tick costs a few comparisons and one clock reading. `announced` is a
    # source known beforehand: ticks of weaker ones are only tallied (`TickSource.WEAK_LOOP` blocks no other).
    # Only sources in `allowed` may count. `early_end` is consulted after each step that counts. `source` is
    # the source that counts, None until the first tick. `ignored` counts the ticks of other sources. `runs`
    # are the runs of loops that ticked, in order; those in `given_up` ticked too often. `moves` has the begin
    # and end, in Unix ns, of each start and stop of collectors.
    def __init__(
        self,
        schedule: ScheduleFunction,
        actions: Actions,
        *,
        announced: TickSource | None = None,
        allowed: frozenset[TickSource] | None = None,
        now: Callable[[], int] = time.time_ns,
        early_end: EarlyEnd | None = None,
    ) -> None:
        self._schedule = schedule
        self._early_end, self._looks = early_end, 0
        self._actions = actions
        self._floor = TickSource.WEAK_LOOP if announced is None else announced
        self._allowed = frozenset(TickSource) if allowed is None else allowed
        self._now = now
        self._state = RecordingState.NONE
        self._begun_ns = 0
        self._quiet_until = 0.0
        self._steps = self._last_steps = StepRecords()
        self.closed = True
        self.step_count = 0
        self.cycles = 0
        self.source: TickSource | None = None
        self.ignored: Counter[TickSource] = Counter()
        self.runs: list[Run] = []
        self.moves: list[tuple[int, int]] = []
        self.given_up: list[Run] = []
        self._run: Run | None = None
        self._loops: dict[Hashable, int] = {}
        self._quiet_ticks = 0

    @property
    def recording(self) -> bool:
        """Whether the collectors are recording."""
        return self._state >= _RECORD

    @property
    def past(self) -> bool:
        """Whether a cycle was recorded and the collectors are now idle."""
        return self.cycles > 0 and self._state is RecordingState.NONE

    def progress(self) -> tuple[Run, int, list[int]]:
        """Return the running loop, the number of recorded steps and the durations, in ns, of the last 60."""
        # any thread may call this
        run, steps = self._run or Run(None, -1, "", 0), self._steps
        if not len(steps):
            steps = self._last_steps
        return run, len(steps), steps.dur[-60:].tolist()

    def open(self) -> None:
        """Begin step 0."""
        self.closed = False
        self._move(self._state_of(0))

    def end_for_size(self, events: int, end_ns: int) -> None:
        """Stop recording, since PyTorch's profiler holds this many events. Ticks are still counted."""
        end = self._early_end
        if end is not None and not end.reason and self.recording:
            end.reason, end.step, end.events, end.end_ns = "size", self.step_count, events, end_ns
            self._quiet_until = math.inf
            self._move(RecordingState.NONE)

    def announce(self, source: TickSource) -> None:
        """Keep weaker sources from counting, unless a source counts already."""
        if self.source is None:
            self._floor = max(self._floor, source)

    def give_up(self, run: Run | None) -> None:
        """Let this run continue without ticks, since its steps are too short."""
        # its steps are dropped if the recording has no window
        if run is None or run is not self._run:
            return
        self._flush()
        self.given_up.append(run)
        run.given_up, self._run = True, None
        if isinstance(self._schedule, WholeRun):
            self.runs.remove(run)
            self.step_count -= self._steps.drop_from(run.begin_ns)
            self.source = self.source if self.runs else None

    def tick(
        self, source: TickSource, *, failed: bool = False, run: Run | None = None, at_ns: int | None = None
    ) -> None:
        """End the current step and begin the next."""
        # ticks of other sources than the one that counts are only tallied; `failed` means that an exception
        # ended the step
        if source is self.source and run is self._run and self.step_count + 1 < self._quiet_until:
            self.step_count += 1
            self._quiet_ticks += 1
            if run is not None:
                run.end_ns = self._now() if at_ns is None else at_ns
            return
        if self.closed or (source is not self.source and not self._counts(source)):
            return
        now = self._now() if at_ns is None else at_ns
        if run is not self._run:
            self._enter(run, now)
        if run is not None:
            run.end_ns = now
        if self._state >= _RECORD:
            self._keep(now, partial=failed)
        else:
            self._quiet_ticks += 1
        self.step_count += 1
        state = self._state_after(now)
        if state is not self._state or state is RecordingState.RECORD_AND_SAVE:
            self._move(state)
        if state is RecordingState.NONE and not self.closed:
            if self._early_end is not None and self._early_end.reason:
                self._quiet_until = math.inf
            elif isinstance(self._schedule, StepRange):
                self._quiet_until = self._schedule.quiet_until(self.step_count)
        if state >= _RECORD and self._begun_ns < now:
            self._begun_ns = now

    def _state_after(self, now: int) -> RecordingState:
        """Return the state of the next step, which excludes the time spent on computing the interval."""
        end = self._early_end
        if end is not None:
            over, looks = end.reached(self._steps, self.step_count), end.looks
            if looks != self._looks:  # exclude the computation from the next step
                self._looks, self._begun_ns = looks, self._now()
                self.moves.append((now, self._begun_ns))
            if over:
                return RecordingState.NONE
        return self._state_of(self.step_count)

    def close(self, *, failed: bool = False) -> None:
        # if the code failed, the open step of hooks or marks is kept as a partial one; a loop has already
        # ended its step
        if self.closed:
            return
        self.closed = True
        self._quiet_until = 0.0
        self._flush()
        if failed and self._state >= _RECORD and self.source in (TickSource.HOOK, TickSource.MARK):
            self._keep(self._now(), partial=True)
            self.step_count += 1
        self._move(RecordingState.NONE)

    def release(self) -> None:
        """Release the collectors, since their owner refers to this object. Call this only after the end."""
        self._actions = Actions()

    def _state_of(self, step: int) -> RecordingState:
        return as_state(self._schedule(step))

    def _counts(self, source: TickSource) -> bool:
        """Return whether this source counts from now on. Decided at its first tick."""
        current = self.source
        weaker = source < self._floor or (current is not None and source < current)
        if weaker or source not in self._allowed:
            self.ignored[source] += 1
            return False
        if current is not None:
            if self.cycles or self._state is not self._state_of(0):
                # the weaker source has placed the window, and moving it now would lose recorded steps
                self.ignored[source] += 1
                return False
            self.step_count = self._quiet_ticks = 0
            self.runs, self._run, self._loops = [], None, {}
            self._steps = StepRecords()
        self.source = source
        return True

    def _enter(self, run: Run | None, now_ns: int) -> None:
        """Enter a loop that began since the last tick. Its first step begins with the loop."""
        self._flush()
        self._run = run
        if run is None:
            return
        run.loop = self._loops.setdefault(run.key, len(self._loops))
        if run not in self.runs:
            run.first = self.step_count
            self.runs.append(run)
        if self._begun_ns < run.begin_ns <= now_ns:
            self._begun_ns = run.begin_ns
        run.begin_ns = min(run.begin_ns, now_ns)

    def _flush(self) -> None:
        """Store the number of unrecorded steps in the current run."""
        if self._quiet_ticks and self._run is not None:
            self._run.unrecorded.append((self._run.end_ns, self._quiet_ticks))
        self._quiet_ticks = 0

    def _keep(self, now_ns: int, *, partial: bool) -> None:
        self._flush()
        steps = self._steps
        if not len(steps):
            steps.first = self.step_count
        steps.add(self._begun_ns, max(0, now_ns - self._begun_ns), 0 if self._run is None else self._run.loop)
        if partial:
            steps.partial.add(self.step_count)

    def _move(self, state: RecordingState) -> None:
        __tracebackhide__ = True
        with DelayedInterrupt():  # delay interrupts until all collectors have started or stopped
            self._change_state(state)

    def _change_state(self, state: RecordingState) -> None:
        self._flush()
        before, self._state = self._state, state
        if state is before is RecordingState.NONE:
            return
        ends = before is RecordingState.RECORD_AND_SAVE or (before is _RECORD and state < _RECORD)
        fresh = ends or before is RecordingState.NONE
        starts = state >= _RECORD and (fresh or before is RecordingState.WARMUP)
        begun_ns = self._now()
        if ends:
            self.cycles += 1
            steps, self._steps = self._steps, StepRecords()
            self._last_steps = steps
            self._actions.stop(steps.whole())
        elif before is RecordingState.WARMUP and state is RecordingState.NONE:
            self._actions.abandon()
        if state is RecordingState.WARMUP and fresh:
            self._actions.warm()
        elif starts:
            self._actions.start()
        if ends or starts or state < _RECORD:
            self.moves.append((begun_ns, self._now()))
            self._begun_ns = self.moves[-1][1]
