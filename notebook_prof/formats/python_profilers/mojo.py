"""MOJO, the binary format of Austin: stacks of Python, with the time that each represents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ...errors import FormatError
from ...readers.call_tree import Frame
from ...readers.codec.record_chain import Bytes, Terminated, record_starts
from ...trace.arrays import BoolArray, IntArray, consecutive, numbered
from ...trace.builder import TraceBuilder
from .collapsed import Stacks, add_tracks
from .collapsed_tools import AUSTIN, check_mode, colon_frame

_METADATA, _STACK, _FRAME, _INVALID, _FRAME_REF, _KERNEL, _GC, _IDLE = range(1, 9)
_TIME, _MEMORY, _STRING, _STRING_REF, _REPEAT, _TASK, _WAITER = range(9, 16)
_ON_STACK: Final = (_FRAME, _INVALID, _FRAME_REF, _KERNEL, _GC)
_NEWEST: Final = 4
_WITH_COLUMNS, _WITH_INTERPRETER = 2, 3
"""The first versions whose frames have columns, and whose stacks have an interpreter."""
_NS: Final = 1000
_LONGEST_NS: Final = 2.0**61
_NO_SAMPLES: Final = "it has no samples with a time; Austin writes one at the end of each interval"
_LARGEST: Final = 2**62


def read_mojo(data: bytes, builder: TraceBuilder) -> None:
    """Put the file's samples into `builder`."""
    version = data[3] if len(data) > 3 else 0
    if not 1 <= version <= _NEWEST:
        raise FormatError(f"MOJO {version} is unknown, only 1 to {_NEWEST}: use a newer notebook_prof")
    events = _Events(np.frombuffer(data, np.uint8), version)
    if events.end < len(data):
        builder.report.truncated(f"byte {events.end:,} of {len(data):,} begins no complete event")
    facts = events.facts(data)
    builder.metadata["exporter"], builder.metadata["austin"] = "austin", facts
    check_mode(facts)
    samples = _Samples(events, builder)
    if not samples.count:
        raise FormatError(_NO_SAMPLES)
    frames, names = events.frames(data, samples.rows)
    used = np.repeat(samples.usable, samples.lengths)
    stacks = Stacks(
        frames[used], samples.lengths[samples.usable], names, *events.threads(data, samples.starts)
    )
    add_tracks(
        builder,
        stacks,
        np.asarray(samples.time * _NS, np.float64),
        AUSTIN.labels(stacks.heads),
        facts.get("mode") != "cpu",
    )
    if facts.get("mode") == "cpu":
        builder.report.add(
            "no-time-line", "info", example="time on the CPU",
            effect="totals are estimates from samples; when a function ran is unknown",
        )  # fmt: skip


class _Events:
    """The start and kind of each event."""

    def __init__(self, text: Bytes, version: int) -> None:
        self.text, self.version = text, version
        self._varint, self._zero = Terminated(text < 0x80), Terminated(text == 0)
        self.at, self.end = record_starts(self._next, 4, len(text))
        self.kind = text[self.at]

    def _next(self, at: IntArray) -> IntArray:
        """Return where an event that began at each position would end."""
        kind = self.text[at]
        out = np.full(len(at), len(self.text) + 1, np.int64)
        varint, zero = self._varint.after, self._zero.after
        numbers = 7 if self.version >= _WITH_COLUMNS else 4
        ends: tuple[tuple[tuple[int, ...], Callable[[IntArray], IntArray]], ...] = (
            ((_INVALID, _GC, _IDLE, _REPEAT), lambda body: body),
            ((_FRAME_REF, _TIME, _MEMORY, _STRING_REF), lambda body: varint(body, 1)),
            ((_TASK, _WAITER), lambda body: varint(body, 2)),
            ((_FRAME,), lambda body: varint(body, numbers)),
            ((_METADATA,), lambda body: zero(body, 2)),
            ((_KERNEL,), lambda body: zero(body, 1)),
            ((_STRING,), lambda body: zero(varint(body, 1), 1)),
            ((_STACK,), lambda body: zero(self._thread(body), 1)),
        )
        for kinds, end in ends:
            mark = np.zeros(256, bool)
            mark[list(kinds)] = True
            rows = np.flatnonzero(mark[kind])
            out[rows] = end(at[rows] + 1)
        return out

    def _thread(self, body: IntArray) -> IntArray:
        """Return where the text of a stack's thread begins."""
        return self._varint.after(body, 2 if self.version >= _WITH_INTERPRETER else 1)

    def number(self, rows: IntArray, index: int = 0) -> IntArray:
        """Return a number of each event: six bits and a sign, then seven bits per byte."""
        at = self.at[rows] + 1
        if index:
            at = self._varint.after(at, index)
        first = self.text[at].astype(np.int64)
        value, sign = first & 0x3F, np.where(first & 0x40, -1, 1)
        left, offset = np.flatnonzero(first & 0x80), 1
        while len(left) and offset < 9:
            byte = self.text[np.minimum(at[left] + offset, len(self.text) - 1)].astype(np.int64)
            value[left] |= (byte & 0x7F) << (7 * offset - 1)
            left, offset = left[(byte & 0x80) > 0], offset + 1
        return value * sign

    def words(self, data: bytes, begin: IntArray, count: int = 1) -> list[bytes]:
        """Return the texts that begin at positions and end with a zero."""
        end = self._zero.after(begin, count) - 1
        return [data[low:high] for low, high in zip(begin.tolist(), end.tolist(), strict=True)]

    def facts(self, data: bytes) -> dict[str, str]:
        """Return the file's facts about itself, without mapped libraries."""
        rows = np.flatnonzero(self.kind == _METADATA)
        pairs = [text.split(b"\0", 1) for text in self.words(data, self.at[rows] + 1, 2)]
        texts = [(key.decode(errors="replace"), value.decode(errors="replace")) for key, value in pairs]
        return {"version" if key == "austin" else key: value[:80] for key, value in texts if key != "map"}

    def threads(self, data: bytes, rows: IntArray) -> tuple[IntArray, list[bytes]]:
        """Return the thread of each of these stacks, and the threads as Austin's text has them."""
        body = self.at[rows] + 1
        interpreter = self.number(rows, 1) if self.version >= _WITH_INTERPRETER else np.zeros_like(rows)
        ids = zip(
            self.number(rows).tolist(),
            interpreter.tolist(),
            self.words(data, self._thread(body)),
            strict=True,
        )
        code, distinct = numbered(ids)
        heads = [f"P{pid};T{number}:{_decimal(thread)};".encode() for pid, number, thread in distinct]
        return code, heads

    def frames(self, data: bytes, rows: IntArray) -> tuple[IntArray, list[Frame]]:
        """Return the frame of each of these events, and the frames."""
        defined = np.flatnonzero(self.kind == _FRAME)
        strings = np.flatnonzero(self.kind == _STRING)
        texts = self.words(data, self._varint.after(self.at[strings] + 1, 1))
        names = [text.decode(errors="replace") for text in texts]
        keys = self.number(strings)
        part = [_latest(keys, strings, self.number(defined, i), defined) for i in (1, 2)]
        lines = self.number(defined, 3).tolist()
        listed = [
            _frame(names[file] if file >= 0 else "", names[scope] if scope >= 0 else "[unknown]", line)
            for file, scope, line in zip(part[0].tolist(), part[1].tolist(), lines, strict=True)
        ]
        kernel = np.flatnonzero(self.kind == _KERNEL)
        listed += [
            Frame(text.decode(errors="replace"), "", 0) for text in self.words(data, self.at[kernel] + 1)
        ]
        listed += [Frame("GC", "", 0), Frame("[unknown]", "", 0)]
        kind = self.kind[rows]
        code = np.full(len(rows), len(listed) - 1, np.int64)
        code[kind == _GC] = len(listed) - 2
        code[kind == _FRAME] = np.searchsorted(defined, rows[kind == _FRAME])
        code[kind == _KERNEL] = len(defined) + np.searchsorted(kernel, rows[kind == _KERNEL])
        refs = rows[kind == _FRAME_REF]
        latest = _latest(self.number(defined), defined, self.number(refs), refs)
        code[kind == _FRAME_REF] = np.where(latest < 0, len(listed) - 1, latest)
        return code, listed


class _Samples:
    """The events that form the stack of each sample, and its time."""

    def __init__(self, events: _Events, builder: TraceBuilder) -> None:
        kind = events.kind
        starts = np.flatnonzero(kind == _STACK)
        if not len(starts):
            raise FormatError(_NO_SAMPLES)
        owner = np.searchsorted(starts, np.arange(len(kind)), side="right") - 1
        is_frame: BoolArray = np.isin(kind, _ON_STACK) & (owner >= 0)
        in_task = _behind(owner, kind == _TASK, len(starts))
        repeats = np.zeros(len(starts), bool)
        repeats[owner[(kind == _REPEAT) & (owner >= 0)]] = True
        self._count_others(events, builder, in_task & is_frame, is_frame & ~in_task & repeats[owner])
        rows = np.flatnonzero(is_frame & ~in_task & ~repeats[owner])
        time = np.zeros(len(starts), np.int64)
        timed = np.flatnonzero((kind == _TIME) & (owner >= 0))
        has_time = np.zeros(len(starts), bool)
        has_time[owner[timed]] = True
        time[owner[timed]] = events.number(timed)
        self._count_full(events, builder, owner, len(starts))
        rows, lengths = _with_repeats(events, starts, repeats, rows, owner[rows])
        ok = has_time & (time >= 0) & (np.cumsum(np.maximum(time, 0) * float(_NS)) < _LONGEST_NS)
        builder.report.broken_rows(~ok, lambda i: f"sample {i} has no time", "these samples are left out")
        self.rows, self.lengths, self.usable = rows, lengths, ok
        self.starts, self.time, self.count = starts[ok], time[ok], int(ok.sum())

    @staticmethod
    def _count_others(
        events: _Events, builder: TraceBuilder, in_task: BoolArray, repeated: BoolArray
    ) -> None:
        builder.report.add(
            "tasks-not-used",
            "loss",
            int((events.kind == _TASK).sum()),
            example=f"{int(in_task.sum()):,} frames of suspended tasks of asyncio",
            effect="stacks of waiting tasks are left out; they take no time",
            advice="nothing needs to be done",
        )
        builder.report.add(
            "frames-not-used",
            "loss",
            int(repeated.sum()),
            example="native frames of an unchanged Python stack",
            effect="these samples end with the Python function",
            advice="nothing needs to be done",
        )

    @staticmethod
    def _count_full(events: _Events, builder: TraceBuilder, owner: IntArray, count: int) -> None:
        memory = np.flatnonzero((events.kind == _MEMORY) & (owner >= 0))
        change = events.number(memory)
        idle = int((events.kind == _IDLE).sum())
        builder.report.add(
            "metrics-not-used",
            "loss",
            max(len(memory), idle),
            example=f"{idle:,} of {count:,} samples idle, memory +{int(change[change > 0].sum()):,} and "
            f"{int(change[change < 0].sum()):,} bytes",
            effect="the time of a sample counts, idle or not; idle states and memory are left out",
            advice="record with -s instead of -f for time on the CPU alone",
        )


def _behind(owner: IntArray, marks: BoolArray, count: int) -> BoolArray:
    """Return which events come after a mark in the same sample."""
    first = np.full(count + 1, len(owner), np.int64)
    rows = np.flatnonzero(marks)
    np.minimum.at(first, owner[rows], rows)
    return np.asarray(np.arange(len(owner)) >= first[owner])


def _with_repeats(
    events: _Events, starts: IntArray, repeats: BoolArray, rows: IntArray, owner: IntArray
) -> tuple[IntArray, IntArray]:
    """Give samples that repeat the last stack of their thread the events of that stack."""
    lengths = np.bincount(owner, minlength=len(starts))
    if not repeats.any():
        return rows, lengths
    thread, _ = events.threads(events.text.tobytes(), starts)
    order = np.lexsort((np.arange(len(starts)), thread))
    own = np.where(repeats[order], -1, np.arange(len(starts)))
    latest = np.maximum.accumulate(own)
    same = (latest >= 0) & (thread[order[latest]] == thread[order])
    source = np.empty(len(starts), np.int64)
    source[order] = np.where(same, order[latest], order)
    begin = (np.cumsum(lengths) - lengths)[source]
    length = lengths[source]
    return rows[consecutive(begin, length)], length


def _latest(keys: IntArray, rows: IntArray, sought: IntArray, before: IntArray) -> IntArray:
    """Return each key's last definition before a row; -1 if it is not defined there."""
    if not len(keys):
        return np.full(len(sought), -1, np.int64)
    names, code = np.unique(keys, return_inverse=True)
    at = np.minimum(np.searchsorted(names, sought), len(names) - 1)
    width = int(max(rows.max(), before.max(initial=0))) + 2
    order = np.lexsort((rows, code))
    found_at = np.searchsorted((code * width + rows)[order], at * width + before, side="right") - 1
    latest = order[np.maximum(found_at, 0)]
    ok = (names[at] == sought) & (found_at >= 0) & (code[latest] == at)
    return np.where(ok, latest, -1)


def _frame(file: str, scope: str, line: int) -> Frame:
    return (
        colon_frame(f"{file}:{scope}:{line}")
        if file.startswith("native@")
        else Frame(scope, file, max(line, 0))
    )


def _decimal(thread: bytes) -> str:
    """Return a thread as Austin's text has it; MOJO has it in hex."""
    text = thread.decode(errors="replace")
    try:
        number = int(text, 16)
    except ValueError:
        return text
    return str(number) if number < _LARGEST else text
