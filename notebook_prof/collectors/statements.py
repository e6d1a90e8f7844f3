"""When which statement of the running cell began: marks that the rewritten cell leaves.

A mark is one expression of C calls, ``note((now(), line))``, so that an interrupt in it has no frame of ours.
"""

from __future__ import annotations

import linecache
import threading
import time
from array import array
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np

from ..trace.arrays import IntArray
from .lines.monitor import LineMonitor, available
from .lines.runs import FunctionLines, function_lines

SHOWING: Final = -2
"""Line of the mark after the last statement: IPython shows its result from here on."""

MOST_ROWS: Final = 500_000
"""Marks kept in one recording, 8 MB; loops leave no more then."""

now: Final = time.time_ns


class Statements(NamedTuple):
    """Statements that ran, one after the other: disjoint, by time, absolute ns.

    Attributes
    ----------
    ts, end : ndarray of int64
    line : ndarray of int64
        Line in the cell, from 1, as IPython counts.
    thread : int
        Native id of the thread that ran the cell; -1 without statements.
    """

    ts: IntArray
    end: IntArray
    line: IntArray
    thread: int

    @classmethod
    def none(cls) -> Statements:
        """Return no statements."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, -1)


class Marks:
    """The marks of one recorded cell, as pairs (absolute ns, line) in one array.

    Parameters
    ----------
    clock : callable
        Unix nanoseconds.
    """

    def __init__(self, clock: Callable[[], int] = now) -> None:
        self.rows: array[int] = array("q")
        self.end_ns = 0
        self._now = clock
        self._monitor: LineMonitor | None = None
        self._function_lines: FunctionLines | None = None
        self._thread = threading.get_native_id()
        self.identity = threading.get_ident()

    def begin(self, file: str = "", watches: Callable[[str], bool] | None = None) -> None:
        """Take marks from now on; the statement before the first one has line -1.

        With the file of the cell, the lines of its functions are watched too, where the interpreter can, and
        those of other files for which `watches` is true.
        """
        global note, _running
        self.rows = array("q")
        if file and available():
            monitor = LineMonitor(
                lambda other: other == file or (watches is not None and watches(other)),
                _text,
            )
            self._monitor = monitor if monitor.start() else None
        self._thread, self.identity = threading.get_native_id(), threading.get_ident()
        note, _running = self.rows.extend, self

    def stop(self, end_ns: int | None = None) -> None:
        """Take no more; the last statement ended at `end_ns`, or now. A second call does nothing."""
        global note, _running, _latest
        if _running is not self:
            return
        self.end_ns = self._now() if end_ns is None else end_ns
        if self._monitor is not None:
            self._monitor.stop()
        note, _running, _latest = _nothing, None, self

    @property
    def line(self) -> int:
        """Line of the statement that runs; -1 before the first."""
        return self.rows[-1] if self.rows else -1

    @property
    def since_ns(self) -> int:
        """When it began; 0 before the first."""
        return self.rows[-2] if self.rows else 0

    def of_this_thread(self) -> bool:
        """Return whether the calling thread runs the cell."""
        return threading.get_ident() == self.identity

    def table(self) -> tuple[IntArray, IntArray]:
        """Return times and lines of all marks; times never go back, also where the clock does."""
        pairs = np.array(self.rows, np.int64).reshape(-1, 2)
        return np.maximum.accumulate(pairs[:, 0]), pairs[:, 1]

    def statements(self) -> Statements:
        """Return the marks as statements with ends."""
        ts, line = self.table()
        ends = np.maximum(np.append(ts[1:], self.end_ns), ts)[: len(ts)]
        kept = (line > 0) & (ends > ts)
        return Statements(ts[kept], ends[kept], line[kept], self._thread)

    def function_lines(self) -> FunctionLines | None:
        """Return the runs of lines in the user's functions; None where they were not watched."""
        if self._monitor is not None and self._function_lines is None:
            self._function_lines = function_lines(self._monitor, self.end_ns)
        return self._function_lines


def _nothing(mark: Iterable[int]) -> None:
    """Take marks while nothing records."""


note: Callable[[Iterable[int]], None] = _nothing
_running: Marks | None = None
_latest: Marks | None = None
_offered = threading.local()


def running() -> Marks | None:
    """Return the marks that are being taken now."""
    return _running


def offer(marks: Marks | None) -> None:
    """Let `statements` in this thread answer for this recording, whatever else was recorded meanwhile."""
    _offered.marks = marks


def watched_lines() -> FunctionLines | None:
    """Return `Marks.function_lines` of the recording that `statements` answers for."""
    marks = getattr(_offered, "marks", None) or _latest
    return marks.function_lines() if marks is not None else None


def statements() -> Statements:
    """Return the statements of the recording that is being put together, else of the latest that ended.

    Returns
    -------
    Statements
        Empty if no cell was recorded.

    Examples
    --------
    >>> marks = Marks(iter([50]).__next__)
    >>> marks.begin()
    >>> marks.rows.extend((10, 2, 30, 3))
    >>> marks.stop()
    >>> offer(marks)
    >>> ts, end, line, _ = statements()
    >>> ts.tolist(), end.tolist(), line.tolist()
    ([10, 30], [30, 50], [2, 3])
    >>> offer(None)
    """
    marks = getattr(_offered, "marks", None) or _latest
    return marks.statements() if marks is not None else Statements.none()


def _text(file: str) -> str:
    try:
        return "".join(linecache.getlines(file))
    except ValueError:  # a name with a NUL character
        return ""
