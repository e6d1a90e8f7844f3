"""From events of lines and frames to the runs of lines, each with begin, end and what it ran for."""

from __future__ import annotations

import ast
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...trace.arrays import IntArray
from .monitor import LINE, RESUME, START, YIELD, LineMonitor


class LineRuns(NamedTuple):
    """Runs of lines of one thread, by begin.

    Attributes
    ----------
    begin, end : ndarray of int64, shape (n,)
        Absolute ns.
    code, line : ndarray of int64, shape (n,)
        Number of the code object, and the first line of the statement.
    parent : ndarray of int64, shape (n,)
        The run that called this one; -1 for none.
    """

    begin: IntArray
    end: IntArray
    code: IntArray
    line: IntArray
    parent: IntArray

    def self_ns(self) -> IntArray:
        """Return how long each ran without what it called."""
        took = self.end - self.begin
        called = self.parent >= 0
        inside = np.bincount(self.parent[called], took[called], minlength=len(took)).astype(np.int64)
        return np.asarray(took - inside, np.int64)

    def outermost(self) -> IntArray:
        """Return the runs that no run of their own line calls: recursion counts once."""
        nested = np.zeros(len(self.begin), bool)
        rows, up = np.arange(len(self.begin)), self.parent.copy()
        while len(rows := rows[up[rows] >= 0]):
            same = (self.code[up[rows]] == self.code[rows]) & (self.line[up[rows]] == self.line[rows])
            nested[rows[same]] = True
            rows = rows[~same]
            up[rows] = self.parent[up[rows]]
        return np.flatnonzero(~nested)


def statement_lines(source: str) -> dict[int, int]:
    """Return the first line of the innermost statement around each line; of a compound one, its head's.

    Examples
    --------
    >>> statement_lines("x = f(\\n    1,\\n)\\nfor i in x:\\n    g(i)\\n")
    {1: 1, 2: 1, 3: 1, 4: 4, 5: 5}
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    first: dict[int, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
            for line in range(node.lineno, max(last, node.lineno) + 1):
                first[line] = max(first.get(line, 0), node.lineno)
    return first


@dataclass(slots=True)
class _Frames:
    """The frames that are open, innermost last, and the columns of runs."""

    code: list[int] = field(default_factory=list)
    run: list[int] = field(default_factory=list)
    left: dict[int, int] = field(default_factory=dict)
    columns: tuple[list[int], ...] = field(default_factory=lambda: ([], [], [], [], []))

    def open(self, t: int, line: int) -> None:
        parent = next((run for run in reversed(self.run[:-1]) if run >= 0), -1)
        self.run[-1] = len(self.columns[0])
        for column, value in zip(self.columns, (t, t, self.code[-1], line, parent), strict=True):
            column.append(value)

    def close(self, t: int) -> None:
        if self.run[-1] >= 0:
            self.columns[1][self.run[-1]] = t
            self.run[-1] = -1

    def push(self, code: int) -> None:
        self.code.append(code)
        self.run.append(-1)

    def pop(self, t: int) -> None:
        self.close(t)
        self.code.pop()
        self.run.pop()

    def unwind_to(self, t: int, code: int) -> bool:
        """Close what stands above the innermost frame of a code; return whether there is one."""
        if code not in self.code:
            return False
        while self.code[-1] != code:
            self.pop(t)
        return True


def line_runs(events: array[int], end_ns: int, first_line: Mapping[int, int]) -> LineRuns:
    """Put together what the events of one thread tell.

    Parameters
    ----------
    events : array of int
        As `LineMonitor.threads` has them.
    end_ns : int
        When the watching ended; what is open then ends then.
    first_line : mapping of int to int
        First line of the statement of each line; a further line of a statement that runs begins nothing.

    Returns
    -------
    LineRuns

    Notes
    -----
    A line ends when its own frame begins the next, returns, yields or is unwound. After a ``yield`` the frame
    goes on with the line at which it left. The loop is over events: the monitor keeps 500,000 at most.
    """
    frames = _Frames()
    for i in range(0, len(events), 4):
        t, code, line, kind = events[i : i + 4]
        if kind in (START, RESUME):
            frames.push(code)
            if kind == RESUME and code in frames.left:
                frames.open(t, frames.left[code])
            continue
        if not frames.unwind_to(t, code):
            if kind != LINE:
                continue
            frames.push(code)  # it ran before the watching began
        run = frames.run[-1]
        if kind == LINE:
            first = first_line.get(line, line)
            if run >= 0 and first != line and frames.columns[3][run] == first:
                continue
            frames.close(t)
            frames.open(t, first)
            continue
        if kind == YIELD and run >= 0:
            frames.left[code] = frames.columns[3][run]
        frames.pop(t)
    while frames.code:
        frames.pop(end_ns)
    return LineRuns(*(np.array(column, np.int64) for column in frames.columns))


class FunctionLines(NamedTuple):
    """Runs of lines in functions of one file, by thread; each was timed.

    Attributes
    ----------
    file : str
    threads : dict of int to TimedLines
        By native thread id.
    """

    file: str
    threads: dict[int, TimedLines]

    def table(self) -> pd.DataFrame:
        """Return all runs: ``ts``, ``dur`` and ``line``."""
        timed = list(self.threads.values())
        begin, end, line = (
            np.concatenate([np.empty(0, np.int64), *columns])
            for columns in ([t.begin for t in timed], [t.end for t in timed], [t.line for t in timed])
        )
        return pd.DataFrame({"ts": begin, "dur": end - begin, "line": line})


class TimedLines(NamedTuple):
    """Runs of lines: begin and end in absolute ns, the line, and the function that it stands in."""

    begin: IntArray
    end: IntArray
    line: IntArray
    function: list[str]
    code: IntArray


def function_lines(monitor: LineMonitor, end_ns: int) -> FunctionLines:
    """Return the runs of lines in functions, without those in regions that went off.

    Parameters
    ----------
    monitor : LineMonitor
        Stopped.
    end_ns : int
        When the cell ended.
    """
    first_line = statement_lines(monitor.source)
    names = [code.co_name for code in monitor.codes]
    threads = {}
    for thread, events in monitor.threads.items():
        runs = line_runs(events, end_ns, first_line)
        pairs, pair = np.unique(np.stack([runs.code, runs.line]), axis=1, return_inverse=True)
        timed = [
            names[code] != "<module>" and monitor.region(code, line) not in monitor.off
            for code, line in pairs.T.tolist()
        ]
        kept = np.array(timed, bool)[pair.ravel()]
        if kept.any():
            threads[thread] = TimedLines(
                runs.begin[kept], runs.end[kept], runs.line[kept], names, runs.code[kept]
            )
    return FunctionLines(monitor.file, threads)
