"""The recorded cell, and its account: a table that assigns every instant of the cell to exactly one row."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..collectors import statements
from ..collectors.python.assemble import OTHER_CELLS
from ..collectors.python.frames import is_watched
from ..collectors.statements import SHOWING, UNWRITTEN
from ..trace.arrays import IntArray
from ..trace.builder import TraceBuilder
from ..trace.intervals import containing, contains, union
from ..trace.source_lines import text_lines
from .records import Run, StepRecords
from .window import StepWindow

KINDS: Final = ("steps", "code", "outside-window", "profiler", "not-recorded", "display")
"""Kinds of rows of the account."""

_STEPS, _CODE, _OUTSIDE, _PROFILER, _UNKNOWN, _DISPLAY = range(6)
_TEXT_MOVES: Final = "start and stop of the recording"
_NO_LINE: Final = -1


class Cell:
    """The statements of a cell, and when they ran."""

    # `source` is empty for code that is not a cell. `span` is the Unix ns of its first and last instant (the
    # second is 0 while it runs), or None for code that is not a cell.
    def __init__(self, source: str) -> None:
        self.marks = statements.Marks()
        self.span: tuple[int, int] | None = None
        self._source, self._file = source, ""
        self._lines: list[str] | None = None
        self._elsewhere: dict[int, int] = {}

    def begin(self, file: str) -> None:
        """Mark the start of the cell's statements. If `file` is given, lines of functions are timed too."""
        self.marks.begin(file, is_watched)
        self._file = file
        self.span = time.time_ns(), 0

    def end(self, end_ns: int) -> None:
        """Mark the end of the cell's statements."""
        if self.span is not None and not self.span[1]:
            self.span = self.span[0], end_ns
            self.marks.stop(end_ns)

    def location(self) -> tuple[int, str, int]:
        """Return line, text and begin of the statement that this thread runs; line -1 if there is none."""
        if self.span is None:
            return -1, "", 0
        if threading.get_ident() != self.marks.identity:
            # the statement that waits for this thread, or that started it
            line = self._elsewhere.setdefault(threading.get_ident(), self.marks.line)
            return line, self.text(line), 0
        line = self.marks.line
        return line, self.text(line), self.marks.since_ns

    def line_of(self, error: BaseException | None) -> int:
        """Return the innermost line of the cell in an error's traceback; the statement's line without one."""
        line, below = self.marks.line, None if error is None else error.__traceback__
        while below is not None:
            if self._file and below.tb_frame.f_code.co_filename == self._file:
                line = below.tb_lineno
            below = below.tb_next
        return line

    def text(self, line: int) -> str:
        """Return the source of a line of the cell."""
        if self._lines is None:
            self._lines = [text.strip() for text in text_lines(self._source.lstrip())]
        return self._lines[line - 1] if 0 < line <= len(self._lines) else ""

    def put(self, builder: TraceBuilder, window: StepWindow, recorded: Sequence[StepRecords]) -> None:
        """Add the account of the cell and its statements. Does nothing for code that is not a cell."""
        if self.span is None or not self.span[1]:
            return
        ran = self.marks.statements()
        columns = pd.DataFrame({"ts": ran.ts, "dur": ran.end - ran.ts, "line": ran.line})
        builder.table("statements", columns[ran.line > 0].reset_index(drop=True))
        if (watched := self.marks.function_lines()) is not None:
            names = {**builder.metadata.get(OTHER_CELLS, {}), self._file: "cell"}
            builder.table("line_runs", watched.table(names, self._file))
        marks = self.marks.table()
        begin = int(marks[0][0]) if len(marks[0]) else self.span[0]
        steps: Sequence[StepRecords] = [] if window.source is None else recorded
        runs: Sequence[Run] = [] if window.source is None else window.runs
        span = begin, max(begin, self.span[1])
        builder.table("account", account(span, marks, runs, steps, window.moves, self.text))


def account(
    span: tuple[int, int],
    marks: tuple[IntArray, IntArray],
    runs: Sequence[Run],
    recorded: Iterable[StepRecords],
    moves: Sequence[tuple[int, int]],
    text_of: Callable[[int], str],
) -> pd.DataFrame:
    """Divide a cell among its statements, its steps and the profiler's work."""
    # If several apply, the first of these wins: the profiler's work (`moves`), a recorded step, a loop of
    # steps (`runs`, for its unrecorded parts), a statement (`marks`: start and line).
    # Rows ``ts dur kind line text loop steps`` are ascending, without overlaps or gaps: ``dur`` sums to the
    # length of `span`. ``steps`` is the number of steps that end within the row.
    begin, end = span
    ts, line = marks
    open_end = _ends_of_given_up(runs, ts, end)
    run_ts = np.array([run.begin_ns for run in runs], np.int64)
    run_end = np.array([open_end.get(i, run.end_ns) for i, run in enumerate(runs)], np.int64)
    steps = [np.array([part.ts, part.dur, part.loop], np.int64) for part in recorded]
    step_ts, step_dur, step_loop = np.concatenate([np.empty((3, 0), np.int64), *steps], axis=1)
    order = np.argsort(step_ts, kind="stable")
    step_ts, step_end, step_loop = step_ts[order], (step_ts + step_dur)[order], step_loop[order]
    move_ts, move_end = union(*(np.array([move[i] for move in moves], np.int64) for i in range(2)))
    edges = np.concatenate([[begin, end], ts, run_ts, run_end, step_ts, step_end, move_ts, move_end])
    cuts = np.unique(np.clip(edges, begin, max(begin, end)))
    starts = cuts[:-1]
    row = np.searchsorted(ts, starts, side="right") - 1
    at_line = np.where(row >= 0, np.append(line, _NO_LINE)[row], _NO_LINE)
    kind = np.where(at_line > 0, _CODE, np.where(at_line <= SHOWING, _DISPLAY, _UNKNOWN))
    loop = np.full(len(starts), -1, np.int64)
    of_run = np.array([run.loop for run in runs], np.int64)
    for word, lower, upper, number in (
        (_OUTSIDE, run_ts, run_end, of_run),
        (_STEPS, step_ts, step_end, step_loop),
    ):
        at = containing((lower, upper), starts)
        inside = at >= 0
        kind[inside], loop[inside] = word, number[at[inside]]
    moving = contains((move_ts, move_end), starts)
    kind[moving], loop[moving] = _PROFILER, -1
    heads = {run.loop: (run.line, run.text) for run in reversed(runs)}
    at_line[moving] = _NO_LINE
    for number_of_loop, (where, _) in heads.items():
        at_line[loop == number_of_loop] = where
    return _rows(cuts, kind, at_line, loop, _endings(runs, step_end), heads, text_of)


def _ends_of_given_up(runs: Sequence[Run], ts: IntArray, end: int) -> dict[int, int]:
    """Return the ends of runs that continued without ticks: where the next statement or run starts."""
    ends = {}
    for i, run in enumerate(runs):
        if run.given_up:
            after = int(np.searchsorted(ts, run.end_ns, side="right"))
            ends[i] = max(run.end_ns, int(ts[after]) if after < len(ts) else end)
            if i + 1 < len(runs):
                ends[i] = min(ends[i], runs[i + 1].begin_ns)
    return ends


def _endings(runs: Sequence[Run], step_end: IntArray) -> tuple[IntArray, IntArray]:
    """Return the times at which steps ended, and how many ended at each."""
    quiet = [pair for run in runs for pair in run.unrecorded]
    when = np.concatenate([step_end, np.array([ns for ns, _ in quiet], np.int64)])
    count = np.concatenate([np.ones(len(step_end), np.int64), np.array([n for _, n in quiet], np.int64)])
    return when, count


def _rows(
    cuts: IntArray,
    kind: npt.NDArray[np.int64],
    line: IntArray,
    loop: IntArray,
    endings: tuple[IntArray, IntArray],
    heads: dict[int, tuple[int, str]],
    text_of: Callable[[int], str],
) -> pd.DataFrame:
    """Merge neighbouring intervals with the same kind, line and loop into rows."""
    changes = (np.diff(kind) != 0) | (np.diff(line) != 0) | (np.diff(loop) != 0)
    first = np.flatnonzero(np.append(True, changes))[: len(kind)]
    starts, ends = cuts[:-1][first], np.append(cuts[:-1][first[1:]], cuts[-1:])[: len(first)]
    kind, line, loop = kind[first], line[first], loop[first]
    when, count = endings
    row = np.clip(np.searchsorted(starts, when, side="left") - 1, 0, max(len(starts) - 1, 0))
    steps = np.bincount(row, count, minlength=len(starts))[: len(starts)] if len(starts) else np.empty(0)
    texts = UNWRITTEN | {number: text_of(number) for number in np.unique(line).tolist() if number > 0}
    text = [
        heads[number][1] if number >= 0 else texts.get(where, "")
        for number, where in zip(loop.tolist(), line.tolist(), strict=True)
    ]
    moving = (kind == _PROFILER).tolist()
    text = [_TEXT_MOVES if moves else words for moves, words in zip(moving, text, strict=True)]
    return pd.DataFrame(
        {
            "ts": starts,
            "dur": ends - starts,
            "kind": [KINDS[i] for i in kind.tolist()],
            "line": np.where(line > 0, line, _NO_LINE),
            "text": text,
            "loop": loop,
            "steps": steps.astype(np.int64),
        }
    )
