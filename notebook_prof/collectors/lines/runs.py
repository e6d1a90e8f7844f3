"""From events of lines and frames to the runs of lines, each with begin, end and what it ran for."""

from __future__ import annotations

import ast
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...trace.arrays import IntArray
from ...trace.strings import readable
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
    path : ndarray of int64, shape (n,)
        Position in `paths`.
    paths : list of (int, int, int)
        Distinct ways to a line: that of the line which calls it or -1, number of the code, and line; callers
        come first.
    """

    begin: IntArray
    end: IntArray
    code: IntArray
    line: IntArray
    parent: IntArray
    path: IntArray
    paths: list[tuple[int, int, int]]

    def within(self, begin_ns: int, end_ns: int) -> LineRuns:
        """Return the same runs, cut at the edges of a window; those outside have no length."""
        return self._replace(
            begin=np.clip(self.begin, begin_ns, end_ns), end=np.clip(self.end, begin_ns, end_ns)
        )

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


class StatementLines(NamedTuple):
    """Where the statements of a file begin.

    Attributes
    ----------
    first : dict of int to int
        First line of the innermost statement around each line; of a compound one, its head's.
    heads : frozenset of int
        Lines that hold nothing but the head of a loop: its body runs between two runs of it.
    """

    first: dict[int, int]
    heads: frozenset[int]


def statement_lines(source: str) -> StatementLines:
    """Return where the statements of a file begin; nothing where it cannot be read.

    Examples
    --------
    >>> statement_lines("x = f(\\n    1,\\n)\\nfor i in x:\\n    g(i)\\n")
    StatementLines(first={1: 1, 2: 1, 3: 1, 4: 4, 5: 5}, heads=frozenset({4}))
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return StatementLines({}, frozenset())
    first: dict[int, int] = {}
    heads = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
            for line in range(node.lineno, max(last, node.lineno) + 1):
                first[line] = max(first.get(line, 0), node.lineno)
            if isinstance(node, ast.For | ast.AsyncFor | ast.While) and last >= node.lineno:
                heads.add(node.lineno)
    return StatementLines(first, frozenset(heads))


@dataclass(slots=True)
class _Frames:
    """The frames that are open, innermost last, and the columns of runs."""

    code: list[int] = field(default_factory=list)
    run: list[int] = field(default_factory=list)
    left: dict[int, int] = field(default_factory=dict)
    columns: tuple[list[int], ...] = field(default_factory=lambda: ([], [], [], [], [], []))
    paths: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def open(self, t: int, line: int) -> None:
        parent = next((run for run in reversed(self.run[:-1]) if run >= 0), -1)
        self.run[-1] = len(self.columns[0])
        way = self.columns[5][parent] if parent >= 0 else -1, self.code[-1], line
        path = self.paths.setdefault(way, len(self.paths))
        for column, value in zip(self.columns, (t, t, self.code[-1], line, parent, path), strict=True):
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


def line_runs(events: array[int], end_ns: int, statements: Sequence[StatementLines]) -> LineRuns:
    """Put together what the events of one thread tell.

    Parameters
    ----------
    events : array of int
        As `LineMonitor.threads` has them.
    end_ns : int
        When the watching ended; what is open then ends then.
    statements : sequence of StatementLines
        By the number of a code. A further line of a statement that runs begins nothing, nor does the head of
        a loop again: what lets a loop tick leaves there too.

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
            first = statements[code].first.get(line, line)
            again = first != line or line in statements[code].heads
            if again and run >= 0 and frames.columns[3][run] == first:
                continue
            frames.close(t)
            frames.open(t, first)
            continue
        if kind == YIELD and run >= 0:
            frames.left[code] = frames.columns[3][run]
        frames.pop(t)
    while frames.code:
        frames.pop(end_ns)
    begin, end, code_of, line_of, parent, path = (np.array(column, np.int64) for column in frames.columns)
    return LineRuns(begin, end, code_of, line_of, parent, path, list(frames.paths))


class WatchedCode(NamedTuple):
    """A function, or a module's own code, whose lines were watched.

    Attributes
    ----------
    function, file : str
    first_line : int
    off : bool
        Whether its lines came too quickly: only samples tell of them.
    lines_off : frozenset of int
        Lines of loops in it whose lines came too quickly.
    """

    function: str
    file: str
    first_line: int
    off: bool
    lines_off: frozenset[int]


class FunctionLines(NamedTuple):
    """Runs of lines of the user's, as the interpreter told of them.

    Attributes
    ----------
    threads : dict of int to LineRuns
        By native thread id.
    codes : list of WatchedCode
        By the number of a code.
    """

    threads: dict[int, LineRuns]
    codes: list[WatchedCode]

    def table(self, names: Mapping[str, str], cell_file: str) -> pd.DataFrame:
        """Return the runs that were timed: ``ts``, ``dur``, ``line`` and ``file``.

        Parameters
        ----------
        names : mapping of str to str
            What files of cells are called; others keep their path.
        cell_file : str
            File of the recorded cell. Statements outside of its functions are left out: they are timed by
            marks, whose own events among them would count as runs.
        """
        nothing = np.empty(0, np.int64)
        runs = [*self.threads.values(), LineRuns(nothing, nothing, nothing, nothing, nothing, nothing, [])]
        begin = np.concatenate([thread.begin for thread in runs])
        end = np.concatenate([thread.end for thread in runs])
        line = np.concatenate([thread.line for thread in runs])
        code = np.concatenate([thread.code for thread in runs])
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


def function_lines(monitor: LineMonitor, end_ns: int) -> FunctionLines:
    """Return the runs of lines that a monitor has seen.

    Parameters
    ----------
    monitor : LineMonitor
        Stopped.
    end_ns : int
        When the cell ended.
    """
    files = [code.co_filename for code in monitor.codes]
    statements_of = {file: statement_lines(monitor.text(file)) for file in set(files)}
    statements = [statements_of[file] for file in files]
    threads = {thread: line_runs(events, end_ns, statements) for thread, events in monitor.threads.items()}
    lines_off: dict[int, set[int]] = {}
    for number, line in monitor.lines():
        if (region := monitor.region(number, line)) in monitor.off and region[1]:
            lines_off.setdefault(number, set()).add(line)
    codes = [
        WatchedCode(
            readable(getattr(code, "co_qualname", code.co_name)),
            readable(code.co_filename),
            code.co_firstlineno,
            (number, 0) in monitor.off,
            frozenset(lines_off.get(number, ())),
        )
        for number, code in enumerate(monitor.codes)
    ]
    return FunctionLines(threads, codes)
