"""The cell's statements, whose times are exact, with the samples nested below them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ...trace.arrays import IntArray
from .frames import Stacks
from .sample_spans import NEVER, SampleSpans

_FILLED_INTERVALS: Final = 2.0
"""For at most this many intervals at a statement's edge, a sample of the neighbouring statement is
replaced."""


class Rows(NamedTuple):
    """Statements of one thread, ascending, without overlap."""

    ts: IntArray  # absolute ns, shape (n,)
    end: IntArray
    line: IntArray  # first line of each


def hang(
    spans: SampleSpans, stacks: Stacks, root_line: IntArray, rows: Rows, interval_ns: int
) -> tuple[SampleSpans, Stacks]:
    """Cut samples where statements begin and end, and remove the statement's own line from their stacks."""
    # A sample may come up to an interval after the statement began, so a piece at a statement's edge may
    # still show another statement. It then gets the stack of the statement's own next, or last, sample. If a
    # longer piece shows a statement other than the one that ran, only the statement is known. `root_line` is
    # the cell's line at the root of each stack, or -1; the last stack is empty.
    cuts = np.unique(np.concatenate([spans.begin, spans.end, rows.ts, rows.end]))
    begin, end = cuts[:-1], cuts[1:]
    home = np.searchsorted(spans.begin, begin, side="right") - 1
    sampled = (home >= 0) & (begin < spans.end[home])
    begin, end, home = begin[sampled], end[sampled], home[sampled]
    statement = np.searchsorted(rows.ts, begin, side="right") - 1
    inside = (statement >= 0) & (begin < rows.end[statement])
    statement = np.where(inside, statement, -1)

    n = len(stacks.lengths)
    line = rows.line[statement]
    source = spans.stack[home]
    agrees = inside & (_statement_of(root_line, np.unique(rows.line))[source] == line)
    for neighbour in (1, -1):
        other = np.clip(np.arange(len(source)) + neighbour, 0, max(len(source) - 1, 0))
        short = end - begin <= _FILLED_INTERVALS * interval_ns
        fill = inside & ~agrees & agrees[other] & (statement[other] == statement) & short
        source = np.where(fill, source[other], source)
        agrees = agrees | fill
    below = np.where(root_line[source] == line, source + n, source)  # n further: without its root
    # outside of statements IPython runs: it shows the result, or formats a traceback
    stack = np.where(inside & agrees, below, n - 1)
    breaks = np.where(np.diff(home, prepend=-1) != 0, spans.breaks[home], NEVER)
    breaks = np.where(np.diff(statement, prepend=-2) != 0, 0, breaks)
    return SampleSpans(begin, end, stack, breaks), _and_without_roots(stacks)


def _statement_of(line: IntArray, first_lines: IntArray) -> IntArray:
    """Return the first line of the statement that contains each line; -1 if none does."""
    at = np.searchsorted(first_lines, line, side="right") - 1
    return np.asarray(np.where((at >= 0) & (line >= 0), first_lines[at], -1), dtype=np.int64)


def _and_without_roots(stacks: Stacks) -> Stacks:
    """Return the stacks, followed by the same stacks without their outermost frames."""
    inner = np.ones(len(stacks.frames), bool)
    inner[stacks.offsets[stacks.lengths > 0]] = False
    return Stacks(
        np.concatenate([stacks.frames, stacks.frames[inner]]),
        np.concatenate([stacks.lengths, np.maximum(stacks.lengths - 1, 0)]),
        stacks.distinct,
    )
