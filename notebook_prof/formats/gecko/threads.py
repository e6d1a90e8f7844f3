"""The threads of a Firefox profile: their processes, and their trees of stacks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from ...readers.call_tree import CallFrame, StackTree, stack_tree
from ...readers.codec.tolerant_json import decoded
from ...readers.events import unique_name
from ...trace.arrays import BoolArray, FloatArray, IntArray
from ...trace.builder import TraceBuilder
from ...trace.nesting import inherit
from ...trace.report import ImportReport

_LARGEST: Final = 2.0**61


class GeckoTable:
    """One table of a profile: columns, or rows behind a schema."""

    def __init__(self, text: Raw | bytes | None) -> None:
        content = decoded(text) if text else None
        table = content if isinstance(content, dict) else {}
        # None in a row without a value; columns may be shorter than the table
        self.columns = _columns(table)
        # what is beside the columns, such as ``weightType``
        self.facts = {name: value for name, value in table.items() if not isinstance(value, list)}
        self.count = max(map(len, self.columns.values()), default=0)

    def __contains__(self, name: str) -> bool:
        return any(value is not None for value in self.columns.get(name, ()))

    def values(self, name: str) -> list[Any]:
        """Return a column as written, with None for missing values."""
        column = self.columns.get(name, [])
        return column + [None] * (self.count - len(column))

    def numbers(self, name: str) -> FloatArray:
        """Return a column of numbers, with NaN for missing ones."""
        return to_floats(self.values(name))

    def integers(self, name: str, missing: int = -1) -> IntArray:
        """Return a column of positions or ids."""
        value = self.numbers(name)
        ok = np.isfinite(value) & (np.abs(value) < _LARGEST)
        return np.where(ok, np.where(ok, value, 0).astype(np.int64), missing)

    def ns(self, name: str) -> IntArray:
        """Return a column of milliseconds in ns; `NO_TIME` where there is none."""
        return ms_to_ns(self.numbers(name))

    def times(self) -> IntArray:
        """Return the time of each row in ns: as written, or the sum of the differences up to it."""
        if "time" in self or "timeDeltas" not in self:
            return self.ns("time")
        deltas = self.numbers("timeDeltas")
        return np.where(np.isfinite(deltas), ms_to_ns(np.cumsum(np.nan_to_num(deltas))), NO_TIME)


NO_TIME: Final = -(1 << 61)
"""Marks a missing time."""


def ms_to_ns(value: FloatArray) -> IntArray:
    """Return milliseconds in ns; `NO_TIME` for NaN."""
    scaled = value * 1_000_000
    ok = np.isfinite(scaled) & (np.abs(scaled) < _LARGEST)
    return np.where(ok, np.rint(np.where(ok, scaled, 0)).astype(np.int64), NO_TIME)


def to_floats(values: Sequence[Any]) -> FloatArray:
    """Return numbers as an array, with NaN for other values."""
    try:
        return np.array(values, np.float64).reshape(len(values))
    except (TypeError, ValueError, OverflowError):
        return np.array([_float(value) for value in values], np.float64)


def _float(value: Any) -> float:
    try:
        return float(value) if isinstance(value, int | float) else float("nan")
    except OverflowError:
        return float("nan")


def _columns(content: Mapping[str, Any]) -> dict[str, list[Any]]:
    schema, rows = content.get("schema"), content.get("data")
    if not isinstance(schema, dict) or not isinstance(rows, list):
        return {name: value for name, value in content.items() if isinstance(value, list)}
    columns = list(zip_longest(*(row if isinstance(row, list) else () for row in rows)))
    return {
        str(name): list(columns[at]) if at < len(columns) else [None] * len(rows)
        for name, at in schema.items()
        if isinstance(at, int) and at >= 0
    }


_LOCATION: Final = re.compile(r"(?P<name>.*) \((?P<file>.*?):(?P<line>\d{1,9})(?::\d+)?\)(?: \[.*\])?", re.S)
_LIBRARY: Final = re.compile(r"(?P<name>.*) \(in (?P<file>[^()]*)\)", re.S)


class GeckoStacks(NamedTuple):
    """The stacks that samples refer to."""

    tree: StackTree
    node: IntArray  # of each stack of the file, in `tree`


def idle_categories(listed: Any) -> BoolArray:
    """Return a mask of the categories named Idle, with False appended for stacks without a category."""
    kinds = listed if isinstance(listed, list) else []
    return np.array([*(isinstance(kind, dict) and kind.get("name") == "Idle" for kind in kinds), False])


def gecko_stacks(
    tables: Mapping[str, GeckoTable],  # ``stackTable frameTable funcTable resourceTable sources``
    strings: Sequence[str],
    idle: BoolArray,  # by category, from `idle_categories`
    report: ImportReport,  # counts stacks whose caller or frame is missing
) -> GeckoStacks:
    stacks, frame_rows = tables["stackTable"], tables["frameTable"]
    prefix, frame = stacks.integers("prefix"), stacks.integers("frame")
    row = np.arange(len(prefix))
    wrong = (prefix >= row) | (frame < 0) | (frame >= frame_rows.count)
    report.broken_rows(wrong, lambda i: f"stack {i} of a profile", "its outer frames are left out")
    prefix = np.where(wrong | (prefix < 0), -1, prefix)
    frames = _frames(tables, strings)
    frame = np.where(wrong, len(frames), frame)
    frames.append(CallFrame("[unknown]", "", 0))
    category = _categories(stacks, frame_rows, prefix, frame)
    category[category >= len(idle)] = -1
    return GeckoStacks(*stack_tree(prefix, frame, frames, report, idle[category]))


def _categories(stacks: GeckoTable, frame_rows: GeckoTable, prefix: IntArray, frame: IntArray) -> IntArray:
    """Return the category of each stack: its own, its frame's, or its caller's; -1 for none."""
    own = stacks.integers("category")
    own = np.where(own < 0, np.append(frame_rows.integers("category"), -1)[frame], own)
    source = inherit(prefix, np.where(own >= 0, np.arange(len(own)), -1))
    return np.where(source < 0, -1, own[source])


def _frames(tables: Mapping[str, GeckoTable], strings: Sequence[str]) -> list[CallFrame]:
    frame_rows = tables["frameTable"]
    line = frame_rows.integers("line", 0).tolist()
    if "location" in frame_rows:
        texts = _words(strings, frame_rows.integers("location"))
        return [location_frame(text, number) for text, number in zip(texts, line, strict=True)]
    functions, sources = tables["funcTable"], tables["sources"]
    names = _words(strings, functions.integers("name"))
    files = _words(strings, functions.integers("fileName"))
    if "source" in functions:
        column = "filename" if "filename" in sources else "url"
        listed = _words(strings, sources.integers(column))
        files = _words(listed, functions.integers("source"))
    libraries = _words(strings, tables["resourceTable"].integers("name"))
    within = _words(libraries, functions.integers("resource"))
    begins = functions.integers("lineNumber", 0).tolist()
    functions_seen = zip(names, files, within, begins, strict=True)
    places = [(name or "[unknown]", file or library, begin) for name, file, library, begin in functions_seen]
    unknown = ("[unknown]", "", 0)
    frames = []
    for i, number in zip(frame_rows.integers("func").tolist(), line, strict=True):
        name, file, begin = places[i] if 0 <= i < len(places) else unknown
        frames.append(CallFrame(name, file, _line(number or begin)))
    return frames


def location_frame(text: str, line: int) -> CallFrame:
    """Read a frame as Firefox and ``perf script`` write it; `line` is 0 if unknown.

    >>> location_frame("step (https://a.org/x.js:34:5)", 36), location_frame("poll (in libc.so.6)", 0).file
    (CallFrame(function='step', file='https://a.org/x.js', line=36), 'libc.so.6')
    """
    if (match := _LOCATION.fullmatch(text)) is not None:
        return CallFrame(match["name"], match["file"], _line(line or int(match["line"])))
    if (match := _LIBRARY.fullmatch(text)) is not None:
        return CallFrame(match["name"], match["file"], _line(line))
    return CallFrame(text or "[unknown]", "", _line(line))


def _line(number: int) -> int:
    return number if 0 < number < 2**31 else 0


def _words(strings: Sequence[str], rows: IntArray) -> list[str]:
    return [strings[i] if 0 <= i < len(strings) else "" for i in rows.tolist()]


class GeckoThread(NamedTuple):
    """A thread of a profile."""

    track: int
    name: str  # unique within the profile
    pid: int | None  # None if the profile has made one up


class GeckoTracks:
    """Makes a track for each thread, even if it has no number or shares it with another."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._names: set[tuple[int | None, str]] = set()
        self._ids: set[tuple[int | None, int | None]] = set()
        self._processes: dict[str, str] = {}

    def add(self, name: Any, pid: Any, tid: Any, process: Any) -> GeckoThread:
        """Return the track of a thread, always a new one."""
        number, thread = process_id(pid), process_id(tid)
        if number is not None and isinstance(process, str) and process:
            self._processes.setdefault(str(number), process)
            self._builder.metadata["processes"] = self._processes
        label = name if isinstance(name, str) and name else "thread"
        if number is None and isinstance(pid, str) and pid:
            label = f"{label} of {pid}"
        label = self.unique(label, number)
        if number is None or (number, thread) in self._ids:
            thread = None
        self._ids.add((number, thread))
        return GeckoThread(self._builder.track(label, pid=number, tid=thread), label, number)

    def unique(self, name: str, pid: int | None) -> str:
        return unique_name(name, pid, self._names)


def process_id(value: Any) -> int | None:
    """Return the number of a process or thread; None for names such as ``"Unknown Process 1"``."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 2**62 else None


# Counters of the Firefox Profiler, and the CPU use of its threads.

CPU_SCALE: Final = {"ns": 1, "µs": 1_000, "us": 1_000, "ms": 1_000_000}
"""Nanoseconds in each unit of CPU time that ``sampleUnits`` may name. Cycles are not a unit of time."""
_SUMMED: Final = {"Memory", "Bandwidth"}
_JOULES: Final = 3.6e-9
"""Joules in a picowatt-hour."""


def add_counters(
    builder: TraceBuilder, tracks: GeckoTracks, counters: Sequence[Any], pid: Any, base: int, units: Any
) -> None:
    # The file has what was added since the previous value. Of memory and traffic, the sum is shown in bytes,
    # from 0 at its lowest; of power, watts; of the process's CPU time, the share of a processor; of anything
    # else, what the file has. `pid` is used for counters that name no process, `base` is where times
    # begin in absolute ns, and `units` is ``sampleUnits`` of the profile.
    for number, counter in enumerate(counters):
        if not isinstance(counter, dict):
            builder.report.broken_rows(1, f"counter {number}", "left out")
            continue
        process = process_id(counter.get("pid", pid))
        scale = CPU_SCALE.get(str(units.get("threadCPUDelta"))) if isinstance(units, dict) else None
        groups = counter.get("sampleGroups", counter.get("sample_groups"))
        listed = groups if isinstance(groups, list) else [counter if groups is None else groups]
        for part in (each.get("samples") for each in listed if isinstance(each, dict)):
            name = tracks.unique(str(counter.get("name") or "counter"), process)
            table = GeckoTable(msgspec.json.encode(part))
            _add(builder, name, process, str(counter.get("category", "")), table, base, scale)


def _add(
    builder: TraceBuilder,
    name: str,
    pid: int | None,
    category: str,
    table: GeckoTable,
    base: int,
    scale: int | None,
) -> None:
    ts, added = table.times(), table.numbers("count")
    ok = (ts != NO_TIME) & np.isfinite(added)
    builder.report.broken_rows(~ok, lambda i: f"value {i} of the counter {name}", "these values are left out")
    order = np.argsort(ts[ok], kind="stable")
    ts, added = ts[ok][order], added[ok][order]
    if not len(ts):
        return
    unit, value = "", added
    if category in _SUMMED:
        total = np.cumsum(added)
        unit, value = "bytes", total - min(float(total.min()), 0.0)
    elif category.lower() == "power":
        ts, value = _rate(ts, added * _JOULES * 1e9)
        unit = "W"
    elif category == "CPU" and scale:
        ts, value = _rate(ts, added * scale)
        unit = "1"
    builder.counter(builder.track(name, "counter", pid=pid, unit=unit), ts + base, value)


def _rate(ts: Any, added: FloatArray) -> tuple[Any, FloatArray]:
    """Return the start of each interval between two values, and the rate in it per nanosecond."""
    dur = np.diff(ts)
    value = np.divide(added[1:], dur, out=np.zeros(len(dur)), where=dur > 0)
    return ts[:-1][dur > 0], value[dur > 0]


def add_cpu_use(
    builder: TraceBuilder, thread: GeckoThread, samples: GeckoTable, scale: int | None, base: int
) -> None:
    """Put the share of a processor that a thread used between two samples into `builder`."""
    if "threadCPUDelta" not in samples:
        return
    ts, used = samples.times(), samples.numbers("threadCPUDelta")
    ok = (ts != NO_TIME) & np.isfinite(used)
    if scale is None:
        effect = "CPU use in cycles has no share of a processor: it is left out"
        builder.report.add("cpu-use-not-told", "info", int(ok.sum()), thread.name, effect)
        return
    ts, value = _rate(ts[ok], used[ok] * scale)
    if len(ts):
        track = builder.track(f"CPU of {thread.name}", "counter", pid=thread.pid, unit="1")
        builder.counter(track, ts + base, value)
