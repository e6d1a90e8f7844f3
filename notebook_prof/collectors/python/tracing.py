"""Records every Python call, with VizTracer (the optional extra ``calls``) or `sys.monitoring`."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable
from operator import itemgetter
from types import CodeType
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...optional import installed, require
from ...trace.arrays import BoolArray, IntArray
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...trace.intervals import contains, union
from ...trace.nesting import pair
from ...trace.report import ImportReport
from ...trace.strings import Coded, readable
from ..giving_way import GivingWay
from ..machine import live_threads
from .frames import CELL, MACHINERY, NOTEBOOK, OURS, USER, owner_of
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


MOST_EVENTS: Final = 2_000_000
"""Limit on the begins and ends of calls. Beyond it, nothing is recorded."""

_TOOLS: Final = (4, 3, 2)
_MONITORING: Final[Any] = getattr(sys, "monitoring", None)
_DISABLE: Final[Any] = getattr(_MONITORING, "DISABLE", None)


def monitoring_refusal() -> str:
    """Return why calls cannot be monitored in this process now; empty if they can."""
    if _MONITORING is None:
        return "sys.monitoring needs Python 3.12"
    return "" if _free_tools() else "other tools hold all slots of sys.monitoring"


def _free_tools() -> list[int]:
    return [tool for tool in _TOOLS if _MONITORING is not None and _MONITORING.get_tool(tool) is None]


class MonitoringBackend:
    """Traces calls of functions in cells and in the user's modules."""

    # for library code, the first event returns DISABLE, so it costs nothing afterwards
    sets_profile = False

    def __init__(self) -> None:
        self.slot = next(iter(_free_tools()), -1)
        self._events: list[tuple[int, int, CodeType | None]] = []
        self._own: dict[int, tuple[CodeType, bool]] = {}
        self._threads: dict[int, str] = {}
        self._tool: int | None = None
        self._end_ns = 0
        self._lost = 0

    def start(self) -> None:
        """Take a tool slot and register the callbacks."""
        tool = self.slot
        if tool < 0:
            raise RuntimeError(monitoring_refusal())
        monitoring = _MONITORING
        monitoring.use_tool_id(tool, "notebook_prof")
        self._tool = tool
        for event, callback in self._callbacks().items():
            monitoring.register_callback(tool, event, callback)
        monitoring.set_events(tool, sum(self._callbacks()))

    def stop(self) -> None:
        """Remove the callbacks and free the slot; safe to repeat."""
        tool, self._tool = self._tool, None
        if tool is None:
            return
        monitoring = _MONITORING
        self._end_ns = time.time_ns()
        monitoring.set_events(tool, 0)
        for event in self._callbacks():
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)

    def calls(self, clock: Clock) -> Calls:
        """Pair begins with ends, thread by thread."""
        events, self._events = self._events, []
        codes = [code for code, own in self._own.values() if own]
        number = {id(code): i for i, code in enumerate(codes)}
        ts = np.array([event[0] for event in events], dtype=np.int64)
        tid = np.array([event[1] for event in events], dtype=np.int64)
        code = np.array([number.get(id(event[2]), -1) for event in events], dtype=np.int64)
        pairs = pair(tid, ts, code >= 0)
        begin = np.concatenate([pairs.begin, pairs.unclosed]).astype(np.int64)
        still = np.full(len(pairs.unclosed), self._end_ns, np.int64)  # open calls end with the trace
        end = np.concatenate([ts[pairs.end], still]).astype(np.int64)
        return Calls(
            ts=ts[begin],
            dur=end - ts[begin],
            tid=tid[begin],
            function=code[begin],
            functions=[_function_of(code) for code in codes],
            threads=dict(self._threads),
            lost=self._lost,
        )

    def _callbacks(self) -> dict[int, Callable[..., object]]:
        def callback(begins: bool, otherwise: Any) -> Callable[..., object]:
            def event(code: CodeType, *_: object) -> object:
                if not self._is_own(code):
                    return otherwise
                self._note(code if begins else None)
                return None

            return event

        events = _MONITORING.events
        begin, end = callback(True, _DISABLE), callback(False, _DISABLE)
        return {
            events.PY_START: begin,
            events.PY_RESUME: begin,
            events.PY_RETURN: end,
            events.PY_YIELD: end,
            events.PY_UNWIND: callback(False, None),  # DISABLE would raise in the user's code
            events.PY_THROW: callback(True, None),
        }

    def _is_own(self, code: CodeType) -> bool:
        own = self._own.get(id(code))
        if own is None:
            own = self._own[id(code)] = (code, owner_of(code.co_filename) in (CELL, USER))
        return own[1]

    def _note(self, code: CodeType | None) -> None:
        if len(self._events) >= MOST_EVENTS:
            self._lost += 1
            return
        tid = threading.get_native_id()
        if tid not in self._threads:
            self._threads[tid] = live_threads().get(tid, f"thread {tid}")
        self._events.append((time.time_ns(), tid, code))


def _function_of(code: CodeType) -> Function:
    name = readable(getattr(code, "co_qualname", code.co_name))
    return Function(name, readable(code.co_filename), code.co_firstlineno)


ENTRIES: Final = 1_000_000
"""Limit on the calls in a recording. Older ones are dropped."""

_LOCATION: Final = re.compile(r"(.*) \((.*):(\d+)\)$", re.DOTALL)


def viztracer_refusal() -> str:
    """Return why VizTracer cannot trace now; empty if it can."""
    if not installed("viztracer"):
        return 'VizTracer is not installed: pip install "notebook-prof[calls]"'
    if sys.version_info >= (3, 12):
        holder = sys.monitoring.get_tool(sys.monitoring.PROFILER_ID)
        return f"{holder!r} holds Python's profiler slot" if holder else ""
    return "another profiler is active (sys.setprofile)" if sys.getprofile() is not None else ""


class VizBackend:
    """A VizTracer that records no arguments, and is not registered globally. Short calls take no space."""

    slot, sets_profile = (2 if sys.version_info >= (3, 12) else -1), True

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
        self._backend: VizBackend | MonitoringBackend | None = None
        self._giving_way: GivingWay | None = None
        self._clock = Clock()

    @staticmethod
    def refusal() -> str:
        """Return why calls cannot be traced here; empty if they can."""
        return "" if not viztracer_refusal() or not monitoring_refusal() else viztracer_refusal()

    def start(self, clock: Clock) -> None:
        """Install the best backend's hooks. Raises RuntimeError if there is none or another tool has them."""
        self._clock = clock
        if why_not := self.refusal():
            raise RuntimeError(why_not)
        self._backend = MonitoringBackend() if viztracer_refusal() else VizBackend(self._min_duration_ns)
        self._giving_way = GivingWay(self._backend.stop, self._backend.slot, self._backend.sets_profile)
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
