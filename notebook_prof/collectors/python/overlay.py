"""Refines sampled stacks with timed runs of lines, which are known between samples too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import containing
from ..line_runs import LineRuns, WatchedCode
from ..statements import SHOWING, Statements
from .frames import PackedStacks, PythonFrame, owner_of
from .snapping import NEVER, SampleSpans

# First the cell's statements, whose times are exact: samples are nested below them.

_FILLED_INTERVALS: Final = 2.0
"""Longest piece at a statement's edge, in intervals, for which the neighbouring statement's sample is
replaced."""


def hang(
    spans: SampleSpans,
    stacks: PackedStacks,
    roots: tuple[IntArray, BoolArray],
    rows: Statements,
    interval_ns: int,
) -> tuple[SampleSpans, PackedStacks]:
    """Cut samples where statements begin and end, and remove the statement's line from their stacks."""
    # A sample may be taken up to an interval after the statement began, so a piece at a statement's edge may
    # still show another statement. Then it gets the stack of the right statement's next or previous sample.
    # If a longer piece shows another statement than the one that ran, nothing is known below the statement.
    # `roots` has the cell's line at the root of each stack, or -1, and whether another function of the user
    # is the root: a task that an ``await`` runs, or a stack that py-spy could not read to its end. After the
    # last statement every stack belongs to what IPython does then. The last stack is empty.
    root_line, of_user = roots
    cuts = np.unique(np.concatenate([spans.begin, spans.end, rows.ts, rows.end]))
    begin, end = cuts[:-1], cuts[1:]
    home = containing((spans.begin, spans.end), begin)
    sampled = home >= 0
    begin, end, home = begin[sampled], end[sampled], home[sampled]
    statement = containing((rows.ts, rows.end), begin)
    inside = statement >= 0

    n = len(stacks.lengths)
    line = rows.line[statement]
    source = spans.stack[home]
    agrees = inside & (_statement_of(root_line, np.unique(rows.line[rows.line > 0]))[source] == line)
    agrees |= inside & (of_user[source] | ((line <= SHOWING) & (stacks.lengths[source] > 0)))
    for neighbour in (1, -1):
        other = np.clip(np.arange(len(source)) + neighbour, 0, max(len(source) - 1, 0))
        short = end - begin <= _FILLED_INTERVALS * interval_ns
        fill = inside & ~agrees & agrees[other] & (statement[other] == statement) & short
        source = np.where(fill, source[other], source)
        agrees = agrees | fill
    without_root = (root_line[source] == line) | ((line <= SHOWING) & (root_line[source] >= 0))
    below = np.where(without_root, source + n, source)
    # outside of statements IPython runs, for example to format a traceback
    stack = np.where(inside & agrees, below, n - 1)
    breaks = np.where(np.diff(home, prepend=-1) != 0, spans.breaks[home], NEVER)
    breaks = np.where(np.diff(statement, prepend=-2) != 0, 0, breaks)
    return SampleSpans(begin, end, stack, breaks), _and_without_roots(stacks)


def _statement_of(line: IntArray, first_lines: IntArray) -> IntArray:
    """Return the first line of the statement that contains each line; -1 if none does."""
    at = np.searchsorted(first_lines, line, side="right") - 1
    return np.asarray(np.where((at >= 0) & (line >= 0), first_lines[at], -1), dtype=np.int64)


def _and_without_roots(stacks: PackedStacks) -> PackedStacks:
    """Return the stacks, followed by the same stacks without the outermost frame."""
    inner = np.ones(len(stacks.frames), bool)
    inner[stacks.offsets[stacks.lengths > 0]] = False
    return PackedStacks(
        np.concatenate([stacks.frames, stacks.frames[inner]]),
        np.concatenate([stacks.lengths, np.maximum(stacks.lengths - 1, 0)]),
        stacks.distinct,
    )


_MODULE: Final = "<module>"

_Key = tuple[str, str, int]


class Overlaid(NamedTuple):
    """A thread's time, divided into pieces in which neither the sample nor the timed line changes."""

    bounds: IntArray  # ns, ascending, shape (n + 1,)
    stack: IntArray  # positions in `stacks`, shape (n,); -1 if unknown
    stacks: PackedStacks
    fixed: BoolArray  # whether a line began or ended at each bound, shape (n + 1,)
    # shape (n,): position in the stack of the frame whose line begins with the piece; -1 for none
    begins: IntArray


def overlay(
    bounds: IntArray, stack: IntArray, stacks: PackedStacks, runs: LineRuns, codes: Sequence[WatchedCode]
) -> Overlaid:
    """Cut samples where lines begin and end, and insert the lines that ran."""
    # A piece keeps the frames of its sample down to the innermost timed line on which both agree, followed by
    # the timed lines inside that one. If there are none, the sampled frames below are kept, up to a function
    # whose lines are timed but did not run.
    edges = np.unique(np.concatenate([runs.begin, runs.end]))
    cuts = np.unique(np.concatenate([edges, bounds]))
    begin = cuts[:-1]
    source = np.append(stack, -1)[containing((bounds[:-1], bounds[1:]), begin)]
    run = _innermost(runs, begin)
    path = np.where(run >= 0, runs.path[run], -1) if len(runs.path) else np.full(len(begin), -1, np.int64)
    width = len(runs.paths) + 1
    pairs, pair = np.unique((source + 1) * width + path + 1, return_inverse=True)
    merger = _Merger(stacks, runs, codes)
    merged = [merger.merged(number // width - 1, number % width - 1) for number in pairs.tolist()]
    new_stacks = merger.stacks()
    new_stack = np.array([number for number, _ in merged], np.int64)[pair.ravel()]
    first = _outermost_begun(runs, run, begin)
    level = (
        np.where(first >= 0, merger.level[runs.path[np.maximum(first, 0)]], -1) if len(runs.path) else first
    )
    most = max((len(positions) for _, positions in merged), default=0)
    table = np.full((len(pairs), most + 1), -1, np.int64)
    for row, (_, positions) in enumerate(merged):
        table[row, : len(positions)] = positions
    begins = table[pair.ravel(), np.where((level >= 0) & (level < most), level, most)]
    return Overlaid(cuts, new_stack, new_stacks, np.isin(cuts, edges), begins)


def _innermost(runs: LineRuns, ts: IntArray) -> IntArray:
    """Return the innermost run at each instant; -1 if none is open."""
    run = np.searchsorted(runs.begin, ts, side="right") - 1
    waiting = np.flatnonzero(run >= 0)
    while len(waiting := waiting[runs.end[run[waiting]] <= ts[waiting]]):
        run[waiting] = runs.parent[run[waiting]]
        waiting = waiting[run[waiting] >= 0]
    return np.asarray(run, np.int64)


def _outermost_begun(runs: LineRuns, run: IntArray, ts: IntArray) -> IntArray:
    """Return the outermost of each run and its callers that begins at the given instant; -1 for none."""
    result = np.full(len(ts), -1, np.int64)
    waiting = np.flatnonzero(run >= 0)
    up = run.copy()
    while len(waiting := waiting[runs.begin[up[waiting]] == ts[waiting]]):
        result[waiting] = up[waiting]
        up[waiting] = runs.parent[up[waiting]]
        waiting = waiting[up[waiting] >= 0]
    return result


class _Merger:
    """Merges sampled stacks with chains of timed lines, each distinct pair once."""

    def __init__(self, stacks: PackedStacks, runs: LineRuns, codes: Sequence[WatchedCode]) -> None:
        self._distinct = list(stacks.distinct)
        self._number = {frame: number for number, frame in enumerate(self._distinct)}
        offsets, lengths, frames = stacks.offsets.tolist(), stacks.lengths.tolist(), stacks.frames.tolist()
        self._sampled = [frames[at : at + size] for at, size in zip(offsets, lengths, strict=True)]
        self._codes = codes
        self._code_of = {_key(code.function, code.file, code.first_line): n for n, code in enumerate(codes)}
        self._ran = {code for _, code, _ in runs.paths}
        self._chains: list[list[tuple[int, int]]] = []
        for parent, code, line in runs.paths:  # parents come first
            above = self._chains[parent] if parent >= 0 else []
            self._chains.append(above if codes[code].off else [*above, (code, line)])
        self.level = np.array([len(chain) - 1 for chain in self._chains], np.int64)
        self._out: dict[tuple[int, ...], int] = {}

    def merged(self, sampled: int, path: int) -> tuple[int, list[int]]:
        """Return the number of a piece's stack (-1 for none), and the positions of timed lines in it."""
        stack = self._sampled[sampled] if sampled >= 0 else []
        chain = self._chains[path] if path >= 0 else []
        frames: list[int] = []
        positions: list[int] = []
        for number in stack:
            frame = self._distinct[number]
            code = self._code_of.get(_key(frame.function, frame.file, frame.first_line), -1)
            if len(positions) < len(chain) and self._same(code, chain[len(positions)][0]):
                number = self._with_line(frame, *chain[len(positions)])
                positions.append(len(frames))
            elif code in self._ran and not self._codes[code].off and self._codes[code].function != _MODULE:
                break  # its lines are timed, but none ran
            frames.append(number)
        if len(positions) < len(chain):
            del frames[positions[-1] + 1 if positions else 0 :]
            for code, line in chain[len(positions) :]:
                positions.append(len(frames))
                frames.append(self._with_line(None, code, line))
        if not frames:
            return -1, []
        return self._out.setdefault(tuple(frames), len(self._out)), positions

    def _same(self, code: int, other: int) -> bool:
        if code < 0 or code == other:
            return code == other
        one, two = self._codes[code], self._codes[other]
        return one.function == two.function == _MODULE and one.file == two.file

    def _with_line(self, frame: PythonFrame | None, code: int, line: int) -> int:
        """Return the number of a code's frame at a line or, in an untimed loop, at the sample's line."""
        watched = self._codes[code]
        if frame is None:
            first = 1 if watched.function == _MODULE else watched.first_line
            frame = PythonFrame(watched.function, watched.file, first, line, owner_of(watched.file))
        elif line not in watched.lines_off:
            frame = frame._replace(line=line)
        number = self._number.setdefault(frame, len(self._distinct))
        if number == len(self._distinct):
            self._distinct.append(frame)
        return number

    def stacks(self) -> PackedStacks:
        """Return the stacks with the numbers that `merged` returned."""
        lengths = np.array([len(frames) for frames in self._out], np.int64)
        flat = np.array([number for frames in self._out for number in frames], np.int64)
        return PackedStacks(flat, lengths, self._distinct)


def _key(function: str, file: str, first_line: int) -> _Key:
    return function, file, 0 if function == _MODULE else first_line
