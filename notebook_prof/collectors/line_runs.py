"""Turns events of lines and frames into runs of lines, which have a begin, an end and a caller."""

from __future__ import annotations

import ast
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..trace.arrays import IntArray
from ..trace.strings import readable
from .line_monitor import LINE, RESUME, START, YIELD, LineMonitor, nodes_of
from .line_sources import Home, Place, Sources


class LineRuns(NamedTuple):
    """The runs of lines in one thread, sorted by begin. Arrays of shape (n,)."""

    begin: IntArray  # absolute ns
    end: IntArray
    code: IntArray  # number of the code object
    line: IntArray  # first line of the statement
    parent: IntArray  # the run that called this one; -1 for none
    path: IntArray  # position in `paths`
    # distinct paths to a line: the path of the calling line or -1, the number of the code, and the line;
    # callers come first
    paths: list[tuple[int, int, int]]

    def within(self, begin_ns: int, end_ns: int) -> LineRuns:
        """Return the same runs, cut at the edges of a window. Runs outside have no length."""
        return self._replace(
            begin=np.clip(self.begin, begin_ns, end_ns), end=np.clip(self.end, begin_ns, end_ns)
        )


class StatementLines(NamedTuple):
    """The lines at which the statements of a file begin."""

    # by line, the first line of the innermost statement that contains it; for a compound statement, only its
    # head counts
    first: dict[int, int]
    # lines that contain only the head of a loop, whose body runs between two runs of the head
    heads: frozenset[int]


def statement_lines(source: str) -> StatementLines:
    """Return the lines at which the statements of a file begin; empty if it cannot be parsed."""
    first: dict[int, int] = {}
    heads = set()
    for node in nodes_of(source):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
            for line in range(node.lineno, max(last, node.lineno) + 1):
                first[line] = max(first.get(line, 0), node.lineno)
            if isinstance(node, ast.For | ast.AsyncFor | ast.While) and last >= node.lineno:
                heads.add(node.lineno)
    return StatementLines(first, frozenset(heads))


@dataclass(slots=True)
class _Frame:
    code: int
    run: int = -1  # its running line; -1 for none


def line_runs(events: array[int], end_ns: int, statements: Sequence[StatementLines]) -> LineRuns:
    """Build the runs of lines from the events of one thread. Runs still open at `end_ns` end there."""
    # A line ends when its frame begins the next line, returns, yields or is unwound. After a ``yield``, the
    # frame continues with the line at which it left. Another line of a running statement begins no new run,
    # nor does a return to the head of a loop, including our code there that counts iterations. The Python
    # loop below is over events, of which the monitor keeps at most 500,000.
    runs: list[list[int]] = []  # the columns of `LineRuns`
    paths: dict[tuple[int, int, int], int] = {}
    frames: list[_Frame] = []  # the open ones, innermost last
    left: dict[int, int] = {}  # line at which each code yielded

    def begin(t: int, line: int) -> None:
        frame, parent = frames[-1], next((one.run for one in frames[-2::-1] if one.run >= 0), -1)
        way = runs[parent][5] if parent >= 0 else -1, frame.code, line
        frame.run = len(runs)
        runs.append([t, t, frame.code, line, parent, paths.setdefault(way, len(paths))])

    for i in range(0, len(events), 4):
        t, code, line, kind = events[i : i + 4]
        if kind in (START, RESUME):
            frames.append(_Frame(code))
            if kind == RESUME and code in left:
                begin(t, left[code])
            continue
        if any(frame.code == code for frame in reversed(frames)):
            while frames[-1].code != code:
                _end(runs, frames.pop(), t)
        elif kind == LINE:
            frames.append(_Frame(code))  # its frame began before the recording
        else:
            continue
        frame = frames[-1]
        if kind == LINE:
            first = statements[code].first.get(line, line)
            again = first != line or line in statements[code].heads
            if not (again and frame.run >= 0 and runs[frame.run][3] == first):
                _end(runs, frame, t)
                begin(t, first)
            continue
        if kind == YIELD and frame.run >= 0:
            left[code] = runs[frame.run][3]
        _end(runs, frames.pop(), t)
    for frame in frames:
        _end(runs, frame, end_ns)
    begins, ends, codes, lines, parents, path = np.array(runs, np.int64).reshape(-1, 6).T.copy()
    return LineRuns(begins, ends, codes, lines, parents, path, list(paths))


def _end(runs: list[list[int]], frame: _Frame, t: int) -> None:
    if frame.run >= 0:
        runs[frame.run][1] = t


class WatchedCode(NamedTuple):
    """A function, or a module's top-level code, with timed lines."""

    function: str
    file: str
    first_line: int
    # its events were too frequent, so only samples show its lines
    off: bool
    # lines of its loops that were switched off for the same reason
    lines_off: frozenset[int]


class FunctionLines(NamedTuple):
    """Runs of the user's lines, computed from the interpreter's events."""

    # by native thread id
    threads: dict[int, LineRuns]
    # by number of the code
    codes: list[WatchedCode]

    def table(self, names: Mapping[str, str], cell_file: str) -> pd.DataFrame:
        """Return the timed runs: ``ts``, ``dur``, ``line`` and ``file``. `names` has cells' names by file."""
        # The recorded cell's statements outside functions are left out, since marks time them, and events of
        # the marks would count as runs.
        runs = [np.stack([one.begin, one.end, one.line, one.code]) for one in self.threads.values()]
        begin, end, line, code = np.concatenate([np.empty((4, 0), np.int64), *runs], axis=1)
        lines, pair = np.unique(np.stack([code, line]), axis=1, return_inverse=True)
        watched = [(self.codes[number], at) for number, at in lines.T.tolist()]
        is_timed = np.array([
            not one.off
            and at not in one.lines_off
            and not (one.function == "<module>" and one.file == cell_file)
            for one, at in watched
        ], bool)[pair.ravel()]  # fmt: skip
        files = pd.Categorical([names.get(one.file, one.file) for one, _ in watched])
        file = pd.Categorical.from_codes(files.codes[pair.ravel()], files.categories)
        table = pd.DataFrame({"ts": begin, "dur": end - begin, "line": line, "file": file})
        return table[is_timed].reset_index(drop=True)


def function_lines(monitor: LineMonitor, end_ns: int, sources: Sources) -> FunctionLines:
    """Return the runs of lines that a stopped monitor recorded, up to the cell's end."""
    files = {code.co_filename for code in monitor.codes}
    statements_of = {file: statement_lines("".join(sources.lines(file))) for file in files}
    unknown = StatementLines({}, frozenset())
    statements = [
        unknown if sources.is_lost(code) else statements_of[code.co_filename] for code in monitor.codes
    ]
    homes = {n: home for n, code in enumerate(monitor.codes) if (home := sources.home(code)) is not None}
    threads = {
        thread: line_runs(_placed(events, homes), end_ns, statements)
        for thread, events in monitor.threads.items()
    }
    lines_off: dict[int, set[int]] = {}
    for (number, line), region in monitor.regions.items():
        if region in monitor.off and region[1]:
            place = homes[number].place(line) if number in homes else None
            lines_off.setdefault(number, set()).add(place.line if place is not None else line)
    codes = []
    for number, code in enumerate(monitor.codes):
        place = Place(getattr(code, "co_qualname", code.co_name), code.co_firstlineno, code.co_firstlineno)
        if number in homes:
            place = homes[number].place(code.co_firstlineno)
        codes.append(
            WatchedCode(
                readable(place.function),
                readable(code.co_filename),
                place.first_line,
                (number, 0) in monitor.off,
                frozenset(lines_off.get(number, ())),
            )
        )
    return FunctionLines(threads, codes)


def _placed(events: array[int], homes: Mapping[int, Home]) -> array[int]:
    """Return events with current line numbers, for code that has moved in its file."""
    rows = np.array(events, np.int64).reshape(-1, 4)
    moved = np.flatnonzero(np.isin(rows[:, 1], list(homes)) & (rows[:, 3] == LINE))
    if not len(moved):
        return events
    pairs, pair = np.unique(rows[moved, 1:3], axis=0, return_inverse=True)
    lines = [homes[code].place(line).line for code, line in pairs.tolist()]
    rows[moved, 2] = np.array(lines, np.int64)[pair.ravel()]
    return array("q", rows.ravel().tolist())
