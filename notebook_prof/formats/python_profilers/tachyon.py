"""The binary format of Tachyon, Python 3.15's ``profiling.sampling``: stacks of threads, with their times."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np

from ...errors import FormatError
from ...readers.base import decompress
from ...readers.call_tree import Frame, add_tree_samples, count_samples, sample_durations, stack_tree
from ...readers.codec.protobuf_columns import PADDING, varints
from ...readers.codec.record_chain import Bytes, Terminated, record_starts
from ...trace.arrays import IntArray, consecutive
from ...trace.builder import TraceBuilder

_MAGIC: Final = {b"HCAT": "<", b"TACH": ">"}
_HEADER: Final = 64
_FOOTER: Final = 32
_VERSION: Final = 1
_REPEAT, _FULL, _SUFFIX, _POP_PUSH = range(4)
_BODY: Final = 13
"""Offset of a record's numbers, after its thread, interpreter and kind."""
_ZSTD: Final = 1
_STATES: Final = ((1, "has the GIL"), (2, "on a core"), (8, "waits for the GIL"), (16, "has an exception"))
_LARGEST: Final = 2**62


class _Header(NamedTuple):
    python: str
    interval_us: int
    samples: int
    strings_at: int
    frames_at: int
    compression: int
    strings: int
    frames: int


def read_tachyon(data: bytes, builder: TraceBuilder) -> None:
    """Put the file's samples into `builder`."""
    header, order = _header(data, builder), _MAGIC[data[:4]]
    frames = _frames(data, header, builder)
    text = data[_HEADER : header.strings_at]
    if header.compression == _ZSTD:
        text = decompress(text, builder.report)
    elif header.compression:
        raise FormatError(f"Tachyon's compression {header.compression} is unknown")
    records = _Records(np.frombuffer(text, np.uint8), order)
    if records.end < len(text):
        builder.report.truncated(f"byte {records.end:,} of {len(text):,} begins no complete record")
    builder.metadata["exporter"] = "tachyon"
    builder.metadata["tachyon"] = {"python": header.python, "interval_us": header.interval_us}
    count = _add(records, frames, builder)
    builder.report.truncated(
        f"{header.samples:,} samples by the header, {count:,} in the file",
        "samples are missing",
        count=max(header.samples - count, 0),
    )


def _header(data: bytes, builder: TraceBuilder) -> _Header:
    if len(data) < _HEADER + _FOOTER:
        raise FormatError("Tachyon's file was cut: it has no tables of strings and frames")
    order = _MAGIC.get(data[:4])
    if order is None:
        raise FormatError("it does not begin like Tachyon's binary files")
    numbers = struct.unpack(order + "I3BxQQQIQQI", data[4:60])
    version, major, minor, micro, _, interval, samples, _, strings_at, frames_at, packed = numbers
    if version != _VERSION:
        raise FormatError(f"version {version} of Tachyon's binary files is unknown, only {_VERSION}")
    if not _HEADER <= strings_at <= frames_at <= len(data) - _FOOTER:
        raise FormatError(
            "Tachyon's file was cut, or its profiler did not end: tables of strings and frames are missing"
        )
    strings, frames, size = struct.unpack(order + "IIQ", data[-_FOOTER:-16])
    if size != len(data):
        raise FormatError(f"Tachyon's file was cut: it has {len(data):,} bytes of {size:,}")
    builder.report.add("columns-not-used", "info", 1, "columns and opcodes of frames", "frames have lines")
    python = f"{major}.{minor}.{micro}"
    return _Header(python, interval, samples, strings_at, frames_at, packed, strings, frames)


def _frames(data: bytes, header: _Header, builder: TraceBuilder) -> list[Frame]:
    """Return the frames of the file's table; each distinct frame is there once."""
    strings: list[str] = []
    at, end = header.strings_at, header.frames_at
    while len(strings) < header.strings and at < end:
        length, at = _varint(data, at, end)
        strings.append(data[at : min(at + length, end)].decode(errors="replace"))
        at += length
    at, end = header.frames_at, len(data) - _FOOTER
    frames: list[Frame] = []
    while len(frames) < header.frames and at < end:
        numbers = []
        for _ in range(6):
            value, at = _varint(data, at, end)
            numbers.append(value)
        at += 1  # the opcode
        file, function, line = numbers[0], numbers[1], (numbers[2] >> 1) ^ -(numbers[2] & 1)
        name = strings[function] if function < len(strings) else "[unknown]"
        frames.append(
            Frame(name, strings[file] if file < len(strings) else "", line if 0 < line < 2**31 else 0)
        )
    builder.report.broken_rows(
        header.frames - len(frames) + header.strings - len(strings),
        f"{len(strings):,} of {header.strings:,} texts, {len(frames):,} of {header.frames:,} frames",
        "functions without a name are [unknown]",
    )
    return frames


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 or shift > 63:
            break
    return value, at


class _Records:
    """The start, thread and kind of each record."""

    def __init__(self, text: Bytes, order: str) -> None:
        self.text = text
        self._padded = np.concatenate([text, np.zeros(PADDING, np.uint8)])
        self._varint = Terminated(text < 0x80)
        self.at, self.end = record_starts(self._next, 0, len(text))
        ids = text[self.at[:, None] + np.arange(12)] if len(self.at) else np.empty((0, 12), np.uint8)
        thread = np.ascontiguousarray(ids[:, :8]).view(order + "u8").reshape(-1).astype(np.uint64)
        interpreter = np.ascontiguousarray(ids[:, 8:]).view(order + "u4").reshape(-1).astype(np.uint64)
        pairs = np.stack([thread, interpreter], axis=1)
        self.threads, code = np.unique(pairs, axis=0, return_inverse=True)
        self.thread = code.reshape(-1).astype(np.int64)
        self.kind = text[self.at + _BODY - 1] if len(self.at) else np.empty(0, np.uint8)

    def _next(self, at: IntArray) -> IntArray:
        """Return where a record that began at each position would end."""
        size = len(self.text)
        out = np.full(len(at), size + 1, np.int64)
        rows = np.flatnonzero(at + _BODY < size)
        kind = self.text[at[rows] + _BODY - 1]
        for code in (_REPEAT, _FULL, _SUFFIX, _POP_PUSH):
            own = rows[kind == code]
            out[own] = self._end(at[own] + _BODY, code)
        return out

    def _end(self, body: IntArray, code: int) -> IntArray:
        # a status is less than 0x80, and so looks like a number of one byte
        before = {_REPEAT: 0, _FULL: 2, _SUFFIX: 3, _POP_PUSH: 3}[code]
        at = self._varint.after(body, before) if before else body
        inside = at < len(self.text)
        count = np.zeros(len(at), np.int64)
        count[inside] = np.minimum(self._values(at[inside]), len(self.text))
        count *= 2 if code == _REPEAT else 1
        return np.where(inside, self._varint.after(at, 1 + count), len(self.text) + 1)

    def numbers(self, rows: IntArray, skip: int, counts: IntArray) -> IntArray:
        """Return `counts` numbers of each record, after the first `skip`, one record after another."""
        begin = self.at[rows] + _BODY
        owner = np.repeat(np.arange(len(rows)), counts)
        index = consecutive(np.full_like(counts, skip), counts)
        at = begin[owner]
        behind = index > 0
        at[behind] = self._varint.after(at[behind], index[behind])
        return self._values(at)

    def _values(self, at: IntArray) -> IntArray:
        value, _ = varints(self._padded, at)
        return np.where((value < 0) | (value > _LARGEST), _LARGEST, value)

    def number(self, rows: IntArray, index: int) -> IntArray:
        """Return one number of each record."""
        return self.numbers(rows, index, np.ones(len(rows), np.int64))


class _Samples(NamedTuple):
    """All samples in the order of the file: record, time that passed before in µs, state."""

    record: IntArray
    delta: IntArray
    status: IntArray


def _samples(records: _Records) -> _Samples:
    rows = np.arange(len(records.at))
    repeats = rows[records.kind == _REPEAT]
    count = np.ones(len(rows), np.int64)
    count[repeats] = records.number(repeats, 0)
    single = rows[records.kind != _REPEAT]
    offset = np.cumsum(count) - count
    record = np.repeat(rows, count)
    delta, status = np.zeros(len(record), np.int64), np.zeros(len(record), np.int64)
    delta[offset[single]] = records.number(single, 0)
    status[offset[single]] = records.number(single, 1)
    pairs = records.numbers(repeats, 1, 2 * count[repeats])
    many = records.kind[record] == _REPEAT
    delta[many], status[many] = pairs[::2], pairs[1::2]
    return _Samples(record, delta, status)


def _add(records: _Records, frames: list[Frame], builder: TraceBuilder) -> int:
    """Put all samples into `builder`, and return how many there are."""
    if not len(records.at):
        raise FormatError("Tachyon's file has no samples")
    samples = _samples(records)
    parent, frame, of_record = _stacks(records, len(frames), builder)
    tree, node = stack_tree(parent, frame, [*frames, Frame("[unknown]", "", 0)], builder.report)
    thread = records.thread[samples.record]
    for number, (tid, interpreter) in enumerate(records.threads.tolist()):
        own = np.flatnonzero(thread == number)
        name = f"thread {tid}" if not interpreter else f"interpreter {interpreter}, thread {tid}"
        track = builder.track(name, tid=tid if tid < _LARGEST and not interpreter else None)
        ts = np.cumsum(np.minimum(samples.delta[own], 2**40)) * 1000
        leaf = of_record[samples.record[own]]
        busy = leaf >= 0
        dur = sample_durations(ts)
        count_samples(builder, track, int(busy.sum()))
        add_tree_samples(builder, track, ts[busy], dur[busy], node[leaf[busy]], tree)
    builder.report.add(
        "states-not-used",
        "info",
        len(samples.status),
        example=", ".join(f"{(samples.status & bit > 0).sum():,} {word}" for bit, word in _STATES),
        effect="what a thread did at each sample is left out; its time counts in any case",
        advice="nothing needs to be done",
    )
    return len(samples.status)


def _stacks(
    records: _Records, frame_count: int, builder: TraceBuilder
) -> tuple[IntArray, IntArray, IntArray]:
    """Return a tree of stacks, parents and frames, and the innermost node of each record."""
    rows = np.arange(len(records.at))
    kind = records.kind
    new = np.zeros(len(rows), np.int64)
    first = np.zeros(len(rows), np.int64)
    first[kind != _REPEAT] = records.number(rows[kind != _REPEAT], 2)
    new[kind == _FULL] = first[kind == _FULL]
    changed = rows[(kind == _SUFFIX) | (kind == _POP_PUSH)]
    new[changed] = records.number(changed, 3)
    pushed = np.zeros(int(new.sum()), np.int64)
    owner = np.repeat(rows, new)
    for codes, skip in (((_FULL,), 3), ((_SUFFIX, _POP_PUSH), 4)):
        own = rows[np.isin(kind, codes)]
        pushed[np.isin(kind[owner], codes)] = records.numbers(own, skip, new[own])
    pushed[pushed >= frame_count] = frame_count
    begin = (np.cumsum(new) - new).tolist()
    return _grown(
        kind.tolist(), records.thread.tolist(), first.tolist(), new.tolist(), begin, pushed, builder
    )


def _grown(
    kinds: list[int],
    threads: list[int],
    firsts: list[int],
    counts: list[int],
    begins: list[int],
    pushed: IntArray,
    builder: TraceBuilder,
) -> tuple[IntArray, IntArray, IntArray]:
    """Follow the stack of each thread from record to record, since each is relative to the one before."""
    frames: list[int] = pushed.tolist()
    node_of: dict[tuple[int, int], int] = {}
    parent: list[int] = []
    frame: list[int] = []
    stacks: dict[int, list[int]] = {}
    leaves: list[int] = []
    broken = 0
    for kind, thread, first, count, begin in zip(kinds, threads, firsts, counts, begins, strict=True):
        stack = stacks.setdefault(thread, [])
        if kind:
            keep = 0 if kind == _FULL else first if kind == _SUFFIX else len(stack) - first
            broken += not 0 <= keep <= len(stack)
            del stack[max(keep, 0) :]
            above = stack[-1] if stack else -1
            for code in reversed(frames[begin : begin + count]):  # innermost first
                key = above, code
                if (above := node_of.setdefault(key, len(parent))) == len(parent):
                    parent.append(key[0])
                    frame.append(code)
                stack.append(above)
        leaves.append(stack[-1] if stack else -1)
    builder.report.broken_rows(
        broken, "a stack that keeps more frames than existed", "its outer frames are missing"
    )
    return tuple(np.array(part, np.int64) for part in (parent, frame, leaves))  # type: ignore[return-value]
