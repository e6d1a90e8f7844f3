"""Functions called by a rewritten loop. It finds them through ``sys.modules``, so its code runs anywhere."""

from __future__ import annotations

import builtins
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from ..collectors import statements
from . import current

if TYPE_CHECKING:
    from .records import Run
    from .window import StepWindow, TickSource

SHORTEST_NS: Final = 50_000
"""Shortest useful interval between ticks: more frequent ones cost more than they are worth."""

_ROUND: Final = 256
_ROUND_MASK: Final = _ROUND - 1
_NOTHING: Final = nullcontext()

NAME: Final = "__nbp__"
"""A built-in that exists while a cell with ticking loops runs, so the user's namespace stays clean."""


class LoopTicker:
    """The context of a rewritten loop's body. A step ends whenever the body is left, by whatever means."""

    # `window` is None for a loop that only marks statements. `line` is the line of the loop's head in the
    # cell, for these marks, or -1. `items` is the iterator of a loop outside functions, which allows it to
    # continue without ticks. `fast` is set if the iterations are too short to tick, `left` if the loop
    # continued without ticks. Marks in the body call `note` and `now` of `collectors.statements`.
    __slots__ = (
        "_at", "_count", "_first", "_last_ns", "_line", "_rows", "_run", "_since_ns", "_source", "_window",
        "fast", "inside", "items", "left", "note", "now",
    )  # fmt: skip

    def __init__(
        self, window: StepWindow | None, source: TickSource | None, run: Run | None = None, line: int = -1
    ) -> None:
        self._window, self._source, self._run, self._line = window, source, run, line
        marks = statements.running() if line > 0 else None
        self._rows = marks.rows if marks is not None else None
        self._first = self._at = len(self._rows) if self._rows is not None else 0
        self._count, self._last_ns, self._since_ns = 0, 0, time.time_ns()
        self.items: Any = None
        self.fast = self.left = self.inside = False
        self.note, self.now = statements.note, statements.now

    def __iter__(self) -> Any:
        return self.items  # may lack `__iter__`, which `for` would call if it were given the iterator

    __aiter__ = __iter__

    def __enter__(self) -> None:
        self.inside = True
        if self._rows is not None:
            self._at = len(self._rows)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        __tracebackhide__ = True
        self.inside = False
        window, rows = self._window, self._rows
        kept = window is None or window.recording
        end_ns = statements.now()
        if window is not None and self._source is not None:
            failed = kind is not None and kind is not GeneratorExit
            window.tick(self._source, failed=failed, run=self._run, at_ns=end_ns)
        if rows is not None and kind is None:
            if kept and len(rows) < statements.MOST_ROWS * 2:
                rows.extend((end_ns, self._line))
            else:
                del rows[self._at :]
        self._count += 1
        if self.fast or not self._count & _ROUND_MASK:
            self._check_pace()

    def _check_pace(self) -> None:
        """Check whether the last iterations were too short."""
        now = time.time_ns()
        if self.fast:
            self.fast = now - self._last_ns < SHORTEST_NS
        else:
            self.fast = now - self._since_ns < _ROUND * SHORTEST_NS
            self._since_ns = now
        self._last_ns = now

    def leave(self) -> None:
        """Let the loop continue without ticks and marks. It becomes a single row of the account."""
        self.left = True
        if self._rows is not None:
            del self._rows[self._first :]
        if self._window is not None:
            self._window.give_up(self._run)


def begin(token: int) -> None:
    """Start the loop with this token in the calling function."""
    # the token is negative if there is no sign of training
    session = current.running()
    if session is None:
        return
    frame = id(sys._getframe(1))
    ticker = session.loop(token)
    if ticker is not None:
        session.bodies[frame] = ticker
    else:
        session.bodies.pop(frame, None)  # an entry may belong to an earlier frame with the same id


def body(token: int) -> AbstractContextManager[None]:
    """Return the context of this loop's body: its `LoopTicker`, or a null context while nothing records."""
    session = current.running()
    ticker = session.bodies.get(id(sys._getframe(1))) if session is not None else None
    return _NOTHING if ticker is None else ticker


def end(token: int) -> None:
    """End the loop. Its frame may start another one."""
    session = current.running()
    if session is not None:
        session.bodies.pop(id(sys._getframe(1)), None)


def marked_loop(token: int, line: int) -> LoopTicker:
    """Start a loop with marked statements outside functions. Returns its ticker; token 0 never ticks."""
    session = current.running()
    ticker = session.loop(token, line) if session is not None and token else None
    return LoopTicker(None, None, line=line) if ticker is None else ticker


def offer() -> None:
    """Add the built-in `NAME`, whose attributes are the tickers of the cell's loops."""
    setattr(builtins, NAME, SimpleNamespace())


def withdraw() -> None:
    """Remove the built-in when the cell has ended. Safe to repeat."""
    if hasattr(builtins, NAME):
        delattr(builtins, NAME)


def past() -> bool:
    """Return whether the user's loop should end, because the current recording has passed its window."""
    session = current.running()
    return session is not None and session.leave_loop()
