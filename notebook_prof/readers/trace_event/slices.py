"""The slices of threads, from complete events, begins and ends, and instants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from ...errors import bounded_repr
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from ...trace.taxonomy import CATEGORIES, STEP_PREFIX, phase_of
from ..call_tree import Frame
from ..matching import match
from .arguments import Arguments
from .events import Events, Row, Tracks

FrameOf = Callable[[str], Frame | None]

CATEGORY_OF_WORD: Final = {
    "fee": "python",
    "python": "python",
    "python_function": "python",
    "py": "python",
    "javascript": "python",
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "cuda_runtime": "launch",
    "cuda_driver": "launch",
    "user_annotation": "annotation",
    "gpu_user_annotation": "annotation",
    "annotation": "annotation",
    "overhead": "overhead",
    "io": "io",
}
"""Our category for a writer's word. Any other word means an operator."""


class Placed(NamedTuple):
    """Slices of threads, in the file's order of the events that began them."""

    row: IntArray  # the event that began the slice
    ts: IntArray  # nanoseconds
    dur: IntArray
    track: IntArray
    handle: IntArray  # of `TraceBuilder.slices`


def add_slices(
    events: Events,
    tracks: Tracks,
    stacks: Mapping[str, int],
    arguments: Arguments,
    builder: TraceBuilder,
    frame_of: FrameOf | None = None,
) -> Placed:
    """Add complete events, begins and ends, and instants to `builder`."""
    # A begin without an end lasts until the end of the trace, and an end without a begin is ignored; both are
    # reported. If `frame_of` returns a function for a slice's name, the slice gets its label as name, and its
    # frame as stack.
    complete, marks = events.where("X"), events.where("BE")
    pairs = match(tracks.of(marks), _mark_names(events, marks), events.ts[marks], events.phase[marks] == "B")
    last = int((events.ts + np.maximum(events.dur, 0)).max(initial=0))
    _count_unmatched(events, marks[pairs.unclosed], marks[pairs.unopened], builder)
    instants = events.where("iIR")
    row = np.concatenate([complete, marks[pairs.begin], marks[pairs.unclosed], instants])
    dur = np.concatenate(
        [
            events.dur[complete],
            events.ts[marks[pairs.end]] - events.ts[marks[pairs.begin]],
            last - events.ts[marks[pairs.unclosed]],
            np.zeros(len(instants), np.int64),
        ]
    )
    shut = np.full(len(row), -1, np.int64)
    shut[len(complete) : len(complete) + len(pairs.end)] = marks[pairs.end]
    order = np.argsort(row, kind="stable")
    row, dur, shut = row[order], dur[order], shut[order]
    category = categories(events, row)
    category[np.isin(events.phase[row], list("iIR"))] = CATEGORIES.index("annotation")
    track = tracks.of(row)
    words, function_stack = _functions(events.name.values, frame_of, builder)
    name = Coded(events.name.codes[row], words)
    stack = _stack_keys([events.rows[i] for i in row.tolist()], stacks)
    handle = builder.slices(
        ts=events.ts[row],
        dur=dur,
        track=track,
        name=name,
        category=Coded(category, CATEGORIES),
        phase=_phases(events, row),
        stack=np.where(stack >= 0, stack, function_stack[events.name.codes[row]]),
    )
    arguments.add(events, row, shut, track, name, dur)
    _steps(events, row, dur, builder)
    return Placed(row, events.ts[row], np.maximum(dur, 0), track, handle)


def categories(events: Events, row: IntArray) -> IntArray:
    """Return codes into `CATEGORIES`, from the events' categories."""
    words = [CATEGORY_OF_WORD.get(word.lower(), "operator") for word in events.cat.values]
    codes = np.array([CATEGORIES.index(word) for word in words], np.int64)
    return np.asarray(codes[events.cat.codes[row]])


def _mark_names(events: Events, marks: IntArray) -> IntArray:
    names = np.asarray(events.name.codes[marks], np.int64).copy()
    nameless = np.array([events.rows[i].name in (None, "") for i in marks.tolist()], bool)
    names[nameless & (events.phase[marks] == "E")] = -1
    return names


def _count_unmatched(events: Events, unclosed: IntArray, unopened: IntArray, builder: TraceBuilder) -> None:
    def example(rows: IntArray) -> str:
        return bounded_repr(events.rows[int(rows[0])].name) if len(rows) else ""

    builder.report.add(
        "unclosed-begin",
        "loss",
        len(unclosed),
        example=example(unclosed),
        effect="kept until the end of the trace",
    )
    builder.report.add(
        "end-without-begin", "loss", len(unopened), example=example(unopened), effect="ignored"
    )


def _phases(events: Events, row: IntArray) -> Coded:
    phases = [phase_of(name) for name in events.name.values]
    words = sorted({word for word in phases if word is not None})
    codes = np.array([-1 if word is None else words.index(word) for word in phases], np.int64)
    return Coded(codes[events.name.codes[row]], words)


def _functions(
    values: Sequence[str], frame_of: FrameOf | None, builder: TraceBuilder
) -> tuple[list[str], IntArray]:
    """Return the label of the slices with each name, and the key of its frame; -1 for none."""
    frames = [frame_of(name) if frame_of is not None else None for name in values]
    keys = [-1 if frame is None else builder.stack([frame]) for frame in frames]
    names = [name if f is None else f.label() for name, f in zip(values, frames, strict=True)]
    return names, np.array(keys, np.int64)


def _stack_keys(rows: list[Row], stacks: Mapping[str, int]) -> IntArray:
    if not stacks:
        return np.full(len(rows), -1, np.int64)
    return np.array([stacks.get(str(row.sf), -1) for row in rows], np.int64)


def _steps(events: Events, row: IntArray, dur: IntArray, builder: TraceBuilder) -> None:
    numbers = [
        int(digits) if (digits := name.removeprefix(STEP_PREFIX)) != name and digits[:9].isdecimal() else -1
        for name in (value[:25] for value in events.name.values)
    ]
    step = np.array(numbers, np.int64)[events.name.codes[row]]
    at = np.flatnonzero((step >= 0) & (step < 2**31))
    if len(at):
        builder.steps(step[at], events.ts[row[at]], np.maximum(dur[at], 0), "file")
        builder.metadata.setdefault("steps_source", "file")
