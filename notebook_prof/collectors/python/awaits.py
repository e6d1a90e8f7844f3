"""Records at which lines the tasks of the cell's event loop are suspended while no task runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, compress, islice, repeat
from operator import attrgetter, is_, is_not, methodcaller, mul, not_, or_
from types import CodeType, CoroutineType
from typing import Any, Final

import pandas as pd

from ...trace.builder import TraceBuilder
from ..machine import has_gil
from .frames import CELL, USER, PythonFrame, owner_of
from .names import cell_lines, line_name, placed
from .thread_stacks import in_one_call

_MOST_TASKS: Final = 100
_DEEPEST: Final = 12
"""Maximum number of coroutines that await each other."""

Line = tuple[CodeType, int]
_call: Final = methodcaller("__call__")


class Awaits:
    """Looks at the tasks of one event loop, from any thread."""

    # None of the user's code is called, not even a finalizer: as in `walk`, all steps run in a single C call,
    # during which nobody else can release a task or a frame.
    def __init__(self, asyncio: Any, loop: Any) -> None:
        tasks, version = asyncio.tasks, sys.version_info
        self._loop, self._task = loop, sys.modules["_asyncio"].Task
        self._gathering = tasks._GatheringFuture
        self._running = (
            partial(tasks._current_tasks.get, loop)
            if version < (3, 12)
            else partial(sys.modules["_asyncio"].current_task, loop)
        )
        if version < (3, 14):
            known: Any = tasks._all_tasks if version < (3, 12) else tasks._scheduled_tasks
            self._references: Callable[[], Iterable[Any]] = partial(map, _call, known.data)
        else:
            self._references = partial(sys.modules["_asyncio"].all_tasks, loop)
        self._rows: list[tuple[int, int, frozenset[Line]]] = []

    @classmethod
    def of_this_thread(cls) -> Awaits | None:
        """Return an instance for the loop that runs the calling task; None if there is none."""
        asyncio = sys.modules.get("asyncio")
        with suppress(Exception):  # a different asyncio, whose tasks are unknown
            if asyncio is not None and has_gil() and asyncio.current_task() is not None:
                return cls(asyncio, asyncio.get_running_loop())
        return None

    def look(self, since_ns: int, now_ns: int) -> None:
        """Record where tasks are suspended, for the time since `since_ns`, unless a task is running now."""
        idle: list[bool] = []
        in_one_call([partial(idle.extend, map(is_, map(_call, [self._running]), repeat(None)))])
        if not idle[0]:
            return
        lines = self._suspended()
        if self._rows and self._rows[-1][1:] == (since_ns, lines):
            since_ns = self._rows.pop()[0]
        if lines:
            self._rows.append((since_ns, now_ns, lines))

    def put(self, builder: TraceBuilder, window_ns: tuple[int, int], cells: Mapping[str, str]) -> None:
        """Add the table of suspended lines, cut at a window."""
        texts: dict[Line, tuple[str, int, str]] = {}
        rows, cell = [], cell_lines(builder)
        for begin, end, lines in self._rows:
            begin, end = max(begin, window_ns[0]), min(end, window_ns[1])
            for line in lines - texts.keys():
                texts[line] = _named(*line, cells, cell)
            if end > begin:
                rows += [(begin, end - begin, *place) for place in {texts[line] for line in lines}]
        if rows:
            builder.table("awaits", pd.DataFrame(rows, columns=["ts", "dur", "file", "line", "text"]))

    def _suspended(self) -> frozenset[Line]:
        """Return the user's innermost line in each task that does not await another task."""
        tasks: list[Any] = []
        found: list[Any] = []
        chains: list[list[Any]] = [[] for _ in range(_DEEPEST + 1)]
        codes: list[list[Any]] = [[] for _ in range(_DEEPEST)]
        lines: list[list[int]] = [[] for _ in range(_DEEPEST)]
        waiters = partial(map, attrgetter("_fut_waiter"), tasks)
        awaits_task = map(or_, _are(waiters(), self._task), _are(waiters(), self._gathering))
        elsewhere = map(is_not, map(methodcaller("get_loop"), tasks), repeat(self._loop))
        leaves = compress(tasks, map(not_, map(or_, awaits_task, elsewhere)))
        known = chain.from_iterable(map(_call, [self._references]))
        steps: list[Callable[[], object]] = [
            partial(found.extend, islice(known, _MOST_TASKS)),
            partial(tasks.extend, compress(found, _are(found, self._task))),
            partial(chains[0].extend, map(methodcaller("get_coro"), leaves)),
        ]
        for outer, inner, code, line in zip(chains, chains[1:], codes, lines, strict=False):
            at = map(getattr, _of_coroutines(outer, "cr_frame"), repeat("f_lineno"), repeat(0))
            steps += [
                partial(code.extend, _of_coroutines(outer, "cr_code")),
                partial(inner.extend, _of_coroutines(outer, "cr_await")),
                partial(line.extend, map(mul, map(is_not, inner, repeat(None)), at)),  # 0 before it begins
            ]
        steps += [kept.clear for kept in (tasks, found, *chains)]
        in_one_call(steps)
        stacks = {tuple(stack) for stack in zip(*map(zip, codes, lines), strict=True)}
        own = ([place for place in stack if _is_own(*place)] for stack in stacks)
        return frozenset(places[-1] for places in own if places)


def _are(objects: Iterable[Any], kind: type) -> Iterator[bool]:
    """Return whether each object is of exactly this type, without touching the object."""
    return map(is_, map(type, objects), repeat(kind))


def _of_coroutines(objects: list[Any], name: str) -> Iterator[Any]:
    """Return an attribute of those objects that are coroutines, and a number for the others."""
    readers = map((id, attrgetter(name)).__getitem__, _are(objects, CoroutineType))
    return map(_call, map(partial, readers, objects))


def _is_own(code: Any, line: int) -> bool:
    return isinstance(code, CodeType) and line > 0 and owner_of(code.co_filename) in (CELL, USER)


def _named(code: CodeType, line: int, cells: Mapping[str, str], cell: list[str]) -> tuple[str, int, str]:
    function, file = getattr(code, "co_qualname", code.co_name), code.co_filename
    frame = placed([PythonFrame(function, file, code.co_firstlineno, line, owner_of(file))])[0]
    text = line_name(frame, cells, cell).partition("  ")[2]
    return cells.get(file, "cell") if frame.owner == CELL else file, frame.line, text
