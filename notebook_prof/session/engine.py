"""A recording from start to end: its window, collectors and hooks, and the resulting Traces."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ..collectors import registry, statements
from ..collectors.base import LARGE, Collector, Recording
from ..collectors.machine import machine
from ..collectors.patches import ImportWatch, Patches, quiet_fork
from ..collectors.python.assemble import OTHER_CELLS
from ..collectors.system.names.watch import NameWatch, Walked, put_names
from ..errors import OptionError
from ..interrupts import DelayedInterrupt
from ..profiles.deferred_trace import DeferredTrace
from ..trace.builder import TraceBuilder
from ..trace.report import ImportReport
from ..trace.trace import Trace
from . import current, findings
from .cell import Cell
from .plan import EndOfWindow, LoopInSource, Plan, loop_source, spent, within
from .records import EarlyEnd, Run, SizeWatch, StepRecords
from .sources import StepSources, allowed
from .ticks import LoopTicker
from .window import Actions, StepWindow, TickSource

_EARLIER: Final = "a loop of an earlier cell"
_PLEASE_REPORT: Final = "please report it, with this text"


@dataclass
class _Cycle:
    recording: Recording
    start_ns: int
    stop_ns: int
    steps: StepRecords
    names: Walked | None = None


class Session(Actions):
    """Runs a `Plan` in this process. Raises OptionError for an unknown collector or ``step_by``."""

    # `loops` are the rewritten loops of the cell. If one of them trains, no other loops count. If `marked` is
    # set, the source calls ``nbp.step()`` or ``nbp.steps(...)``, and nothing else counts. `names` is used
    # only if memory is recorded.
    def __init__(
        self,
        plan: Plan,
        *,
        loops: Sequence[LoopInSource] = (),
        marked: bool = False,
        metadata: Mapping[str, Any] | None = None,
        names: NameWatch | None = None,
    ) -> None:
        self._pid = os.getpid()
        self.plan, self._loops = plan, {loop.token: loop for loop in loops}
        strongest = max((loop.source for loop in loops), default=None)
        announced = TickSource.MARK if marked else strongest
        self.early_end = EarlyEnd(plan.until)
        self.window = StepWindow(
            plan.schedule,
            self,
            announced=announced,
            allowed=allowed(plan.step_by),
            early_end=self.early_end,
        )
        self.title = plan.title
        self.traces: list[DeferredTrace] = []
        self._metadata = dict(metadata or {})
        self.report = ImportReport()
        self._source: str | None = self._metadata.get("cell_source")
        self.cell = Cell(self._source or "")
        self._options = within(plan.options, self._source, self.report)
        self._sources = StepSources(
            self.window, plan.step_by, self.report, self._after_tick, self.cell.location
        )
        self.loops_of_scripts: dict[Hashable, str] = {}  # places of rewritten loops, by token
        self._hooks = announced is not TickSource.MARK
        self._recording: Recording | None = None
        self._first: Recording | None = self._make_recording()
        self._finished: list[_Cycle] = []
        self._recorded_steps: list[StepRecords] = []
        self._start_ns = self._opened_ns = self._closed_ns = 0
        self._torch_before = "torch" in sys.modules
        self._fork = Patches()
        self._import_of_torch: ImportWatch | None = None
        self._thread = 0  # identity of the thread that opened this session
        self._threads: dict[int, int] = {}
        self._loop_thread: threading.Thread | None = None
        self._tickers: dict[int, LoopTicker] = {}
        self.bodies: dict[int, LoopTicker] = {}  # by id of the frame whose loop ticks
        self._left = False
        self._size_watch: SizeWatch | None = None
        self._halts: list[tuple[int, int]] = []  # Unix ns
        self._names = names if plan.options.memory else None
        self._names_at_end: Walked | None = None
        self._out_of_memory: dict[str, str] = {}
        self._error, self._error_line = "", -1

    @property
    def is_of_parent(self) -> bool:
        """Whether this process was forked from the one that is recording, to which the recording belongs."""
        return self._pid != os.getpid()

    def open(self) -> None:
        """Start. Raises AlreadyRecordingError if another recording is running in this process."""
        __tracebackhide__ = True
        try:
            with DelayedInterrupt():
                current.claim(self)
                if self._names is not None:
                    self._names.before()
                self._thread = threading.get_ident()
                self._opened_ns = time.time_ns()
                self._fork = quiet_fork()
                self._sources.connect(hooks=self._hooks)
                if not self._torch_before:
                    self._import_of_torch = ImportWatch("torch", self._torch_imported)
                    self._import_of_torch.watch()
                if self._first is not None:
                    self._first.open()
                self.window.open()
        except BaseException:  # including interrupts, so no collector keeps running
            self.give_up()
            raise

    def give_up(self) -> None:
        """End the recording without a Trace. Safe in every state."""
        with DelayedInterrupt():
            self.window.closed = True
            self.abandon()
            self._end()

    def let_go(self) -> None:
        """Release references to this object. A session that never started needs nothing else."""
        self._sources.disconnect()
        self.window.release()

    def close(self, *, failed: bool = False, error: BaseException | None = None) -> list[DeferredTrace]:
        """Stop. Returns unbuilt Traces, one per cycle, oldest first; if none, an empty one that says why."""
        # `error` is needed because local variables in its frames keep memory alive
        with DelayedInterrupt(deliver=False) as interrupt:
            self._out_of_memory = findings.out_of_memory(error)
            self._error = "" if error is None else type.__dict__["__name__"].__get__(type(error))
            self._error_line = self.cell.line_of(error)
            if self._names is not None:
                self._names.error = error
            try:
                self.window.close(failed=failed)
            except KeyboardInterrupt:  # a second interrupt, or one in a collector
                interrupt.count += 1
            finally:
                self._end()
            self._closed_ns = time.time_ns()
            self._name_memory()
            self._note_ending()
            self.traces += [self._later(cycle) for cycle in self._finished]
            self._finished.clear()
            if not self.traces:
                self.traces.append(self._later(None))
        if interrupt.count:  # the user's code had already ended, so only our work was interrupted
            self.report.add("interrupted-at-stop", "info", effect="the recording until then is kept")
        made, self.traces = self.traces, []  # they refer to this session, so it must not refer to them
        return made

    def begin_cell(self, file: str = "") -> None:
        """Mark the start of the cell's statements, and time lines of the functions in `file`, if given."""
        recording = self._recording or self._first
        self.cell.begin(file if recording is not None and "python" in recording.names else "")

    def add_file(self, file: str) -> None:
        """Show a file's lines as the cell's own: it is the body of a magic in it, such as ``%%capture``."""
        self._metadata.get(OTHER_CELLS, {}).pop(file, None)

    def announce(self, loops: Sequence[LoopInSource]) -> None:
        """Count these loops too. They were found after the cell started."""
        if not self._loops and loops:
            self._loops = {loop.token: loop for loop in loops}
            self.window.announce(max(loop.source for loop in loops))

    def loop(self, token: int, line: int = -1) -> LoopTicker | None:
        """Start a rewritten loop; None if the loop does not count."""
        # `line` is set outside functions
        me = threading.get_ident()
        around = self._tickers.get(me)
        outranked = token < 0 or max(self._loops, default=0) > 0
        if (
            (self._loops and token not in self._loops and outranked)
            or self._threads.setdefault(token, me) != me
            or (around is not None and around.inside)
        ):
            return None
        if me != self.cell.marks.identity:
            self._loop_thread = threading.current_thread()
        if token > 0:
            self._sources.drop_hook()
        begun_ns = time.time_ns()
        statement, text, _ = self.cell.location()
        in_source = self._loops.get(token)
        key = token if line > 0 else (token, statement)
        at, head = (in_source.line, in_source.text) if in_source is not None else (statement, text)
        run = Run(key, at, head, begun_ns)
        self._tickers[me] = LoopTicker(self.window, loop_source(token), run, line)
        return self._tickers[me]

    def mark_step(self) -> None:
        """End a step by an explicit mark."""
        self._sources.tick()

    def leave_loop(self) -> bool:
        """Return whether the user's loop should end now."""
        ended_early = self.early_end.reason in ("asked", "size")
        return self.plan.stop_after and self.window.past and not ended_early

    # Called by the window, see `window.Actions`.

    def warm(self) -> None:
        self._recording = self._next_recording()
        self._recording.warm()

    def start(self) -> None:
        if self._recording is None:
            self._recording = self._next_recording()
        if self._names is not None and self.window.step_count:
            self._names.at_first_step()
        self._recording.start()
        self._start_ns = time.time_ns()  # loading the collectors is not part of the recording
        self._watch_size()

    def stop(self, steps: StepRecords) -> None:
        recording = self._taken_recording()
        if recording is None:
            return
        stop_ns = time.time_ns()
        steps.cut(self._halts)
        cycle = _Cycle(recording, self._start_ns, stop_ns, steps)
        self._recorded_steps.append(steps)
        # append first: if stop() raises KeyboardInterrupt, every collector has stopped by then
        self._finished.append(cycle)
        recording.stop()
        if "torch" in recording.names:
            spent(self._source, stop_ns - self._start_ns, time.time_ns() - stop_ns)
        if self._names is not None:
            cycle.names = self._names.now()
            self._names_at_end = cycle.names if self.window.closed else None
        if self.plan.on_cycle is not None and not self.window.closed:
            self._finished.remove(cycle)
            self.traces.append(self._later(cycle))
            self.plan.on_cycle(self.traces[-1].get())

    def _watch_size(self) -> None:
        if self._recording is not None and "torch" in self._recording.names:
            self._size_watch = SizeWatch(self._halt)
            self._size_watch.start()

    def _torch_imported(self) -> None:
        """Start recording torch, which has just been imported, unless the user chose the collectors."""
        if self.is_of_parent or threading.get_ident() != self._thread:
            return
        with DelayedInterrupt():
            begun_ns = time.time_ns()
            self._sources.connect_torch()
            if not self.plan.collectors and self._recording is not None:
                from ..collectors.torch.collector import TorchCollector  # not loaded without torch

                for collector in self._make(lambda: [TorchCollector(self._options)]):
                    self._recording.join(collector)
                if self.window.recording:
                    self._watch_size()
                    self.window.moves.append((begun_ns, time.time_ns()))

    def _halt(self) -> bool:
        """Stop PyTorch's profiler before it takes gigabytes. Returns whether it is small and goes on."""
        recording = self._recording
        if recording is None or self.is_of_parent:
            return False
        with DelayedInterrupt():
            begun_ns = time.time_ns()
            kept = recording.halt()
            self._halts.append((begun_ns, time.time_ns()))
            self.window.moves.append(self._halts[-1])
            if kept >= LARGE:
                self.window.end_for_size(kept, begun_ns)
            elif kept:
                findings.operators_ended(self.report, kept, begun_ns - self._start_ns)
        return not kept

    def abandon(self) -> None:
        recording = self._taken_recording()
        if recording is not None:
            recording.abandon()
            self.report.extend(recording.report)

    def _taken_recording(self) -> Recording | None:
        watch, self._size_watch = self._size_watch, None
        if watch is not None:
            watch.stop()
        recording, self._recording = self._recording, None
        return recording

    def _make_recording(self) -> Recording:
        collectors = self.plan.collectors
        names = [part for part in collectors if isinstance(part, str)]
        made = []
        if names or not collectors:
            made = self._make(lambda: registry.make(names or None, self._options))
        return Recording([*(part for part in collectors if isinstance(part, Collector)), *made])

    def _make(self, make: Callable[[], list[Collector]]) -> list[Collector]:
        try:
            return make()
        except OptionError:
            raise
        except Exception as error:  # the user's code must run in any case
            self.report.failed("collectors-failed", "error", error, "nothing was recorded", _PLEASE_REPORT)
            return []

    def _next_recording(self) -> Recording:
        first, self._first = self._first, None
        if first is not None and self._torch_before == ("torch" in sys.modules):
            return first
        if first is not None:
            first.abandon()
        return self._make_recording()

    def _end(self) -> None:
        first, self._first = self._first, None
        if first is not None:  # the window was never reached
            first.abandon()
        if self._import_of_torch is not None:
            self._import_of_torch.unwatch()
        self._fork.restore()
        self.let_go()
        current.release(self)

    def _after_tick(self) -> None:
        __tracebackhide__ = True
        if not self._left and self.leave_loop():
            self._left = True
            raise EndOfWindow("the requested steps are recorded")

    def _name_memory(self) -> None:
        """Walk the names at the end of the cell, unless the last recording ended there and did so."""
        if self._names is None:
            return
        if self._names_at_end is None:
            self._names_at_end = self._names.now()
        self.report.extend(self._names.report)

    def _note_ending(self) -> None:
        if not findings.ended_early(self.report, self.early_end, self._recorded_steps):
            findings.steps_missing(self.report, self.plan.schedule, self.window, self._error)
        lines = [loop.line for loop in self._loops.values()]
        findings.sources_that_lost(self.report, self.window, lines[0] if lines else None)
        findings.loops_given_up(self.report, self.window)
        if self.cell.span is not None and self.plan.options.memory:
            thread = self._sources.thread or self._loop_thread
            findings.steps_elsewhere(self.report, thread, self.cell.marks.identity)
        if not self._torch_before and "torch" in sys.modules and not self.plan.collectors:
            recorded = [name for cycle in self._finished for name in cycle.recording.names]
            findings.torch_came_late(self.report, recorded)

    def _later(self, cycle: _Cycle | None) -> DeferredTrace:
        return DeferredTrace(partial(self._trace, cycle), current.is_recording)

    def _trace(self, cycle: _Cycle | None) -> Trace:
        try:
            return self._build(cycle)
        except Exception as error:  # the user's code has run, and must not fail because of us
            effect = "the recording could not be assembled"
            self.report.failed("profile-failed", "error", error, effect, _PLEASE_REPORT)
            return self._build(None)

    def _build(self, cycle: _Cycle | None) -> Trace:
        builder = TraceBuilder()
        builder.metadata.update(self._describe(cycle))
        builder.report.extend(self.report)
        self.cell.put(builder, self.window, self._recorded_steps)
        if cycle is None:
            window = self._opened_ns, self._closed_ns or time.time_ns()
            return builder.seal(window=window if self.cell.span is None else self.cell.span)
        steps = cycle.steps
        if len(steps) and self.window.source is not None:
            numbers = range(steps.first, steps.first + len(steps))
            builder.steps(list(numbers), steps.ts, steps.dur, self.window.source.label, loop=steps.loop)
            findings.partial_steps(builder.report, steps)
        statements.offer(self.cell.marks if self.cell.span is not None else None, self.window.moves)
        cycle.recording.result(builder)
        statements.offer(None)
        put_names([cycle.names, self._names_at_end], builder)
        builder.metadata.update(findings.first_launch_delay())
        # PyTorch's profiler may take seconds to stop, while the other collectors still record
        end_ns = self.early_end.end_ns
        trace = builder.seal(window=(cycle.start_ns, end_ns) if end_ns else None, start=cycle.start_ns)
        findings.remember_launch_delay(trace)
        return trace

    def _describe(self, cycle: _Cycle | None) -> dict[str, Any]:
        source = self.window.source
        described: dict[str, Any] = {
            "source": "recording",
            "collectors": [] if cycle is None else cycle.recording.names,
            "host": platform.node(),
            "python": platform.python_version(),
            "machine": machine(),
            "steps_requested": str(self.plan.schedule),
            "steps_seen": self.window.step_count,
            "steps_source": source.label if source is not None else "none",
            "steps_found": self._steps_source(source),
        }
        if cycle is not None:
            described["recorded_ns"] = cycle.stop_ns - cycle.start_ns
            described["partial_steps"] = sorted(cycle.steps.partial)
        if self._error and self.cell.marks.line > 0:
            where = {"line": self.cell.marks.line, "at": self._error_line}  # of the statement, of the error
            described["raised"] = {"error": self._error, **where}
        if self._out_of_memory:
            described["out_of_memory"] = self._out_of_memory
        return described | self._metadata

    def _steps_source(self, source: TickSource | None) -> str:
        if source is None:
            return "no steps were found"
        if source is TickSource.MARK:
            return "marked by nbp.step() or nbp.steps(...)"
        if source is TickSource.HOOK:
            return "batches of a DataLoader" if self.plan.step_by == "dataloader" else "optimizer.step()"
        first, *others = dict.fromkeys(map(self._place, self.window.runs)) or [_EARLIER]
        return first + (f", and {len(others)} more" if others else "")

    def _place(self, run: Run) -> str:
        token = run.key[0] if isinstance(run.key, tuple) else run.key
        if token in self._loops:
            return f"the loop in line {run.line}: {run.text}"
        return self.loops_of_scripts.get(token, _EARLIER)
