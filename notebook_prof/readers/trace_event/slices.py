"""The slices of threads, from complete events, begins and ends, and instants, with their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw

from ...errors import bounded_repr
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded, by_value
from ...trace.taxonomy import CATEGORIES, STEP_PREFIX, group_of_word, phase_of
from ..call_tree import CallFrame
from ..codec.tolerant_json import NOTHING, UNDECODABLE
from ..events import match, report_unpaired
from .events import EventColumns, EventRow, Tracks

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])


class CollectedArguments:
    """Collects the arguments of events that become slices."""

    def __init__(self) -> None:
        self.count = 0  # events whose arguments were collected
        self._codes: dict[tuple[bytes, bytes], int] = {}
        self._texts: dict[str, int] = {}
        self._parts: list[pd.DataFrame] = []

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
        # `end` is -1 if no other event ended the slice. Negative durations become 0, as in the slices.
        has_arguments = np.fromiter((len(row.arguments()) > 2 for row in events.rows), bool, len(events.rows))
        late = (end >= 0) & has_arguments[end]
        has = np.flatnonzero(has_arguments[begin] | late)
        if not len(has):
            return
        rows = events.rows
        ends = zip(begin[has].tolist(), end[has].tolist(), strict=True)
        both = ((rows[b].arguments(), rows[e].arguments() if e >= 0 else NOTHING) for b, e in ends)
        code = np.fromiter((self._code(*texts) for texts in both), np.int64, len(has))
        self.count += int(has_arguments[begin].sum() + late.sum())
        has, code = has[code >= 0], code[code >= 0]
        words = np.array(name.values, dtype=object)[name.codes[has]]
        columns = {"track": track[has].astype(np.int32), "start_unix_ns": events.ts[begin[has]]}
        columns |= {"dur_ns": np.maximum(dur[has], 0), "name": words, "arguments": code}
        self._parts.append(pd.DataFrame(columns))

    def table(self) -> pd.DataFrame | None:
        """Make the table ``event_arguments`` of the metadata, in the order of `add`; None without rows."""
        # ``track`` (int32), ``start_unix_ns``, ``dur_ns`` (int64) and ``name`` (category) identify the slice;
        # ``arguments`` is a category of JSON objects as text.
        if not any(map(len, self._parts)):
            return None
        table = pd.concat(self._parts, ignore_index=True)
        texts = pd.Index(list(self._texts), dtype="object")
        categorical = pd.Categorical.from_codes(table["arguments"].to_numpy(), categories=texts)
        return table.assign(name=table["name"].astype("category"), arguments=categorical)

    def _code(self, begin: Raw, end: Raw) -> int:
        key = bytes(begin), bytes(end)
        if (code := self._codes.get(key)) is None:
            text = _merged(*key)
            code = -1 if text is None else self._texts.setdefault(text, len(self._texts))
            self._codes[key] = code
        return code


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
    stack = _stack_keys([events.rows[i] for i in row.tolist()], stacks)
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
    keys = [-1 if frame is None else builder.stack([frame]) for frame in frames]  # noqa: PD013
    names = [name if f is None else f.label() for name, f in zip(values, frames, strict=True)]
    return names, np.array(keys, np.int64)


def _stack_keys(rows: list[EventRow], stacks: Mapping[str, int]) -> IntArray:
    if not stacks:
        return np.full(len(rows), -1, np.int64)
    return np.array([stacks.get(str(row.sf), -1) for row in rows], np.int64)


def _steps(events: EventColumns, row: IntArray, dur: IntArray, builder: TraceBuilder) -> None:
    matches = [_STEP.fullmatch(name) for name in events.name.values]
    step = np.array([int(match[1]) if match else -1 for match in matches], np.int64)[events.name.codes[row]]
    at = np.flatnonzero((step >= 0) & (step < 2**31))
    if len(at):
        builder.steps(step[at], events.ts[row[at]], np.maximum(dur[at], 0), "file")
