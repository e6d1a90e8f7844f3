"""The python collector: a timeline of Python code, by sampling lines or by tracing calls."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pandas as pd

from ...background import checkpoint
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...trace.strings import Coded
from ..base import Availability, Collector
from ..journal import AnnotationEdges
from ..machine import live_children
from ..options import CollectorOptions
from ..statements import UNWRITTEN, Statements, statements, watched_lines
from . import py_spy_attachment as spy
from .assemble import OTHER_CELLS, Exact, TimedStacks, put
from .engine import Recorded, Sampler, ThreadSamples
from .frames import CELL, LIBRARY, PackedStacks, PythonFrame, trim, trim_process, trim_thread
from .garbage_collections import GARBAGE, GarbageCollections
from .names import SampledProcess, cell_lines, line_name, name_processes, placed
from .py_spy_engine import SHORT, PySpy
from .snapping import ExactRanges

if TYPE_CHECKING:
    from .tracing import CallTracer

_UNWRITTEN: Final = {line: PythonFrame(text, "<display>", 1, 1, LIBRARY) for line, text in UNWRITTEN.items()}
_SHOWN_NS: Final = 1_000_000
"""A shorter display of the result is no slice."""
_INTERPRETED: Final = frozenset({"annotation", "module", "python", "io"})
"""Categories of slices in which Python code may run."""

_WAITS: Final = frozenset(
    {"socket.py", "socketserver.py", "selectors.py", "threading.py", "queue.py", "ssl.py"}
)
_WHOLE: Final = 0.9

_CLOSED: Final = ("aten::", GARBAGE)
"""Beginnings of the names of slices in which no line begins or ends."""

SAMPLES: Final = "samples"
"""Name of the table of looks in ``metadata["tables"]``: ``ts dur track count``, with one row for each stack
that was seen `count` times in succession.
"""


class PythonCollector(Collector):
    """Records the Python code of all threads, and of child processes if the engine can."""

    # Tracing of every call takes ×1–1.3 for NumPy and pandas, ×2–7 for code of many small calls. `edges`
    # returns the begins and ends of annotations by native thread id, at which samples are cut.
    name: ClassVar[str] = "python"
    holds: ClassVar[frozenset[str]] = frozenset({"Python sampler"})

    def __init__(
        self, options: CollectorOptions | None = None, edges: Callable[[int], AnnotationEdges] | None = None
    ) -> None:
        self._options = options if options is not None else CollectorOptions()
        self._edges = edges
        self._engine: PySpy | Sampler | None = None
        self._instead = ""
        self._tracer: CallTracer | None = None
        self._garbage: GarbageCollections | None = None
        self._tid = 0
        self._thread = ""
        self._clock = Clock()
        self._window_ns = (0, 0)
        self._children: dict[int, str] = {}
        self._looks: list[pd.DataFrame] = []

    @classmethod
    def availability(cls) -> Availability:
        no_spy = spy.refusal()
        how = f"samples lines by a thread ({no_spy})" if no_spy else "samples lines by py-spy"
        from .tracing import refusal

        why_not = refusal()
        calls = "or every call (--python calls)" if not why_not else f"no tracing of calls: {why_not}"
        return Availability(True, f"{how}, {calls}")

    def warm(self, clock: Clock) -> None:
        if self._options.python != "calls" and self._options.engine != "thread":
            spy.prepare()

    def start(self, clock: Clock) -> None:
        """Start recording. Waits for py-spy if it was requested by name."""
        self._tid = threading.get_native_id()
        if self._options.python == "calls":
            from .tracing import CallTracer, refusal

            if not (why_not := refusal()):
                self._tracer = CallTracer(self._options.min_duration_ns, self.report)
                self._tracer.start(clock)
                return
            effect = "lines were sampled instead of calls traced"
            self.report.add("calls-not-traced", "loss", example=why_not, effect=effect)
        self._thread = threading.current_thread().name
        self._clock = clock
        self._engine = self._choose()
        self._engine.start(clock)
        self._garbage = GarbageCollections(self.report)
        self._window_ns = (clock.now_ns(), 0)
        self._garbage.start(clock.now_ns)

    def stop(self) -> None:
        if self._garbage is not None:
            self._garbage.stop()
        if self._engine is not None:
            if not self._window_ns[1]:
                self._window_ns = (self._window_ns[0], self._clock.now_ns())
            self._children = live_children()
            self._engine.stop()
            if self._options.engine != "thread":
                spy.prepare()
        if self._tracer is not None:
            self._tracer.stop()

    def result(self, builder: TraceBuilder) -> None:
        if self._engine is not None:
            engine, self._engine = self._engine, None
            self._put(builder, engine.recorded())
            if engine.awaits is not None:
                engine.awaits.put(builder, self._window_ns, builder.metadata.get(OTHER_CELLS, {}))
            if isinstance(engine, PySpy) and engine.name != "py-spy":
                self._tell_in_process(spy.refusal() or SHORT)
            builder.metadata["python_engine"] = engine.name
            if isinstance(engine, PySpy) and engine.since_ns is not None:
                builder.metadata["py_spy_since_ns"] = engine.since_ns
            if self._instead:
                builder.metadata["python_engine_reason"] = self._instead
            self._garbage = None
        if self._tracer is not None:
            self._tracer.result(builder)
            self._tracer = None

    def abandon(self) -> None:
        if self._garbage is not None:
            self._garbage.stop()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.abandon()
        if self._tracer is not None:
            self._tracer.stop()
        self._tracer = None

    def _choose(self) -> PySpy | Sampler:
        engine = self._options.engine
        if engine == "thread":
            return Sampler(self.report)
        if refusal := spy.refusal():
            self._tell_in_process(refusal)
            return Sampler(self.report)
        return PySpy(self.report, waits=engine == "py-spy")

    def _tell_in_process(self, reason: str) -> None:
        self._instead = reason
        if reason != SHORT:
            effect = "a thread of this process took the stacks; child processes have none"
            self.report.add("sampled-in-process", "info", example=reason, effect=effect)

    def _put(self, builder: TraceBuilder, recorded: Recorded) -> None:
        stacks = recorded.stacks
        recorded = replace(
            recorded,
            stacks=replace(stacks, distinct=placed(stacks.distinct, recorded.first_looks_ns().tolist())),
            context=placed(recorded.context),
        )
        own = [thread for thread in recorded.threads if thread.pid == os.getpid()]
        # too short for samples, but not for statements
        if all(thread.tid != self._tid for thread in own):
            nothing = np.empty(0, np.int64)
            own.insert(0, ThreadSamples(os.getpid(), self._tid, self._thread, "", nothing, nothing))
        if (cell := self._statements(self._tid)) is not None:
            self._window_ns = int(cell.ts[0]), self._window_ns[1]
        for thread in own:
            checkpoint()
            # a new thread's first sample extends back to the previous look, possibly before the cell
            inside = thread.inside(self._window_ns[0], int(thread.bounds.max(initial=0)))
            self._put_thread(builder, inside, recorded)
        self._put_children(builder, recorded)
        if self._looks:
            builder.table(SAMPLES, pd.concat(self._looks, ignore_index=True))
        self._looks = []

    def _put_looks(self, thread: ThreadSamples, stacks: PackedStacks, track: int) -> None:
        """Store the times and counts of a thread's looks, except those that saw no user code."""
        of_user = (thread.samples > 0) & (np.append(stacks.lengths, 0)[thread.stack] > 0)
        columns = {
            "ts": thread.bounds[:-1][of_user],
            "dur": np.diff(thread.bounds)[of_user],
            "track": np.full(int(of_user.sum()), track, np.int32),
            "count": thread.samples[of_user],
        }
        self._looks.append(pd.DataFrame(columns))

    def _statements(self, tid: int) -> Statements | None:
        """Return the cell's statements that ran in a thread during the recording, if they were noted."""
        noted = statements()
        begin_ns, end_ns = self._window_ns
        ts, end = np.maximum(noted.ts, begin_ns), np.minimum(noted.end, end_ns)
        kept = (end > ts) & ((noted.line > 0) | (end - ts >= _SHOWN_NS))
        if noted.thread != tid or not kept.any():
            return None
        return Statements(ts[kept], end[kept], noted.line[kept])

    def _only_waited(self, thread: ThreadSamples, stacks: PackedStacks) -> bool:
        """Return whether a thread was in the same wait during the whole recording."""
        window = self._window_ns[1] - self._window_ns[0]
        if int(thread.bounds[-1] - thread.bounds[0]) < _WHOLE * window:
            return False
        used = np.unique(thread.stack[thread.stack >= 0])
        leaves = stacks.frames[(stacks.offsets + stacks.lengths - 1)[used][stacks.lengths[used] > 0]]
        files = {os.path.basename(stacks.distinct[leaf].file) for leaf in leaves.tolist()}
        return len(np.unique(leaves)) == 1 and files <= _WAITS

    def _put_thread(self, builder: TraceBuilder, thread: ThreadSamples, recorded: Recorded) -> None:
        recorded_here = thread.tid == self._tid
        stacks = trim(recorded.stacks, recorded.context) if recorded_here else trim_thread(recorded.stacks)
        statements = self._statements(thread.tid) if recorded_here else None
        if statements is None and not _has_samples(thread, stacks):
            return
        if not recorded_here and self._only_waited(thread, stacks):
            return
        track = builder.track(thread.name or f"thread {thread.tid}", pid=thread.pid, tid=thread.tid)
        edges = self._edges(thread.tid) if self._edges is not None else AnnotationEdges.none()
        if self._garbage is not None:
            # in the cell's thread, other code runs after the cell, for example to draw the traceback
            within = None if statements is None else (int(statements.ts[0]), int(statements.end[-1]))
            self._garbage.put(builder, track, thread.tid, within)
        ranges = _ranges(builder, track)
        watched = watched_lines()
        runs = watched.threads.get(thread.tid) if watched is not None else None
        timed = None if watched is None or runs is None else (runs.within(*self._window_ns), watched.codes)
        exact = Exact(edges, statements, ranges, timed)
        if statements is not None:
            _put_statements(builder, track, statements, recorded.context)
        if len(thread.stack) == 0 and timed is None:
            return
        self._put_looks(thread, stacks, track)
        put(
            builder,
            track,
            TimedStacks(thread.bounds, thread.stack, thread.looks),
            stacks,
            exact,
            interval_ns=recorded.interval_ns,
            roots_are_lines=recorded_here,
        )

    def _put_children(self, builder: TraceBuilder, recorded: Recorded) -> None:
        """Add the threads of child processes, on tracks that are named after the kind of process."""
        threads = [thread for thread in recorded.threads if thread.pid != os.getpid()]
        by_pid: dict[int, list[ThreadSamples]] = {}
        for thread in threads:
            by_pid.setdefault(thread.pid, []).append(thread)
        frames = {pid: _frames(threads_of_pid, recorded.stacks) for pid, threads_of_pid in by_pid.items()}
        commands = {
            pid: max((t.command for t in threads_of_pid), key=len) for pid, threads_of_pid in by_pid.items()
        }
        children = [SampledProcess(pid, commands[pid], frames[pid], _rank(pid)) for pid in by_pid]
        stacks = trim_process(recorded.stacks)
        for pid, name in name_processes(children, self._children).items():
            threads_of_pid = sorted(by_pid[pid], key=lambda thread: thread.tid != pid)
            for thread in threads_of_pid:
                if not _has_samples(thread, stacks):
                    continue
                suffix = "" if thread is threads_of_pid[0] else f": {thread.name or thread.tid}"
                checkpoint()
                track = builder.track(f"{name}{suffix}", pid=pid, tid=thread.tid)
                timed = TimedStacks(thread.bounds, thread.stack, thread.looks)
                self._put_looks(thread, stacks, track)
                put(builder, track, timed, stacks, interval_ns=recorded.interval_ns, roots_are_lines=False)


def _frames(threads: list[ThreadSamples], stacks: PackedStacks) -> list[PythonFrame]:
    used = np.unique(np.concatenate([thread.stack for thread in threads]))
    used = used[used >= 0]
    in_stacks = np.isin(np.repeat(np.arange(len(stacks.lengths)), stacks.lengths), used)
    return [stacks.distinct[i] for i in np.unique(stacks.frames[in_stacks]).tolist()]


def _has_samples(thread: ThreadSamples, stacks: PackedStacks) -> bool:
    sampled = thread.stack[thread.stack >= 0]
    return bool((stacks.lengths[sampled] > 0).any())


def _ranges(builder: TraceBuilder, track: int) -> ExactRanges | None:
    ts, dur, name, category = builder.placed(track)
    if len(ts) == 0:
        return None
    operator = np.array([word not in _INTERPRETED for word in category.values], dtype=bool)[category.codes]
    closed = np.array([str(word).startswith(_CLOSED) for word in name.values], dtype=bool)[name.codes]
    annotation = np.array([word == "annotation" for word in category.values], dtype=bool)[category.codes]
    return ExactRanges.of(ts, dur, operator, closed, annotation)


def _put_statements(
    builder: TraceBuilder, track: int, rows: Statements, context: Sequence[PythonFrame]
) -> None:
    """Add one exact slice per statement, in which samples are nested."""
    file = next((frame.file for frame in reversed(context) if frame.owner == CELL), "")
    cell = cell_lines(builder)
    lines, code = np.unique(rows.line, return_inverse=True)
    frames = [_UNWRITTEN.get(line) or PythonFrame("<module>", file, 1, line, CELL) for line in lines.tolist()]
    keys = [builder.stack([(frame.function, frame.file, frame.line)]) for frame in frames]  # noqa: PD013
    names = [frame.function if frame.owner == LIBRARY else line_name(frame, {}, cell) for frame in frames]
    builder.slices(
        ts=rows.ts,
        dur=rows.end - rows.ts,
        track=track,
        name=Coded(code.ravel(), names),
        category="python",
        stack=np.array(keys, dtype=np.int64)[code.ravel()],
    )


def _rank(pid: int) -> int:
    """Return ``RANK`` from a process's environment; -1 if the process has ended or has no such variable."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            words = stream.read().split(b"\0")
        return next((int(word[5:]) for word in words if word.startswith(b"RANK=")), -1)
    except (OSError, ValueError):
        return -1
