"""Records when each statement of the running cell began, by marks in the rewritten cell.

A mark is a single expression of C calls, ``note((now(), line))``, so an interrupt in it shows no frame of
ours.
"""

from __future__ import annotations

import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from ..trace.arrays import IntArray
from ..trace.intervals import containing, contains, union
from .line_monitor import LineMonitor, available
from .line_runs import FunctionLines, function_lines
from .line_sources import Sources

SHOWING: Final = -2
"""Line of the mark after an expression whose value IPython shows next."""

AFTER: Final = -3
"""Line of the mark after the last statement, if the cell displays no value."""

UNWRITTEN: Final = {SHOWING: "display of the result", AFTER: "work after the last line"}
"""Descriptions of the time after marks that have no line in the cell."""

MOST_ROWS: Final = 500_000
"""Limit on the marks in a recording, which take 8 MB. Beyond it, loops leave no marks."""

now: Final = time.time_ns


class Statements(NamedTuple):
    """Executed statements, disjoint and in order of time. Times are absolute ns."""

    ts: IntArray
    end: IntArray
    line: IntArray  # line in the cell, from 1 like in IPython; `SHOWING` or `AFTER` for what comes after it
    thread: int = -1  # native id of the thread that ran the cell; -1 without statements

    def without(self, spans: Sequence[tuple[int, int]]) -> Statements:
        """Return the statements without the time of these spans.

        >>> ran = Statements(np.array([0, 5]), np.array([5, 9]), np.array([1, 2]))
        >>> [column.tolist() for column in ran.without([(2, 3), (4, 6)])[:3]]
        [[0, 3, 6], [2, 4, 9], [1, 1, 2]]
        """
        begin, end = union(*np.array(spans, np.int64).reshape(-1, 2).T)
        cuts = np.unique(np.concatenate([self.ts, self.end, begin, end]))
        home = containing((self.ts, self.end), cuts[:-1])
        kept = (home >= 0) & ~contains((begin, end), cuts[:-1])
        return Statements(cuts[:-1][kept], cuts[1:][kept], self.line[home[kept]], self.thread)


class Marks:
    """The marks of a recorded cell, as (absolute ns, line) pairs in one array."""

    def __init__(self) -> None:
        self.rows: array[int] = array("q")
        self.end_ns = 0
        self.sources = Sources()
        self._monitor: LineMonitor | None = None
        self._function_lines: FunctionLines | None = None
        self._thread = threading.get_native_id()
        self.identity = threading.get_ident()

    def begin(self, file: str = "", watches: Callable[[str], bool] | None = None) -> None:
        """Accept marks from now on. Until the first mark, the line is -1."""
        # if the cell's file is given, the lines of its functions and of other files that `watches` selects
        # are timed too, if the interpreter supports that
        global note, _running
        self.rows = array("q")
        if file and available():
            monitor = LineMonitor(
                lambda other: other == file or (watches is not None and watches(other)), self.sources.see
            )
            self.sources.ran = monitor.codes
            self._monitor = monitor if monitor.start() else None
        elif file:  # without line events, the code that a reloaded module had before must be kept
            sys.meta_path.insert(0, self.sources.reloads)
        self._thread, self.identity = threading.get_native_id(), threading.get_ident()
        note, _running = self.rows.extend, self

    def stop(self, end_ns: int | None = None) -> None:
        """Accept no more marks. The last statement ended at `end_ns`, or now. A second call does nothing."""
        global note, _running, _latest
        if _running is not self:
            return
        self.end_ns = now() if end_ns is None else end_ns
        if self._monitor is not None:
            self._monitor.stop()
        elif self.sources.reloads in sys.meta_path:
            sys.meta_path.remove(self.sources.reloads)
        note, _running, _latest = _nothing, None, self

    @property
    def line(self) -> int:
        """Line of the running statement; -1 before the first."""
        return self.rows[-1] if self.rows else -1

    @property
    def since_ns(self) -> int:
        """Begin of the running statement; 0 before the first."""
        return self.rows[-2] if self.rows else 0

    def table(self) -> tuple[IntArray, IntArray]:
        """Return the times and lines of all marks. Times never go back, even if the clock does."""
        pairs = np.array(self.rows, np.int64).reshape(-1, 2)
        return np.maximum.accumulate(pairs[:, 0]), pairs[:, 1]

    def statements(self) -> Statements:
        """Return the marks as statements with ends."""
        ts, line = self.table()
        ends = np.maximum(np.append(ts[1:], self.end_ns), ts)[: len(ts)]
        kept = ((line > 0) | (line <= SHOWING)) & (ends > ts)
        return Statements(ts[kept], ends[kept], line[kept], self._thread)

    def function_lines(self) -> FunctionLines | None:
        """Return the runs of lines in the user's functions; None if they were not timed."""
        if self._monitor is not None and self._function_lines is None:
            self._function_lines = function_lines(self._monitor, self.end_ns, self.sources)
        return self._function_lines


def _nothing(mark: Iterable[int]) -> None:
    """Replaces `note` while nothing is recorded."""


note: Callable[[Iterable[int]], None] = _nothing
_running: Marks | None = None
_latest: Marks | None = None
_offered = threading.local()


def running() -> Marks | None:
    return _running


def offer(marks: Marks | None, moves: Sequence[tuple[int, int]] = ()) -> None:
    """Make `statements` refer to this recording in this thread, even if others were recorded since."""
    # `moves`: begin and end of each start and stop of the recording, which are no statement's time
    _offered.marks, _offered.moves = marks, moves
    _offered.sources = marks.sources if marks is not None else Sources()


def sources() -> Sources:
    """Return the source texts of the recording that `statements` refers to."""
    found: Sources = getattr(_offered, "sources", None) or Sources()
    return found


def watched_lines() -> FunctionLines | None:
    """Return `Marks.function_lines` of the recording that `statements` refers to."""
    marks = getattr(_offered, "marks", None) or _latest
    return marks.function_lines() if marks is not None else None


def statements() -> Statements:
    """Return the statements of the recording being assembled or the latest one; empty without a cell."""
    marks, nothing = getattr(_offered, "marks", None) or _latest, np.empty(0, np.int64)
    if marks is None:
        return Statements(nothing, nothing, nothing)
    return marks.statements().without(getattr(_offered, "moves", ()))
