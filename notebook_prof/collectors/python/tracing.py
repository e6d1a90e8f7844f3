"""Records every Python call with VizTracer, the optional extra ``calls``."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...optional import installed, require
from ...trace.arrays import BoolArray, IntArray
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...trace.intervals import contains, union
from ...trace.report import ImportReport
from ...trace.strings import Coded
from ..giving_way import GivingWay
from .frames import CELL, MACHINERY, NOTEBOOK, OURS, owner_of
from .thread_stacks import is_servant


class Function(NamedTuple):
    """A called function. `file` is empty for functions written in C."""

    name: str
    file: str
    line: int


class Calls(NamedTuple):
    """Finished calls."""

    # absolute begin and duration in ns, and the native id of the thread
    ts: IntArray
    dur: IntArray
    tid: IntArray
    function: IntArray  # positions in `functions`
    functions: list[Function]
    threads: dict[int, str]  # names of threads by native id
    lost: int  # number of calls dropped for lack of room


ENTRIES: Final = 1_000_000
"""Limit on the calls in a recording. Older ones are dropped."""

_LOCATION: Final = re.compile(r"(.*) \((.*):(\d+)\)$", re.DOTALL)


def refusal() -> str:
    """Return why calls cannot be traced now; empty if they can."""
    if not installed("viztracer"):
        return 'VizTracer is not installed: pip install "notebook-prof[calls]"'
    if sys.version_info >= (3, 12):
        holder = sys.monitoring.get_tool(sys.monitoring.PROFILER_ID)
        return f"{holder!r} holds Python's profiler slot" if holder else ""
    return "another profiler is active (sys.setprofile)" if sys.getprofile() is not None else ""


class VizBackend:
    """A VizTracer that records no arguments, and is not registered globally. Short calls take no space."""

    def __init__(self, min_duration_ns: int) -> None:
        self._thread_hook = threading.getprofile()  # VizTracer's constructor replaces it
        tracer = require("viztracer", extra="calls", purpose="tracing of calls").VizTracer
        self._tracer: Any = tracer(
            verbose=0,
            register_global=False,
            tracer_entries=ENTRIES,
            file_info=False,
            min_duration=min_duration_ns / 1000,
        )
        self._running = False

    def start(self) -> None:
        """Install VizTracer's hooks."""
        self._running = True
        self._tracer.start()

    def stop(self) -> None:
        """Remove the hooks. VizTracer itself would leave the hook for new threads behind."""
        if not self._running:
            return
        self._tracer.stop()
        self._running = False
        threading.setprofile(self._thread_hook)

    def calls(self, clock: Clock) -> Calls:
        """Convert VizTracer's events to columns."""
        events = self._tracer.load()
        self._tracer.clear()
        threads = {
            event["tid"]: event["args"]["name"] for event in events if event.get("name") == "thread_name"
        }
        done = [event for event in events if event["ph"] == "X"]
        code, names = pd.factorize(np.array([event["name"] for event in done], dtype=object))
        ts = _column(done, "ts", np.float64)
        return Calls(
            ts=clock.from_monotonic(np.rint(ts * 1000).astype(np.int64)),
            dur=np.rint(_column(done, "dur", np.float64) * 1000).astype(np.int64),
            tid=_column(done, "tid", np.int64).astype(np.int64),
            function=np.asarray(code, dtype=np.int64),
            functions=[_function(str(name)) for name in names],
            threads=threads,
            lost=1 if len(done) >= ENTRIES - min(64, ENTRIES // 10) else 0,
        )


def _column(events: list[dict[str, Any]], key: str, dtype: Any) -> Any:
    return np.fromiter(map(itemgetter(key), events), dtype, len(events))


def _function(text: str) -> Function:
    if (match := _LOCATION.match(text)) is None:
        return Function(text, "", 0)
    return Function(match[1], match[2], int(match[3]))


class CallTracer:
    """Traces calls in all threads, without arguments. Drops calls shorter than `min_duration_ns`."""

    def __init__(self, min_duration_ns: int, report: ImportReport) -> None:
        self._min_duration_ns = min_duration_ns
        self._report = report
        self._backend: VizBackend | None = None
        self._giving_way: GivingWay | None = None
        self._clock = Clock()

    def start(self, clock: Clock) -> None:
        """Install the hooks. Call this only without a `refusal`."""
        self._clock = clock
        self._backend = VizBackend(self._min_duration_ns)
        slot = -1
        if sys.version_info >= (3, 12):
            slot = sys.monitoring.PROFILER_ID
        self._giving_way = GivingWay(self._backend.stop, slot)
        self._giving_way.watch()
        self._backend.start()
        self._giving_way.hook = threading._profile_hook
        self._giving_way.armed = True

    def stop(self) -> None:
        """Remove the hooks."""
        if self._giving_way is not None:
            self._giving_way.armed = False  # `unwatch` comes later, since it would be traced now
        if self._backend is not None:
            self._backend.stop()
        if self._giving_way is not None:
            self._giving_way.unwatch()

    def result(self, builder: TraceBuilder) -> None:
        """Add one slice per call."""
        # Calls of the notebook's machinery and ours are left out. So are ipykernel's threads and, if a cell
        # ran, its thread's calls before and after it.
        if self._backend is None:
            return
        if self._giving_way is not None and self._giving_way.to:
            example = f"the code used {self._giving_way.to}, which excludes tracing calls"
            self._report.add("calls-gave-way", "loss", example=example, effect="calls were traced until then")
        calls = self._backend.calls(self._clock)
        self._backend = None
        effect = "there was no room for all calls"
        advice = "record fewer steps, or drop short calls with --min-duration 20us"
        self._report.add("calls-lost", "loss", calls.lost, effect=effect, advice=advice)
        foreign = _calls_of(calls, lambda function: owner_of(function.file) in (MACHINERY, NOTEBOOK, OURS))
        cells = _calls_of(calls, lambda function: owner_of(function.file) == CELL)
        keep = ~foreign & (calls.dur >= self._min_duration_ns)
        for tid, name in calls.threads.items():
            if not is_servant(name):
                of_thread = calls.tid == tid
                _put(builder, calls, keep & of_thread & _in_cells(calls, cells & of_thread), tid, name)


def _put(builder: TraceBuilder, calls: Calls, keep: BoolArray, tid: int, name: str) -> None:
    if not keep.any():
        return
    keys = np.array([builder.stack([function]) for function in calls.functions], dtype=np.int64)  # noqa: PD013
    builder.slices(
        ts=calls.ts[keep],
        dur=calls.dur[keep],
        track=builder.track(name, pid=os.getpid(), tid=tid),
        name=Coded(calls.function[keep], [_label(function) for function in calls.functions]),
        category="python",
        stack=keys[calls.function[keep]],
    )


def _calls_of(calls: Calls, is_it: Callable[[Function], bool]) -> BoolArray:
    """Return a mask of the calls whose function satisfies a predicate."""
    kinds = np.array([is_it(function) for function in calls.functions], dtype=bool)
    return np.asarray(kinds[calls.function], dtype=bool)


def _in_cells(calls: Calls, cells: BoolArray) -> BoolArray:
    """Return a mask of the calls made while a cell ran; all calls if there is no cell."""
    if not cells.any():
        return np.ones(len(calls.ts), bool)
    begins, ends = calls.ts[cells], calls.ts[cells] + calls.dur[cells]
    return contains(union(begins, np.maximum(ends, begins + 1)), calls.ts)


def _label(function: Function) -> str:
    if not function.file:
        return function.name
    file = "cell" if owner_of(function.file) == CELL else os.path.basename(function.file)
    return f"{function.name} ({file})"
