"""The slices of threads, from complete events, begins and ends, and instants, with their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from ...errors import bounded_repr
from ...trace.arrays import IntArray, numbered
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded, by_value
from ...trace.taxonomy import CATEGORIES, STEP_PREFIX, group_of_word, phase_of
from ..call_tree import CallFrame
from ..codec.tolerant_json import NOTHING, UNDECODABLE
from ..events import add_arguments, argument_rows, match, report_unpaired
from .events import EventColumns, Tracks

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])


class CollectedArguments:
    """Adds the arguments of events that become slices to `builder`, and counts these events."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder, self.count = builder, 0

    def add(
        self,
        events: EventColumns,
        begin: IntArray,
        end: IntArray,
        track: IntArray,
        name: Coded,
        dur: IntArray,
    ) -> None:
        """Add the arguments of the events that began and ended some slices."""
        # `end` is -1 if no other event ended the slice
        texts = [*(row.arguments() for row in events.rows), NOTHING]
        has_arguments = np.fromiter((len(text) > 2 for text in texts), bool, len(texts))
        self.count += int(has_arguments[begin].sum() + has_arguments[end].sum())
        has = np.flatnonzero(has_arguments[begin] | has_arguments[end])
        both = zip(begin[has].tolist(), end[has].tolist(), strict=True)
        merged = cache(_merged)
        own = by_value(*numbered(merged(bytes(texts[b]), bytes(texts[e])) for b, e in both))
        codes = np.full(len(begin), -1, np.int64)
        codes[has] = own.codes
        rows = argument_rows(track, events.ts[begin], dur, name, Coded(codes, own.values))
        add_arguments(self._builder, [rows])


def _merged(begin: bytes, end: bytes) -> str | None:
    """Merge the arguments of a begin and its end (which wins) into compact JSON; None if there are none.

    >>> _merged(b'{"a": 1, "b": 2}', b'{"b": 3.50}'), _merged(b"{}", b"null")
    ('{"a":1,"b":3.50}', None)
    """
    merged: dict[str, Raw] = {}
    for text in (begin, end):
        if len(text) <= 2 or text == b"null":
            continue
        try:
            plain = msgspec.json.format(text, indent=-1)
            merged |= _OBJECT.decode(plain) if plain.startswith(b"{") else {"args": Raw(plain)}
        except UNDECODABLE:
            continue
    return msgspec.json.encode(merged).decode(errors="replace") if merged else None


_STEP: Final = re.compile(re.escape(STEP_PREFIX) + r"(\d{1,10})")
FrameOf = Callable[[str], CallFrame | None]

CATEGORY_OF_WORD: Final = group_of_word(
    {
        "python": "fee python python_function py javascript",
        "kernel": "kernel",
        "memcpy": "gpu_memcpy",
        "memset": "gpu_memset",
        "launch": "cuda_runtime cuda_driver",
        "annotation": "user_annotation gpu_user_annotation annotation",
        "overhead": "overhead",
        "io": "io",
    }
)
"""Our category for a writer's word. Any other word means an operator."""


class Placed(NamedTuple):
    """Slices of threads, in the file's order of the events that began them."""

    row: IntArray  # the event that began the slice
    ts: IntArray  # nanoseconds
    dur: IntArray
    track: IntArray
    handle: IntArray  # of `TraceBuilder.slices`


def add_slices(
    events: EventColumns,
    tracks: Tracks,
    stacks: Mapping[str, int],
    arguments: CollectedArguments,
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
    unclosed, unopened = marks[pairs.unclosed], marks[pairs.unopened]
    report_unpaired(builder.report, unclosed, unopened, lambda i: bounded_repr(events.rows[i].name))
    instants = events.where("iIR")
    begin, lasting = pairs.spans(events.ts[marks], last)
    row = np.concatenate([complete, marks[begin], instants])
    dur = np.concatenate([events.dur[complete], lasting, np.zeros(len(instants), np.int64)])
    shut = np.full(len(row), -1, np.int64)
    shut[len(complete) : len(complete) + len(pairs.end)] = marks[pairs.end]
    order = np.argsort(row, kind="stable")
    row, dur, shut = row[order], dur[order], shut[order]
    category = categories(events, row)
    category[np.isin(events.phase[row], list("iIR"))] = CATEGORIES.index("annotation")
    track = tracks.of(row)
    words, function_stack = _functions(events.name.values, frame_of, builder)
    name = Coded(events.name.codes[row], words)
    stack = np.full(len(row), -1, np.int64)
    if stacks:
        stack[:] = [stacks.get(str(events.rows[i].sf), -1) for i in row.tolist()]
    handle = builder.slices(
        ts=events.ts[row],
        dur=dur,
        track=track,
        name=name,
        category=Coded(category, CATEGORIES),
        phase=by_value(events.name.codes[row], [phase_of(name) for name in events.name.values]),
        stack=np.where(stack >= 0, stack, function_stack[events.name.codes[row]]),
    )
    arguments.add(events, row, shut, track, name, dur)
    _steps(events, row, dur, builder)
    return Placed(row, events.ts[row], np.maximum(dur, 0), track, handle)


def categories(events: EventColumns, row: IntArray) -> IntArray:
    """Return codes into `CATEGORIES`, from the events' categories."""
    words = [CATEGORY_OF_WORD.get(word.lower(), "operator") for word in events.cat.values]
    codes = np.array([CATEGORIES.index(word) for word in words], np.int64)
    return np.asarray(codes[events.cat.codes[row]])


def _mark_names(events: EventColumns, marks: IntArray) -> IntArray:
    names = np.asarray(events.name.codes[marks], np.int64).copy()
    nameless = np.array([events.rows[i].name in (None, "") for i in marks.tolist()], bool)
    names[nameless & (events.phase[marks] == "E")] = -1
    return names


def _functions(
    values: Sequence[str], frame_of: FrameOf | None, builder: TraceBuilder
) -> tuple[list[str], IntArray]:
    """Return the label of the slices with each name, and the key of its frame; -1 for none."""
    frames = [frame_of(name) if frame_of is not None else None for name in values]
    keys = [-1 if frame is None else builder.stack([frame]) for frame in frames]
    names = [name if f is None else f.label() for name, f in zip(values, frames, strict=True)]
    return names, np.array(keys, np.int64)


def _steps(events: EventColumns, row: IntArray, dur: IntArray, builder: TraceBuilder) -> None:
    matches = [_STEP.fullmatch(name) for name in events.name.values]
    step = np.array([int(match[1]) if match else -1 for match in matches], np.int64)[events.name.codes[row]]
    at = np.flatnonzero((step >= 0) & (step < 2**31))
    if len(at):
        builder.steps(step[at], events.ts[row[at]], np.maximum(dur[at], 0), "file")
