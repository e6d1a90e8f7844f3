"""Traces calls of the user's functions with ``sys.monitoring`` (Python 3.12 and later), without a library."""

from __future__ import annotations

import sys
import threading
import time
from types import CodeType
from typing import Any, Final, NamedTuple

import numpy as np

from ...trace.arrays import IntArray
from ...trace.clocks import Clock
from ...trace.nesting import pair
from ...trace.strings import readable
from .frames import CELL, USER, owner_of


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
_NAME: Final = "notebook_prof"
_MONITORING: Final[Any] = getattr(sys, "monitoring", None)
_DISABLE: Final[Any] = getattr(_MONITORING, "DISABLE", None)


def refusal() -> str:
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
            raise RuntimeError(refusal())
        monitoring = _MONITORING
        events = monitoring.events
        monitoring.use_tool_id(tool, _NAME)
        self._tool = tool
        begins = events.PY_START | events.PY_RESUME
        ends = events.PY_RETURN | events.PY_YIELD
        for event in (events.PY_START, events.PY_RESUME):
            monitoring.register_callback(tool, event, self._begin)
        for event in (events.PY_RETURN, events.PY_YIELD):
            monitoring.register_callback(tool, event, self._end)
        monitoring.register_callback(tool, events.PY_UNWIND, self._unwind)
        monitoring.register_callback(tool, events.PY_THROW, self._throw)
        monitoring.set_events(tool, begins | ends | events.PY_UNWIND | events.PY_THROW)

    def stop(self) -> None:
        """Remove the callbacks and free the slot; safe to repeat."""
        tool, self._tool = self._tool, None
        if tool is None:
            return
        monitoring = _MONITORING
        self._end_ns = time.time_ns()
        monitoring.set_events(tool, 0)
        events = monitoring.events
        for event in (events.PY_START, events.PY_RESUME, events.PY_RETURN, events.PY_YIELD):
            monitoring.register_callback(tool, event, None)
        monitoring.register_callback(tool, events.PY_UNWIND, None)
        monitoring.register_callback(tool, events.PY_THROW, None)
        monitoring.free_tool_id(tool)

    def calls(self, clock: Clock) -> Calls:
        """Pair begins with ends, thread by thread."""
        events, self._events = self._events, []
        codes = [code for code, own in self._own.values() if own]
        number = {id(code): i for i, code in enumerate(codes)}
        ts = np.array([event[0] for event in events], dtype=np.int64)
        tid = np.array([event[1] for event in events], dtype=np.int64)
        code = np.array([number.get(id(event[2]), -1) for event in events], dtype=np.int64)
        begin, end = _pairs(tid, ts, code >= 0, self._end_ns)
        return Calls(
            ts=ts[begin],
            dur=end - ts[begin],
            tid=tid[begin],
            function=code[begin],
            functions=[_function(code) for code in codes],
            threads=dict(self._threads),
            lost=self._lost,
        )

    def _begin(self, code: CodeType, offset: int) -> object:
        if not self._is_own(code):
            return _DISABLE
        self._note(code)
        return None

    def _end(self, code: CodeType, offset: int, value: object) -> object:
        if not self._is_own(code):
            return _DISABLE
        self._note(None)
        return None

    def _unwind(self, code: CodeType, offset: int, error: BaseException) -> None:
        if self._is_own(code):
            self._note(None)

    def _throw(self, code: CodeType, offset: int, error: BaseException) -> None:
        if self._is_own(code):
            self._note(code)

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
            name_of = {thread.native_id: thread.name for thread in threading.enumerate()}
            self._threads[tid] = name_of.get(tid, f"thread {tid}")
        self._events.append((time.time_ns(), tid, code))


def _pairs(tid: IntArray, ts: IntArray, opens: Any, end_ns: int) -> tuple[IntArray, IntArray]:
    """Return the positions of the begins, and the ends of their calls. Open calls end with the trace."""
    pairs = pair(tid, ts, opens)
    begin = np.concatenate([pairs.begin, pairs.unclosed]).astype(np.int64)
    still = np.full(len(pairs.unclosed), end_ns, np.int64)
    return begin, np.concatenate([ts[pairs.end], still]).astype(np.int64)


def _function(code: CodeType) -> Function:
    name = readable(getattr(code, "co_qualname", code.co_name))
    return Function(name, readable(code.co_filename), code.co_firstlineno)
