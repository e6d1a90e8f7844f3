"""Memory timelines that PyTorch's profiler exports, as JSON or pickled: events, or levels by category."""

from __future__ import annotations

import copyreg
import io
import pickle
import pickletools
import re
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import FormatError
from ...readers.codec.tolerant_json import decode_object
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.intervals import as_ints

CATEGORIES: Final = (
    "parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail",
    "unknown",
)  # fmt: skip
_PREEXISTING, _CREATE, _VERSION, _DESTROY = 1, 2, 3, 4
_MOST: Final = 2**53


def read_timeline(data: bytes, builder: TraceBuilder, device: int) -> None:
    """Put a memory timeline into `builder`: ``.raw.json.gz`` has events, ``.json`` has levels."""
    # Events are `[time in ns or -1, action, bytes, category]` with action 1 (there before), 2 (created), 3
    # (new version, in pairs that move bytes to another category) and 4 (destroyed). They have no addresses: a
    # destroyed block is assumed to be the oldest one of its size. Levels are `[times in µs, bytes by
    # category]`; the first of nine columns is not used. The file does not say which device it is about.
    content = decode_object(data, Any, "a memory timeline's")
    if not isinstance(content, list):
        raise FormatError(f"a memory timeline is a list, and this is a {type(content).__name__}")
    builder.metadata["memory_device"] = device
    example = f"taken for device {device}"
    effect = "a memory timeline does not say which device it is about"
    advice = "name it: read_trace(path, device=-1) for the host"
    builder.report.add("device-not-named", "info", example=example, effect=effect, advice=advice)
    if len(content) == 2 and _is_levels(content):
        _levels(content[0], content[1], builder, device)
    else:
        _read_events(content, builder, device)


def _is_levels(content: list[Any]) -> bool:
    times, rows = content
    both = isinstance(times, list) and isinstance(rows, list)
    return both and all(isinstance(row, list) for row in rows[:1]) and len(times) >= len(rows)


def _read_events(content: list[Any], builder: TraceBuilder, device: int) -> None:
    rows = [row for row in content if isinstance(row, list) and len(row) == 4 and all(map(_is_in_range, row))]
    table = np.array(rows, np.int64).reshape(-1, 4)
    good = np.isin(table[:, 1], (1, 2, 3, 4)) & (table[:, 3] >= 0) & (table[:, 3] < len(CATEGORIES))
    example = f"{int(good.sum()):,} others are sound"
    builder.report.broken_rows(len(content) - int(good.sum()), example, "left out")
    table = table[good]
    if not len(table):
        if content:
            raise FormatError(f"no row of it is [time, action, bytes, category]: {str(content[0])[:80]}")
        return
    ts, action, size, category = table.T
    valid = ts[ts >= 0]
    ts = np.where(ts < 0, valid.min() if len(valid) else 0, ts)
    order = np.argsort(ts, kind="stable")
    builder.report.add("unsorted-events", "info", int((np.diff(ts) < 0).sum()), effect="sorted")
    ts, action, size, category = (column[order] for column in (ts, action, size, category))
    levels = np.zeros((len(ts), len(CATEGORIES)), np.int64)
    levels[np.arange(len(ts)), category] = size
    levels = np.cumsum(levels, axis=0)
    _counters(ts, levels, builder)
    real = np.flatnonzero((action != _VERSION) & (size != 0))
    effect = "the file has no addresses: a freed block is assumed to be the oldest one of its size"
    builder.report.add("addresses-matched", "info", len(real), effect=effect)
    ts, size = ts[real], size[real]
    addr, total = _numbers(size), np.cumsum(size)
    builder.allocations(ts=ts, addr=addr, bytes=size, device=device, allocated=total, reserved=0)


def _levels(times: list[Any], rows: list[Any], builder: TraceBuilder, device: int) -> None:
    width = len(CATEGORIES) + 1
    usable = [
        isinstance(row, list) and len(row) == width and _is_in_range(time) and all(map(_is_in_range, row))
        for time, row in zip(times, rows, strict=False)
    ]
    example = f"{sum(usable):,} others are sound"
    builder.report.broken_rows(len(times) - sum(usable), example, "left out")
    ts = np.array([time for time, good in zip(times, usable, strict=False) if good], np.int64) * 1000
    levels = np.array([row for row, good in zip(rows, usable, strict=False) if good], np.int64)
    levels = levels.reshape(-1, width)[:, 1:]
    if not len(ts):
        if times or rows:
            raise FormatError(f"no row of it has {width} numbers of bytes: {str(rows[:1])[:80]}")
        return
    order = np.argsort(ts, kind="stable")
    ts, levels = ts[order], levels[order]
    _counters(ts, levels, builder)
    total = levels.sum(axis=1)
    change = np.diff(total, prepend=0)
    changes = np.flatnonzero(change)
    effect = "the curve and its peak are right; which blocks were live is unknown"
    advice = "export the timeline as .raw.json.gz"
    builder.report.add(
        "blocks-not-told", "loss", len(changes), f"{width - 1} categories, without blocks", effect, advice
    )
    builder.allocations(
        ts=ts[changes], addr=0, bytes=change[changes], device=device, allocated=total[changes], reserved=0
    )


def _is_in_range(value: Any) -> bool:
    return type(value) is int and -_MOST * 1000 < value < _MOST * 1000


def _counters(ts: IntArray, levels: npt.NDArray[np.int64], builder: TraceBuilder) -> None:
    """Add a counter per category, where it changes, and a table of the peak."""
    last = np.append(ts[1:] != ts[:-1], True)  # of several rows of one instant, the last one holds
    ts, levels = ts[last], levels[last]
    for i, name in enumerate(CATEGORIES):
        changes = np.flatnonzero(np.diff(levels[:, i], prepend=0))
        if len(changes):
            track = builder.track(f"memory: {name}", "counter", unit="bytes")
            builder.counter(track, ts[changes], levels[changes, i])
    peak = int(levels.sum(axis=1).argmax())
    builder.metadata.setdefault("tables", {})["memory_categories"] = pd.DataFrame(
        {"category": list(CATEGORIES), "at_peak_bytes": levels[peak], "most_bytes": levels.max(axis=0)}
    )


def _numbers(size: IntArray) -> IntArray:
    """Return block numbers: the n-th allocation and the n-th free of a size are the same block."""
    frame = pd.DataFrame({"bytes": np.abs(size), "free": size < 0})
    frame["turn"] = frame.groupby(["bytes", "free"]).cumcount()
    return as_ints(1 + frame.groupby(["bytes", "turn"], sort=False).ngroup().to_numpy())


_LONG1: Final = rb"\x8a(?:" + b"|".join(rb"%c.{%d}" % (n, n) for n in range(1, 10)) + rb"|\x00)"
_SCALAR: Final = rb"(?:K.|M..|J....|N|\x88|\x89|" + _LONG1 + rb")"
_TUPLE: Final = (
    _SCALAR + rb"(?:\x85|" + _SCALAR + rb"(?:\x86|" + _SCALAR + rb"\x87))|\(" + _SCALAR + rb"{0,64}t"
)
_PLAIN: Final = rb"[}\])suaeN(\x88\x89\x94]|[Kqh].|M..|[Jj]....|G.{8}|" + _LONG1
_RUN: Final = re.compile(rb"(?:" + _TUPLE + rb"|" + _PLAIN + rb"){1,4000}", re.DOTALL)
"""A run of opcodes that build plain data and have a fixed size; tuples of numbers only, since the hash of
nested tuples takes time that doubles with each level."""

_LENGTHS: Final = {0x8C: 1, 0x58: 4, 0x8D: 8}
"""Opcodes of texts, and the number of bytes that hold the length."""

_FRAME: Final = 0x95
_LONG_BINPUT: Final = 0x72
_STOP: Final = 0x2E
_PROTOCOLS: Final = range(2, 6)
_FAILURES: Final = (
    pickle.UnpicklingError,
    EOFError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
)


def load_plain(data: bytes) -> Any:
    """Unpickle data that consists of lists, dicts, tuples of numbers, str, int, float, bool and None."""
    # Two safeguards: all opcodes are checked before the first is executed, and only those that build plain
    # data are allowed, with lengths that fit into the file; then `pickle.Unpickler` runs with a `find_class`
    # and a `persistent_load` that refuse everything.
    end = _checked_end(data)
    # classes that a program registered there would not be asked for through find_class
    copyreg.clear_extension_cache()
    try:
        return _Plain(io.BytesIO(data[:end])).load()
    except _FAILURES as error:
        raise FormatError(f"the pickle cannot be read: {error}") from error


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it refers to {module}.{name}, and no file may import anything")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("it refers to something outside the file")


def _checked_end(data: bytes) -> int:
    """Check every opcode, and return where the pickle ends."""
    if len(data) < 2 or data[0] != 0x80 or data[1] not in _PROTOCOLS:
        raise FormatError(f"this is not a pickle of protocol 2 to 5: it starts with {data[:8]!r}")
    at = 2
    try:
        while True:
            if at >= len(data):
                raise IndexError
            if match := _RUN.match(data, at):
                at = match.end()
            opcode = data[at]
            if opcode == _STOP:
                return at + 1
            if opcode in _LENGTHS:
                width = _LENGTHS[opcode]
                at += 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "little")
            elif opcode == _FRAME:
                at += 9
            elif opcode == _LONG_BINPUT and int.from_bytes(data[at + 1 : at + 5], "little") <= at:
                # a larger number would make the unpickler reserve memory for all numbers below
                at += 5
            elif match is None:
                raise FormatError(_refusal(data, at))
    except IndexError:
        raise FormatError("the pickle is cut off: copy the file again") from None


def _refusal(data: bytes, at: int) -> str:
    # the opcode before may be part of what is refused, as in a tuple of tuples
    opcode_names = {ord(code.code): code.name for code in pickletools.opcodes}
    name = opcode_names.get(data[at], hex(data[at]))
    if len(data) - at < 16 and data[at] not in (0x93, 0x52, 0x63):
        return f"the pickle is cut off or damaged at byte {at:,} ({name}): copy the file again"
    return (
        f"the pickle would do {name!r} at byte {at:,}, which a memory snapshot never does, so it is not "
        "opened: only lists, dicts, text and numbers are read"
    )
