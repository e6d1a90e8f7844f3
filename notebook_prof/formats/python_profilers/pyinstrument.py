"""pyinstrument: its JSON tree, and its saved sessions."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from msgspec import UNSET, Struct, UnsetType

from ...errors import FormatError, bounded_repr
from ...readers.call_tree import CallFrame, Sampled, add_samples, loose_frame
from ...readers.codec.tolerant_json import decode_object
from ...trace.arrays import IntArray, numbered
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded

_LONGEST_S: Final = 4e9
_SELF: Final = "[self]"
_THREAD: Final = "\x00<thread>\x00"


class _PyinstrumentNode(Struct):
    function: Any = ""
    file_path: Any = None
    line_no: Any = 0
    time: float = 0.0
    children: list[_PyinstrumentNode] = []


class _PyinstrumentFile(Struct):
    root_frame: _PyinstrumentNode | UnsetType | None = UNSET
    frame_records: list[tuple[list[str], float]] | UnsetType = UNSET
    start_time: float = 0.0
    duration: float = 0.0
    sample_count: Any = None
    target_description: Any = None
    cpu_time: Any = None


def read_pyinstrument(data: bytes, builder: TraceBuilder) -> None:
    """Put the file's tree or samples into `builder`."""
    file = decode_object(data, _PyinstrumentFile, "pyinstrument's")
    for key in ("sample_count", "target_description", "cpu_time"):
        if isinstance(value := getattr(file, key), str | int | float):
            builder.metadata[key] = value
    start, _ = _ns([file.start_time])
    if file.frame_records is not UNSET:
        _add_records(file.frame_records, int(start[0]), builder)
    elif file.root_frame is UNSET:
        raise FormatError("there is neither 'root_frame' nor 'frame_records' in it")
    elif file.root_frame is not None:
        _add_tree(file.root_frame, int(start[0]), builder.track("main"), builder)


def _add_tree(root: _PyinstrumentNode, start: int, track: int, builder: TraceBuilder) -> None:
    """Put the tree level by level: a child begins where the sibling before it ends."""
    effect = "totals are estimates from samples; when and how often a function ran is unknown"
    builder.report.add("no-time-line", "info", example="a tree of total times", effect=effect)
    level, begin = [root], np.array([start], np.int64)
    while level:
        dur, ok = _ns([node.time for node in level])
        wrong = np.flatnonzero(~ok)
        example = bounded_repr(level[wrong[0]].time) if len(wrong) else ""
        builder.report.broken_rows(len(wrong), example, "frames without a usable time")
        frames = [loose_frame(node.function, node.file_path, node.line_no) for node in level]
        code, distinct = numbered(frames)
        keys = np.array([builder.stack([frame]) for frame in distinct], np.int64)
        # "[self]" is not a call: it is time of the function above
        shown = np.array([frame.function != _SELF or bool(frame.file) for frame in frames], bool)
        code = code[shown]
        name, stack = Coded(code, [frame.label() for frame in distinct]), keys[code]
        ts, lasting = begin[shown], dur[shown]
        builder.slices(ts=ts, dur=lasting, track=track, name=name, category="python", stack=stack)
        counts = np.fromiter((len(node.children) for node in level), np.int64, len(level))
        level = [child for node in level for child in node.children]
        inner, _ = _ns([node.time for node in level])
        sums = np.cumsum(inner) - inner
        first = np.cumsum(counts) - counts
        offset = np.repeat(sums[np.minimum(first, max(len(sums) - 1, 0))], counts) if len(sums) else sums
        begin = np.repeat(begin, counts) + sums - offset


def _add_records(records: list[tuple[list[str], float]], start: int, builder: TraceBuilder) -> None:
    """Put samples: a stack, whose root may be a thread, and the time since the sample before."""
    dur, ok = _ns([record[1] for record in records])
    builder.report.broken_rows(~ok, lambda i: records[i][1], "samples without a usable time")
    ts = start + np.cumsum(dur) - dur
    roots = [stack[0] if stack and _THREAD in stack[0] else "" for stack, _ in records]
    threads: dict[str, list[int]] = {}
    for i, root in enumerate(roots):
        threads.setdefault(root, []).append(i)
    for root, rows in threads.items():
        name, _, number = root.partition(_THREAD)
        number = number.partition("\x01")[0]
        tid = int(number) if number.isdecimal() and len(number) < 19 else None
        stacks = [records[i][0][1 if root else 0 :] for i in rows]
        flat, texts = numbered(text for stack in stacks for text in stack)
        lengths = np.fromiter(map(len, stacks), np.int64, len(stacks))
        track = builder.track(name or "main", tid=tid)
        add_samples(builder, track, Sampled(ts[rows], dur[rows], flat, lengths), list(map(_parsed, texts)))


def _parsed(text: str) -> CallFrame:
    """Return a frame of a session: function, file and first line between NULs, then attributes."""
    parts = text.split("\x01")[0].split("\x00")
    function, file, line = (*parts, "", "")[:3]
    return loose_frame(function, file, int(line) if line.isdecimal() and len(line) < 10 else 0)


def _ns(seconds: list[float]) -> tuple[IntArray, np.ndarray[Any, np.dtype[np.bool_]]]:
    value = np.array(seconds, np.float64)
    ok = np.isfinite(value) & (value >= 0) & (value < _LONGEST_S)
    return np.rint(np.where(ok, value, 0) * 1e9).astype(np.int64), ok
