"""A profile of the Firefox Profiler, and the processes inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Raw, Struct

from ...errors import FormatError
from ...readers.call_tree import add_tree_samples, count_samples, sample_durations
from ...readers.codec.tolerant_json import UNDECODABLE, decode_object
from ...readers.events import match, report_unpaired
from ...trace.arrays import BoolArray, FloatArray, IntArray, numbered
from ...trace.builder import TraceBuilder
from .threads import (
    CPU_SCALE,
    NO_TIME,
    GeckoStacks,
    GeckoTable,
    GeckoTracks,
    add_counters,
    add_cpu_use,
    gecko_stacks,
    idle_categories,
    ms_to_ns,
    to_floats,
)

_NOTHING: Final = Raw(b"null")
_STACKS: Final = ("stackTable", "frameTable", "funcTable", "resourceTable")
_USED: Final = {"stack", "time", "timeDeltas", "weight", "threadCPUDelta"}
_DEEPEST: Final = 8
_EPOCH_MS: Final = 1e11
"""1973 in milliseconds since the epoch. A profile that starts earlier counts from another moment."""


class _ThreadTables(Struct):
    name: Any = ""
    pid: Any = None
    tid: Any = None
    processName: Any = None
    samples: Raw = _NOTHING
    markers: Raw = _NOTHING
    stackTable: Raw = _NOTHING
    frameTable: Raw = _NOTHING
    funcTable: Raw = _NOTHING
    resourceTable: Raw = _NOTHING
    stringArray: Any = None
    stringTable: Any = None
    nativeAllocations: Raw = _NOTHING
    jsAllocations: Raw = _NOTHING


class _GeckoProfile(Struct):
    meta: dict[str, Any] = {}
    threads: list[Raw] = []
    processes: list[Raw] = []
    counters: list[Raw] = []
    shared: dict[str, Raw] = {}


_Shared = tuple[list[str] | None, Mapping[str, Raw], GeckoStacks | None]
"""Strings, tables and, in some versions, stacks that the threads of a profile share."""


def read_profile(data: bytes, builder: TraceBuilder) -> None:
    """Put the profile's threads, markers and counters into `builder`."""
    profile = decode_object(data, _GeckoProfile, "the Firefox Profiler's")
    begin = profile.meta.get("startTime")
    import_ = _Import(builder, _number(begin) >= _EPOCH_MS)
    import_.add(profile)
    if not import_.threads:
        raise FormatError("the profile has no thread with samples or markers")
    import_.finish(profile.meta)


class _Import:
    """Puts a profile and the processes inside it into a builder."""

    def __init__(self, builder: TraceBuilder, has_epoch: bool) -> None:
        self._builder = builder
        self._has_epoch = has_epoch
        self._tracks = GeckoTracks(builder)
        self._unused: set[str] = set()
        self._in_bytes = 0
        self.threads = 0

    def add(self, profile: _GeckoProfile, depth: int = 0) -> None:
        """Add one process or, for a processed profile, all of them."""
        base = round(_number(profile.meta.get("startTime")) * 1000) * 1000 if self._has_epoch else 0
        idle = idle_categories(profile.meta.get("categories"))
        shared = self._shared(profile, idle)
        threads = list(self._decoded(profile.threads, _ThreadTables, "thread"))
        for thread in threads:
            if any(bytes(table).startswith(b"{") for table in (thread.samples, thread.markers)):
                self._add_thread(thread, profile.meta, shared, idle, base)
        pid = next((each.pid for each in threads), None)
        add_counters(
            self._builder, self._tracks, [msgspec.json.decode(text) for text in profile.counters], pid, base,
            profile.meta.get("sampleUnits"),
        )  # fmt: skip
        if depth >= _DEEPEST:
            self._builder.report.add(
                "broken-profile", "loss", len(profile.processes),
                example=f"processes inside of {depth} others", effect="left out",
            )  # fmt: skip
            return
        for child in self._decoded(profile.processes, _GeckoProfile, "process"):
            self.add(child, depth + 1)

    def finish(self, meta: Mapping[str, Any]) -> None:
        """Add the data that belongs to all threads."""
        builder = self._builder
        for key, name in (("product", "product"), ("importedFrom", "exporter")):
            if isinstance(meta.get(key), str):
                builder.metadata[name] = meta[key]
        example = ", ".join(sorted(self._unused))
        effect = "details of samples and allocations are left out; times are complete"
        builder.report.add("columns-not-used", "info", len(self._unused), example, effect)
        if self._in_bytes == self.threads:
            raise FormatError(
                "its samples are weighted by bytes and have no times. Open it in profiler.firefox.com"
            )
        if builder.is_empty:
            builder.report.add("no-events", "info", 1, f"{self.threads:,} threads", "all tables are empty")

    def _decoded(self, texts: list[Raw], kind: type[Any], what: str) -> Iterator[Any]:
        for number, text in enumerate(texts):
            try:
                yield msgspec.json.decode(text, type=kind)
            except UNDECODABLE as error:
                self._builder.report.add("broken-profile", "loss", 1, f"{what} {number}: {error}", "left out")

    def _shared(self, profile: _GeckoProfile, idle: BoolArray) -> _Shared:
        listed = profile.shared.get("stringArray")
        strings = None if listed is None else _strings(msgspec.json.decode(listed))
        tables = {name: text for name, text in profile.shared.items() if name in (*_STACKS, "sources")}
        stacks = None
        if "stackTable" in tables and strings is not None:
            stacks = self._stacks(tables, strings, idle)
        return strings, tables, stacks

    def _stacks(self, tables: Mapping[str, Raw], strings: list[str], idle: BoolArray) -> GeckoStacks:
        ready = {name: GeckoTable(tables.get(name)) for name in (*_STACKS, "sources")}
        return gecko_stacks(ready, strings, idle, self._builder.report)

    def _add_thread(
        self,
        thread: _ThreadTables,
        meta: Mapping[str, Any],
        shared: _Shared,
        idle: BoolArray,
        base: int,
    ) -> None:
        self.threads += 1
        own = thread.stringArray if thread.stringArray is not None else thread.stringTable
        common, shared_tables, stacks = shared
        strings = common if common is not None and own is None else _strings(own)
        place_of = self._tracks.add(thread.name, thread.pid, thread.tid, thread.processName)
        samples = GeckoTable(thread.samples)
        self._builder.report.add(
            "names-missing",
            "loss",
            int(not strings and "stack" in samples),
            example=f"thread {str(thread.name)!r} has no string table",
            effect="its functions and markers have no names",
            advice="open it in profiler.firefox.com and save it from there",
        )
        if samples.facts.get("weightType") == "bytes":
            self._in_bytes += 1
            self._builder.report.add(
                "unit-not-time", "loss", samples.count, example=place_of.name,
                effect="samples weighted by bytes are left out", advice="open it in profiler.firefox.com",
            )  # fmt: skip
        elif samples.count:
            if stacks is None or bytes(thread.stackTable) != b"null":
                tables = {name: getattr(thread, name) for name in _STACKS}
                tables = {name: text for name, text in tables.items() if bytes(text) != b"null"}
                stacks = self._stacks({**shared_tables, **tables}, strings, idle)
            self._add_samples(samples, stacks, place_of.track, _number(meta.get("interval")), base)
            scale = CPU_SCALE.get(str((meta.get("sampleUnits") or {}).get("threadCPUDelta")))
            add_cpu_use(self._builder, place_of, samples, scale, base)
        self._unused |= {name for name in samples.columns if name not in _USED and name in samples}
        for name in ("nativeAllocations", "jsAllocations"):
            if rows := GeckoTable(getattr(thread, name)).count:
                self._unused.add(f"{name} ({rows:,} rows)")
        markers = f"{place_of.name} · markers"
        add_markers(self._builder, markers, place_of.pid, GeckoTable(thread.markers), strings, base)

    def _add_samples(
        self, samples: GeckoTable, stacks: GeckoStacks, track: int, interval_ms: float, base: int
    ) -> None:
        report = self._builder.report
        ts, stack = samples.times(), samples.integers("stack")
        ok = (ts != NO_TIME) & (stack < len(stacks.node))
        report.broken_rows(~ok, lambda i: f"sample {i} of a thread", "these samples are left out")
        rows = np.flatnonzero(ok)
        rows = rows[np.argsort(ts[rows], kind="stable")]
        ts, stack = ts[rows], stack[rows]
        weight = samples.numbers("weight")[rows] if "weight" in samples else None
        begin, dur = _spans(ts, weight, str(samples.facts.get("weightType")), interval_ms)
        report.add_where(
            "negative-weight", "loss", dur < 0, lambda i: f"{dur[i]:,} ns",
            "these samples are left out", "open one profile, not the difference of two",
        )  # fmt: skip
        busy = (stack >= 0) & (dur > 0)
        if not busy.any():
            return
        begin, dur, stack = begin[busy], dur[busy], stack[busy]
        if weight is None or (weight == 1).all():
            count_samples(self._builder, track, len(stack))
        add_tree_samples(self._builder, track, begin + base, dur, stacks.node[stack], stacks.tree)


def _spans(
    ts: IntArray, weight: FloatArray | None, kind: str, interval_ms: float
) -> tuple[IntArray, IntArray]:
    """Return begin and duration of each sample; the duration is negative where the weight is."""
    if weight is None or not len(ts):
        return ts, sample_durations(ts) if len(ts) else ts
    weight = np.where(np.isfinite(weight) & (np.abs(weight) < 2.0**40), weight, 0)
    if kind == "tracing-ms":
        return ts, np.rint(weight * 1e6).astype(np.int64)
    if (weight == 1).all():
        return ts, sample_durations(ts)
    gaps = np.diff(ts)
    interval = interval_ms * 1e6 if 0 < interval_ms < 1e9 else float(np.median(gaps) if len(gaps) else 1)
    dur = np.rint(weight * interval).astype(np.int64)
    length = np.maximum(dur, 0)
    # a weight above 1 counts the intervals before the sample; none begins before the last one has ended
    begin = ts - np.maximum(length - round(interval), 0)
    behind = np.cumsum(length) - length
    return np.maximum.accumulate(begin - behind) + behind, dur


def _strings(listed: Any) -> list[str]:
    return [text if isinstance(text, str) else "" for text in listed] if isinstance(listed, list) else []


def _number(value: Any) -> float:
    number = float(to_floats([value])[0])
    return number if np.isfinite(number) and abs(number) < 2.0**43 else 0.0


# Markers.

_INSTANT, _INTERVAL, _START, _END = 0, 1, 2, 3
_NAMED: Final = ("Text", "UserTiming")
"""Types of markers whose name is in their arguments."""


def add_markers(
    builder: TraceBuilder,
    track_name: str,  # of the track beside the thread
    pid: int | None,
    # has ``phase startTime endTime``, or the older ``time``, whose arguments contain these
    table: GeckoTable,
    strings: Sequence[str],
    base: int,  # origin of the table's times, in absolute ns
) -> None:
    """Put the markers of a thread into `builder`, and count invalid ones."""
    if not table.count:
        return
    data = [value if isinstance(value, dict) else {} for value in table.values("data")]
    start, end, phase = _times(table, data)
    code = table.integers("name")
    ok = (code >= 0) & (code < len(strings)) & np.where(phase == _END, end != NO_TIME, start != NO_TIME)
    ok &= (phase != _INTERVAL) | (end != NO_TIME)
    builder.report.broken_rows(~ok, lambda i: f"marker {i} of {track_name}", "these are left out")
    names = [
        f"{strings[i]} {one['name']}" if one.get("type") in _NAMED and one.get("name") else strings[i]
        for i, one, good in zip(code.tolist(), data, ok.tolist(), strict=True)
        if good
    ]
    example = next((f"{track_name}: {', '.join(map(str, one))}"[:120] for one in data if len(one) > 1), "")
    effect = "markers have their names and times; other details are left out"
    described = sum(len(one) > ("type" in one) for one in data)
    builder.report.add("arguments-not-kept", "info", described, example, effect)
    if not names:
        return
    start, end, phase = start[ok], end[ok], phase[ok]
    begin, stop, row = _marker_spans(builder, names, start, end, phase)
    track, dur = builder.track(track_name, "process", pid=pid), np.maximum(stop - begin, 0)
    shown = [names[i] for i in row.tolist()]
    builder.slices(ts=begin + base, dur=dur, track=track, name=shown, category="annotation")


def _times(table: GeckoTable, data: list[dict[str, Any]]) -> tuple[IntArray, IntArray, IntArray]:
    """Return start, end and phase of each marker."""
    if "phase" in table:
        phase = table.integers("phase", _INSTANT)
        phase = np.where((phase < 0) | (phase > _END), _INSTANT, phase)
        return table.ns("startTime"), table.ns("endTime"), phase
    start = table.ns("time")
    begin, end = (ms_to_ns(to_floats([one.get(key) for one in data])) for key in ("startTime", "endTime"))
    spans = (begin != NO_TIME) & (end != NO_TIME)
    sides = [one.get("interval") for one in data]
    opens, closes = (np.array([side == word for side in sides], bool) for word in ("start", "end"))
    phase = np.select([spans, opens, closes], [_INTERVAL, _START, _END], _INSTANT)
    return np.where(spans, begin, start), np.where(spans, end, start), phase.astype(np.int64)


def _marker_spans(
    builder: TraceBuilder, names: list[str], start: IntArray, end: IntArray, phase: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return begin and end of each span, and the row of its name."""
    whole: BoolArray = (phase == _INSTANT) | (phase == _INTERVAL)
    rows = np.flatnonzero(whole)
    begin, stop = start[rows], np.where(phase[rows] == _INTERVAL, end[rows], start[rows])
    sides = np.flatnonzero(~whole)
    at = np.where(phase[sides] == _END, end[sides], start[sides])
    order = np.argsort(at, kind="stable")
    sides, at = sides[order], at[order]
    codes, _ = numbered(names[i] for i in sides.tolist())
    pairs = match(np.zeros(len(sides), np.int64), codes, at, phase[sides] != _END)
    last = int(max(at.max(initial=NO_TIME), stop.max(initial=NO_TIME)))
    until = "kept until the last marker of its thread"
    report_unpaired(builder.report, pairs.unclosed, pairs.unopened, lambda i: names[sides[i]], until)
    first, dur = pairs.spans(at, last)
    starts = np.concatenate([begin, at[first]])
    return starts, np.concatenate([stop, at[first] + dur]), np.concatenate([rows, sides[first]])
