"""Sampled stacks under timed lines: at every instant the lines that ran, whatever the samples missed."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof.collectors.line_monitor import LINE, RETURN, START
from notebook_prof.collectors.line_runs import StatementLines, WatchedCode, line_runs
from notebook_prof.collectors.python.frames import LIBRARY, USER, PackedStacks, PythonFrame
from notebook_prof.collectors.python.overlay import Overlaid, overlay

from ..draws import draws

CODES = [WatchedCode(f"f{n}", "model.py", 10 * n, False, frozenset()) for n in range(4)]
OPERATIONS = st.tuples(
    st.sampled_from(["line", "call", "library", "return"]), st.integers(0, 3), st.integers(1, 9)
)


class Program(NamedTuple):
    """What a thread ran: the whole stack from each instant on, and what the interpreter told of it."""

    ts: list[int]
    stacks: list[tuple[PythonFrame, ...]]
    events: array[int]
    end: int

    def at(self, t: int) -> tuple[PythonFrame, ...]:
        return self.stacks[int(np.searchsorted(self.ts, t, side="right")) - 1]


def program(operations: list[tuple[str, int, int]]) -> Program:
    """Run random operations on a stack; watched functions tell of their lines."""
    t, stack, codes = 10, [], []
    ts, stacks, events = [0], [()], array("q")
    for operation, number, dur in operations:
        if operation == "line" and stack and codes[-1] >= 0:
            stack[-1] = stack[-1]._replace(line=10 * codes[-1] + number)
            events.extend((t, codes[-1], stack[-1].line, LINE))
        elif operation == "call":
            stack.append(PythonFrame(f"f{number}", "model.py", 10 * number, 10 * number, USER))
            codes.append(number)
            events.extend((t, number, 0, START, t, number, 10 * number, LINE))
        elif operation == "library":
            stack.append(PythonFrame(f"lib{number}", "lib.py", 1 + number, 1, LIBRARY))
            codes.append(-1)
        elif operation == "return" and stack:
            stack.pop()
            if (code := codes.pop()) >= 0:
                events.extend((t, code, 0, RETURN))
        ts.append(t)
        stacks.append(tuple(stack))
        t += dur
    return Program(ts, stacks, events, t)


def overlaid(ran: Program, interval: int, look_at: Callable[[int], tuple[PythonFrame, ...]]) -> Overlaid:
    """Look each interval, and overlay what was seen with the lines as they ran."""
    bounds = np.arange(5, ran.end + interval, interval)
    looks = [look_at(int(at) - 1) for at in bounds[1:]]
    distinct = list(dict.fromkeys(frame for look in looks for frame in look))
    numbers = {look: n for n, look in enumerate(dict.fromkeys(looks))}
    flat = [distinct.index(frame) for look in numbers for frame in look]
    stacks = PackedStacks(
        np.array(flat, np.int64), np.array([len(look) for look in numbers], np.int64), distinct
    )
    runs = line_runs(ran.events, ran.end, [StatementLines({}, frozenset())] * len(CODES))
    return overlay(bounds, np.array([numbers[look] for look in looks], np.int64), stacks, runs, CODES)


def frames_of(result: Overlaid, piece: int) -> tuple[PythonFrame, ...]:
    number = int(result.stack[piece])
    if number < 0:
        return ()
    begin = int(result.stacks.offsets[number])
    flat = result.stacks.frames[begin : begin + int(result.stacks.lengths[number])]
    return tuple(result.stacks.distinct[frame] for frame in flat.tolist())


def watched(stack: tuple[PythonFrame, ...]) -> tuple[PythonFrame, ...]:
    return tuple(frame for frame in stack if frame.owner == USER)


@settings(max_examples=draws(300))
@given(st.lists(OPERATIONS, min_size=1, max_size=60), st.integers(3, 40))
def test_each_piece_shows_the_lines_that_ran_in_it(
    operations: list[tuple[str, int, int]], interval: int
) -> None:
    ran = program(operations)
    result = overlaid(ran, interval, ran.at)
    looks = np.arange(5, ran.end + interval, interval)[1:] - 1
    for piece in range(len(result.stack)):
        begin, end = int(result.bounds[piece]), int(result.bounds[piece + 1])
        stack = frames_of(result, piece)
        for t in range(begin, min(end, ran.end)):
            assert watched(stack) == watched(ran.at(t))
        for t in looks[(looks >= begin) & (looks < end) & (looks < ran.end)].tolist():
            assert stack == ran.at(t), "what was seen at an instant is what ran then, libraries too"


@settings(max_examples=draws(100))
@given(st.lists(OPERATIONS, min_size=1, max_size=60), st.integers(3, 40))
def test_lines_are_right_where_samples_saw_nothing(
    operations: list[tuple[str, int, int]], interval: int
) -> None:
    ran = program(operations)
    result = overlaid(ran, interval, lambda _: ())
    for piece in range(len(result.stack)):
        for t in range(int(result.bounds[piece]), min(int(result.bounds[piece + 1]), ran.end)):
            assert frames_of(result, piece) == watched(ran.at(t))


@settings(max_examples=draws(100))
@given(st.lists(OPERATIONS, min_size=1, max_size=60), st.integers(3, 40))
def test_each_run_of_a_line_begins_anew(operations: list[tuple[str, int, int]], interval: int) -> None:
    ran = program(operations)
    result = overlaid(ran, interval, ran.at)
    runs = line_runs(ran.events, ran.end, [StatementLines({}, frozenset())] * len(CODES))
    for begin, end, code, line in zip(runs.begin, runs.end, runs.code, runs.line, strict=True):
        if end > begin:
            piece = int(np.searchsorted(result.bounds, begin))
            assert result.fixed[piece]
            stack, position = frames_of(result, piece), int(result.begins[piece])
            assert position >= 0
            assert any((frame.function, frame.line) == (f"f{code}", line) for frame in stack[position:])
