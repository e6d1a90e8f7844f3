"""Times the user's lines with ``sys.monitoring``. Only user code gets events; hot regions are turned off."""

from __future__ import annotations

import ast
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType
from typing import Any, Final

LINE, START, RESUME, RETURN, YIELD, UNWIND = range(6)
"""Kinds of recorded events."""

MOST_EVENTS: Final = 500_000
"""Limit on the events in a recording, which take 16 MB. No line is timed after that."""

NOT_WATCHED: Final = ("<lambda>", "<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
"""Names of code that belongs to expressions. Its time counts for the line that runs it."""

_BATCH: Final = 256
_FEW: Final = 32
_MANY: Final = 1024
"""Once all regions have had this many events in total, a region's rate is known after 32 of its own."""
_GAP_NS: Final = 12_000
"""Shortest mean interval between events. Busier regions are switched off. An event takes 0.4 µs, so the cost
stays below 3 %."""
_TOOLS: Final = (3, 4)
"""Tool numbers that are not reserved for debuggers, coverage tools, profilers or optimizers."""

_MONITORING: Final[Any] = getattr(sys, "monitoring", None)
now: Callable[[], int] = time.time_ns


def available() -> bool:
    """Return whether the interpreter has line events and a tool number is free."""
    return _MONITORING is not None and any(_MONITORING.get_tool(tool) is None for tool in _TOOLS)


def nodes_of(source: str) -> Iterator[ast.AST]:
    """Yield everything in a syntax tree; nothing if the source cannot be parsed."""
    with suppress(SyntaxError, ValueError, RecursionError):
        yield from ast.walk(ast.parse(source))


def loops_of(source: str) -> list[tuple[int, int]]:
    """Return the first and last line of every loop. The first line is its head."""
    kinds = ast.For | ast.AsyncFor | ast.While
    return [(one.lineno, one.end_lineno or one.lineno) for one in nodes_of(source) if isinstance(one, kinds)]


def nested_code(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and constant.co_name not in NOT_WATCHED:
            yield from nested_code(constant)


class LineMonitor:
    """Records when lines of the user's files begin and frames end, by thread."""

    # `watches` selects files by ``co_filename``, and `source_of` returns their text. `threads` has the events
    # by native thread id, as four integers each: absolute ns, number of the code (its position in `codes`),
    # line, kind. `off` has the regions that were switched off, as the number of the code, and the line of the
    # loop's head or 0 for a function. A global ``PY_START`` that returns ``DISABLE`` sees each code object of
    # the process once. A region is the innermost loop around a line in its function, or the function. It is
    # switched off as a whole, since the time of a single switched-off line would be attributed to its
    # neighbour. This is decided at every 256th of its events (or every 32nd, once all regions together have
    # had 1,024): a region is switched off if the events of all regions together came too quickly since the
    # last check. So if there are many regions and none is hot alone, the most frequent ones are switched off
    # until the others cost little. ``restart_events`` is never called: it would reenable events that coverage
    # and debuggers have disabled.
    def __init__(self, watches: Callable[[str], bool], source_of: Callable[[str], str]) -> None:
        self.threads: dict[int, array[int]] = {}
        self.codes: list[CodeType] = []
        self.off: set[tuple[int, int]] = set()
        self._watches, self._source_of = watches, source_of
        self._is_watched: dict[str, bool] = {}
        self._loops: dict[str, list[tuple[int, int]]] = {}
        self._number: dict[int, int] = {}
        # the region of each line
        self.regions: dict[tuple[int, int], tuple[int, int]] = {}
        self._regions: list[set[tuple[int, int]]] = []
        self._local = threading.local()
        self._hits: dict[tuple[int, int], int] = {}
        self._since: dict[tuple[int, int], tuple[int, int]] = {}
        self._count = 0
        self._tool = -1

    def start(self) -> bool:
        """Start. Returns whether a tool number was free."""
        monitoring, events = _MONITORING, _MONITORING.events
        tool = next((one for one in _TOOLS if monitoring.get_tool(one) is None), -1)
        if tool < 0:
            return False
        monitoring.use_tool_id(tool, "notebook_prof")
        self._tool = tool
        for event, callback in self._callbacks():
            monitoring.register_callback(tool, event, callback)
        # before 3.15, UNWIND and THROW cannot be set for single code objects, but they fire only on
        # exceptions
        monitoring.set_events(tool, events.PY_START | events.PY_UNWIND | events.PY_THROW)
        return True

    def stop(self) -> None:
        """Stop, and free the tool number. A second call does nothing."""
        if self._tool < 0:
            return
        monitoring = _MONITORING
        tool, self._tool = self._tool, -1
        monitoring.set_events(tool, 0)
        for code in self.codes:
            monitoring.set_local_events(tool, code, 0)
        for event, _ in self._callbacks():
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)

    def _watch(self, code: CodeType) -> None:
        events = _MONITORING.events
        local = events.LINE | events.PY_START | events.PY_RESUME | events.PY_RETURN | events.PY_YIELD
        file = code.co_filename
        if (loops := self._loops.get(file)) is None:
            loops = self._loops[file] = loops_of(self._source_of(file))
        for one in nested_code(code):
            if id(one) in self._number:
                continue
            number = len(self.codes)
            lines = {line for *_, line in one.co_lines() if line}
            self._regions.append({(number, 0)})
            for line in lines:
                heads = [head for head, last in loops if head <= line <= last and head in lines]
                region = self.regions[number, line] = number, max(heads, default=0)
                self._regions[number].add(region)
            self.codes.append(one)  # kept alive, so its id stays unique
            self._number[id(one)] = number
            _MONITORING.set_local_events(self._tool, one, local)

    def _goes_off(self, region: tuple[int, int], t: int) -> None:
        """Count an event of a region and, from time to time, switch off a region with too high a rate."""
        hits = self._hits[region] = self._hits.get(region, 0) + 1
        self._count += 1
        if hits % _FEW:
            if hits == 1:
                self._since[region] = t, self._count
            return
        since, before = self._since[region]
        events = self._count - before
        if hits % _BATCH and events < _MANY:
            return
        if t - since < events * _GAP_NS or self._count > MOST_EVENTS:
            number, head = region
            self.off.add(region)
            if not head:  # a hot function, which is slowed down even by events that return DISABLE
                self.off |= self._regions[number]
                _MONITORING.set_local_events(self._tool, self.codes[number], 0)
        self._since[region] = t, self._count

    def _log(self) -> array[int]:
        """Return the events of this thread. The list is created at its first event."""
        local = self._local
        try:
            return local.log  # type: ignore[no-any-return]
        except AttributeError:
            local.log = self.threads[threading.get_native_id()] = array("q")
            local.region = None
            return local.log  # type: ignore[no-any-return]

    def _callbacks(self) -> list[tuple[int, Callable[..., object]]]:
        events, disable = _MONITORING.events, _MONITORING.DISABLE
        number, off, local, regions = self._number, self.off, self._local, self.regions

        def line(code: CodeType, at: int) -> object:
            __tracebackhide__ = True
            t = now()
            if (code_number := number.get(id(code))) is None:
                return disable
            region = regions.get((code_number, at), (code_number, 0))
            is_off = region in off
            if is_off and at != region[1]:
                return disable
            log = self._log()
            log.extend((t, code_number, at, LINE))
            before, local.region = local.region, region
            if is_off:  # the head is recorded when the loop is entered, not at each iteration
                return disable if before == region else None
            self._goes_off(region, t)
            return None

        def frame(kind: int) -> Callable[..., object]:
            def event(code: CodeType, *_: object) -> object:
                __tracebackhide__ = True
                t = now()
                if (code_number := number.get(id(code))) is None or (code_number, 0) in off:
                    return disable
                self._log().extend((t, code_number, 0, kind))
                local.region = None
                return None

            return event

        def start(code: CodeType, *_: object) -> object:
            __tracebackhide__ = True
            t = now()
            if (code_number := number.get(id(code))) is None:
                file = code.co_filename
                if (watched := self._is_watched.get(file)) is None:
                    watched = self._is_watched[file] = self._watches(file)
                if not watched or code.co_name in NOT_WATCHED:
                    return disable
                self._watch(code)
                code_number = number[id(code)]
            if (code_number, 0) in off:
                return disable
            self._log().extend((t, code_number, 0, START))
            local.region = None
            self._goes_off((code_number, 0), t)
            return None

        def thrown(kind: int) -> Callable[..., None]:
            def event(code: CodeType, *_: object) -> None:  # DISABLE would raise in the user's code
                code_number = number.get(id(code))
                if code_number is not None and (code_number, 0) not in off:
                    self._log().extend((now(), code_number, 0, kind))
                    local.region = None

            return event

        return [
            (events.LINE, line),
            (events.PY_START, start),
            (events.PY_RESUME, frame(RESUME)),
            (events.PY_RETURN, frame(RETURN)),
            (events.PY_YIELD, frame(YIELD)),
            (events.PY_UNWIND, thrown(UNWIND)),
            (events.PY_THROW, thrown(RESUME)),
        ]
