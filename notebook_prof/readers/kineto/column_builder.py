"""Builds columns from decoded events, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Raw

from ...trace.arrays import BoolArray, IntArray, numbered
from ...trace.nesting import pair
from ...trace.report import ImportReport
from ..codec.columns import ValueInterner
from ..codec.numbers import exact_ns, integers, number_of, to_ns
from ..events import report_unpaired
from .arguments import ACTIVITY_TYPE, ProfilerRanges
from .columns import (
    BOOKKEEPING,
    CALL,
    DEVICE,
    EXTRAS,
    NAMELESS,
    OPERATOR,
    UNKNOWN,
    flags_of_name,
    flags_of_type,
)
from .event_types import EXTRA, Begin, Variant, complete_type, extra_of
from .instant_events import InstantEvents

_NO_EXTRA: Final = (None,) * len(EXTRA)

_ZERO_WHERE_MISSING: Final = frozenset({
    "flags", "fwd_thread", "dims", "old_dims", "dtypes", "strides", "concrete", "extra", "stack", "path",
    "ts", "dur",
})  # fmt: skip
"""Columns whose missing value is 0 instead of -1."""

Columns = dict[str, npt.NDArray[Any]]
Span = tuple[str, str, int | str | None, int | str | None]
"""Activity type, name, process and thread of an event."""


class FlaggedInterner(ValueInterner):
    """Numbers distinct texts, each of which may be None, and keeps flags for each."""

    def __init__(self, flags_of: Callable[[str | None], int]) -> None:
        super().__init__()
        self._flags_of = flags_of
        self._flags = bytearray()

    def __missing__(self, value: str | None) -> int:
        self._flags.append(self._flags_of(value))
        return super().__missing__(value)

    def flags(self, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
        """Return the flags of the texts with these codes."""
        return np.array(self._flags, np.uint8)[codes]


class ColumnBuilder:
    """Collects decoded events as columns of numbers, and the distinct values behind the codes."""

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self.names = FlaggedInterner(flags_of_name)
        self.types = FlaggedInterner(flags_of_type)
        # code 0 is "nothing"
        self.dims, self.dtypes, self.strides, self.concrete = (ValueInterner({b"": 0}) for _ in range(4))
        self.extras = ValueInterner({_NO_EXTRA: 0})
        self.stacks, self.paths = ValueInterner({"": 0}), ValueInterner({"": 0})
        # all events without a duration, and ranges, which `read_events` fills
        self.instants, self.ranges = InstantEvents(report), ProfilerRanges()
        self.range_count = 0  # ranges among the events of the last chunk
        self._chunks: list[Columns] = []

    def add_events(self, events: list[Any], variant: Variant) -> Variant:
        """Add the events of a chunk and return the variant they need; add none if it is not `variant`."""
        complete = complete_type(variant)
        spans = [event for event in events if type(event) is complete]
        count = len(spans)
        others = [event for event in events if type(event) is not complete] if count < len(events) else []
        name = self.names.column([span.name for span in spans])
        kind = self.types.column([span.cat for span in spans])
        flags = self.types.flags(kind) | self.names.flags(name)
        range_code = self.types.get(ACTIVITY_TYPE, -1)
        self.range_count = int(np.count_nonzero(kind == range_code)) if range_code >= 0 else 0
        if not variant.all_arguments and (flags & EXTRAS).any():
            return variant._replace(all_arguments=True)
        times = _times(spans, variant.text_times)
        if times is None:
            return variant._replace(text_times=True)
        self.instants.add(others)
        ts, dur, ok = times
        good = ok & (flags & NAMELESS == 0)
        self._report.broken_rows(count - int(good.sum()), "no name, start or duration")
        keep = np.flatnonzero(good & (flags & BOOKKEEPING == 0))
        if len(keep) < count:
            spans = [spans[i] for i in keep.tolist()]
            name, kind, flags, ts, dur = name[keep], kind[keep], flags[keep], ts[keep], dur[keep]
        if spans:
            chunk: Columns = {"name": name, "kind": kind, "flags": flags, "ts": ts, "dur": dur}
            chunk["pid"] = integers([span.pid for span in spans])
            chunk["tid"] = integers([span.tid for span in spans])
            self._chunks.append(chunk | self._arguments([span.args for span in spans], flags))
        return variant

    def add_spans(self, spans: Sequence[Span], ts: IntArray, dur: IntArray) -> None:
        """Add further events, with times in ns."""
        kind = self.types.column([span[0] for span in spans])
        chunk: Columns = {"kind": kind, "flags": self.types.flags(kind), "ts": ts, "dur": dur}
        chunk["name"] = self.names.column([span[1] for span in spans])
        chunk["pid"], chunk["tid"] = (integers([span[i] for span in spans]) for i in (2, 3))
        self._chunks.append(chunk)

    def end(self) -> int:
        """Return the end of the last event in the file's ns; 0 without events."""
        return int((self.column("ts") + self.column("dur")).max(initial=0))

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one column of all events, with 0 or -1 for missing values."""
        missing = 0 if name in _ZERO_WHERE_MISSING else -1
        dtype = next((chunk[name].dtype for chunk in self._chunks if name in chunk), np.dtype(np.int64))
        parts = [
            chunk[name] if name in chunk else np.full(len(chunk["ts"]), missing, dtype)
            for chunk in self._chunks
        ]
        return np.concatenate([np.empty(0, dtype), *parts])

    def _arguments(self, args: list[Any], flags: npt.NDArray[np.uint8]) -> Columns:
        """Return the columns of arguments that events of these types can have."""
        chunk: Columns = {}

        def put(name: str, rows: IntArray | None, values: npt.NDArray[Any]) -> None:
            column = values
            if rows is not None:
                column = np.full(len(args), 0 if name in _ZERO_WHERE_MISSING else -1, values.dtype)
                column[rows] = values
            chunk[name] = column

        rows, some = _flagged(args, flags & (CALL | DEVICE | UNKNOWN))
        put("correlation", rows, integers([each.correlation for each in some]))
        rows, some = _flagged(args, flags & (DEVICE | UNKNOWN))
        put("device", rows, integers([each.device for each in some]))
        put("stream", rows, integers([each.stream for each in some]))
        rows, some = _flagged(args, flags & EXTRAS)
        put("extra", rows, self.extras.column(map(extra_of, some)))
        rows, some = _flagged(args, flags & (OPERATOR | UNKNOWN))
        if some:
            put("sequence", rows, integers([each.sequence for each in some]))
            put("fwd_thread", rows, integers([each.fwd_thread for each in some]))
            put("dims", rows, self.dims.column(_copies([each.dims for each in some])))
            put("dtypes", rows, self.dtypes.column(_copies([each.types for each in some])))
            put("strides", rows, self.strides.column(_copies([each.strides for each in some])))
            put("concrete", rows, self.concrete.column(_copies([each.concrete for each in some])))
            for name, interner, values in (  # written by old versions only
                ("old_dims", self.dims, [bytes(each.old_dims) for each in some]),
                ("stack", self.stacks, [each.call_stack for each in some]),
                ("path", self.paths, [each.hierarchy for each in some]),
            ):
                if any(values):
                    put(name, rows, interner.column(values))
        return chunk


def _times(spans: list[Any], text_times: bool) -> tuple[IntArray, IntArray, BoolArray] | None:
    """Return starts, durations and a mask of valid ones; None if times are needed as text."""
    if text_times:
        ts, ts_ok = to_ns([span.ts for span in spans])
        dur, dur_ok = to_ns([span.dur for span in spans])
        return ts, dur, ts_ok & dur_ok
    exact_ts, exact_dur = exact_ns([span.ts for span in spans]), exact_ns([span.dur for span in spans])
    if exact_ts is None or exact_dur is None:
        return None
    return exact_ts, exact_dur, np.ones(len(spans), bool)


def _copies(texts: list[Raw]) -> list[bytes]:
    """Return copies of JSON texts that outlive the chunk. Join and split are faster than single copies."""
    return b"\0".join(texts).split(b"\0") if texts else []  # no valid JSON holds a NUL


def _flagged(args: list[Any], flags: npt.NDArray[Any]) -> tuple[IntArray | None, list[Any]]:
    """Return the rows of the events with a flag (None: all rows), and their arguments."""
    rows = np.flatnonzero(flags)
    if len(rows) == len(args):
        return None, args
    return rows, [args[i] for i in rows.tolist()]


def add_pairs_and_marks(columns: ColumnBuilder, report: ImportReport) -> None:
    """Turn the begins, ends and marks among ``columns.instants`` into events of `columns`."""
    # PyTorch writes only complete events, but tools that rewrite its files split them. A begin without an end
    # lasts to the end of the file, and an end without a begin is left out.
    marks = columns.instants.marks
    if marks:
        ts = np.array([mark[3] for mark in marks], np.int64)
        columns.add_spans([("instant", name, pid, tid) for name, pid, tid, _ in marks], ts, np.zeros_like(ts))
    _add_pairs(columns, report)


def _add_pairs(columns: ColumnBuilder, report: ImportReport) -> None:
    rows = columns.instants.begins_and_ends
    ts, ok = to_ns([row.ts for row in rows])
    report.broken_rows(~ok, lambda i: rows[i])
    rows, ts = [row for row, good in zip(rows, ok.tolist(), strict=True) if good], ts[ok]
    if not rows:
        return
    track, _ = numbered((number_of(row.pid), number_of(row.tid)) for row in rows)
    pairs = pair(track, ts, np.array([isinstance(row, Begin) for row in rows]))
    begin, dur = pairs.spans(ts, max(int(ts.max()), columns.end()))
    opened = [row for row in (rows[i] for i in begin.tolist()) if isinstance(row, Begin)]
    spans = [(row.cat or "", row.name or "", row.pid, row.tid) for row in opened]
    columns.add_spans(spans, ts[begin], dur)
    report_unpaired(report, pairs.unclosed, pairs.unopened, rows.__getitem__)
