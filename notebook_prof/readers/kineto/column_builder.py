"""Builds columns from decoded events, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Raw

from ...trace.arrays import IntArray
from ...trace.nesting import pair
from ...trace.report import ImportReport
from ..codec.columns import Interner
from ..codec.numbers import exact_ns, identifiers, integers, number_of, to_ns
from .arguments import ACTIVITY_TYPE, ProfilerRanges
from .columns import (
    ANY,
    BOOKKEEPING,
    CALL,
    CONCRETE,
    DEVICE,
    EXTRAS,
    NAMELESS,
    OPERATOR,
    UNKNOWN,
    flags_of_name,
    flags_of_type,
)
from .event_types import EXTRA, AllArguments, Arguments, Begin, OldArguments, Variant, complete_type, extra_of
from .instant_events import InstantEvents

_BARE_CHUNKS: Final = 3
"""After this many chunks in which no event needs its arguments, arguments are no longer decoded."""

_NO_EXTRA: Final = (None,) * len(EXTRA)

_ZERO_WHERE_MISSING: Final = frozenset(
    (
        *("flags", "fwd_thread", "dims", "old_dims", "dtypes", "strides", "concrete"),
        *("extra", "stack", "path", "ts", "dur"),
    )
)
"""Columns whose missing value is 0 instead of -1."""

Column = npt.NDArray[Any] | int
"""One value for each event, or one for all events of a chunk."""

Span = tuple[str, str, int | str | None, int | str | None]
"""Activity type, name, process and thread of an event."""


class FlaggedInterner(Interner):
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


class FirstCalls:
    """Finds the first call with each combination of name, shapes and element types."""

    def __init__(self) -> None:
        self._keys: set[int] = set()

    def rows(
        self,
        name: npt.NDArray[Any],
        shapes: npt.NDArray[Any],
        dtypes: npt.NDArray[Any],
        chosen: npt.NDArray[np.bool_],
    ) -> IntArray:
        """Return those of the chosen rows, in ascending order, whose combination of codes is new."""
        rows = np.flatnonzero(chosen)
        codes = (part.astype(np.int64)[rows] for part in (name, shapes, dtypes))
        key = next(codes) << 40
        for part, bits in zip(codes, (16, 0), strict=True):
            key ^= part << bits
        keys, first = np.unique(key, return_index=True)
        fresh = [i for i, one in zip(first.tolist(), keys.tolist(), strict=True) if one not in self._keys]
        self._keys.update(keys.tolist())
        return np.asarray(rows[np.sort(np.array(fresh, np.int64))])


class ColumnBuilder:
    """Collects decoded events as columns of numbers, and the distinct values behind the codes."""

    def __init__(self, report: ImportReport, small: type[Arguments] = Arguments) -> None:
        self._report, self._small = report, small  # `small` is decoded for most events that have arguments
        self.names = FlaggedInterner(flags_of_name)
        self.types = FlaggedInterner(flags_of_type)
        # code 0 is "nothing"
        self.dims, self.dtypes, self.strides, self.concrete = (Interner({b"": 0}) for _ in range(4))
        self._first_calls = FirstCalls()
        self.extras, self.stacks, self.paths = Interner({_NO_EXTRA: 0}), Interner({"": 0}), Interner({"": 0})
        # all events without a duration, and ranges, which `EventDecoder` fills
        self.instants, self.ranges = InstantEvents(report), ProfilerRanges()
        self.range_count = 0  # ranges among the events of the last chunk
        self._flags = self._bare_chunks = 0
        self._chunks: list[Mapping[str, Column]] = []
        self._counts: list[int] = []

    def add_events(self, events: list[Any], variant: Variant) -> Variant:
        """Add the events of a chunk, or return the larger variant with which to decode them again."""
        # The same variant is returned if the events were added.
        complete = complete_type(variant)
        spans = [event for event in events if type(event) is complete]
        count = len(spans)
        others = [event for event in events if type(event) is not complete] if count < len(events) else []
        name = self.names.column([span.name for span in spans])
        kind = self.types.column([span.cat for span in spans])
        flags = self.types.flags(kind) | self.names.flags(name)
        self._flags = int(np.bitwise_or.reduce(flags)) if count else 0
        range_code = self.types.get(ACTIVITY_TYPE, -1)
        self.range_count = int(np.count_nonzero(kind == range_code)) if range_code >= 0 else 0
        if needed := self._larger_arguments(variant):
            return variant._replace(arguments=needed)
        times = _times(spans, variant)
        if times is None:
            return variant._replace(text_times=True)
        ts, dur, ok = times
        if others and not self.instants.add(others):
            return variant._replace(text_times=True)
        if self._flags & (BOOKKEEPING | NAMELESS) or not (ok is None or ok.all()):
            good = flags & NAMELESS == 0 if ok is None else ok & (flags & NAMELESS == 0)
            self._report_lost(count - int(good.sum()))
            keep = np.flatnonzero(good & (flags & BOOKKEEPING == 0))
            spans = [spans[i] for i in keep.tolist()]
            name, kind, flags, ts, dur = name[keep], kind[keep], flags[keep], ts[keep], dur[keep]
        if spans:
            chunk: dict[str, Column] = {"name": name, "kind": kind, "flags": flags, "ts": ts, "dur": dur}
            chunk["pid"] = _constant(identifiers([span.pid for span in spans]))
            chunk["tid"] = _constant(identifiers([span.tid for span in spans]))
            self._add_chunk(chunk | self._arguments(spans, name, flags), len(spans))
        return variant

    def next_variant(self, variant: Variant) -> Variant:
        """Return the best variant for the next events, assuming that they are like the last chunk's."""
        self._bare_chunks = 0 if self._flags & ANY else self._bare_chunks + 1
        if self._flags & EXTRAS:
            return variant
        # decoding a chunk again costs more than decoding unneeded arguments
        return variant._replace(arguments=None if self._bare_chunks >= _BARE_CHUNKS else self._small)

    def add_spans(self, spans: Sequence[Span], ts: IntArray, dur: IntArray) -> None:
        """Add further events, with times in ns."""
        count = len(spans)
        kind = self.types.column([span[0] for span in spans])
        chunk: dict[str, Column] = {"kind": kind, "flags": self.types.flags(kind), "ts": ts, "dur": dur}
        chunk["name"] = self.names.column([span[1] for span in spans])
        chunk["pid"], chunk["tid"] = (identifiers([span[i] for span in spans]) for i in (2, 3))
        self._add_chunk(chunk, count)

    def end(self) -> int:
        """Return the end of the last event in the file's ns; 0 without events."""
        return int((self.column("ts") + self.column("dur")).max(initial=0))

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one column of all events, with 0 or -1 for missing values."""
        dtypes = [value.dtype for chunk in self._chunks if isinstance(value := chunk.get(name), np.ndarray)]
        missing = 0 if name in _ZERO_WHERE_MISSING else -1
        result = np.empty(sum(self._counts), dtypes[0] if dtypes else np.int64)
        at = 0
        for chunk, count in zip(self._chunks, self._counts, strict=True):
            result[at : at + count] = chunk.get(name, missing)
            at += count
        return result

    def _add_chunk(self, columns: Mapping[str, Column], count: int) -> None:
        self._counts.append(count)
        self._chunks.append(columns)

    def _larger_arguments(self, variant: Variant) -> type[Arguments] | None:
        """Return a larger type of arguments if these events may have more than was decoded."""
        if self._flags & EXTRAS and variant.arguments is not AllArguments:
            return AllArguments
        if self._flags & ANY and variant.arguments is None:
            return self._small
        return None

    def _report_lost(self, count: int) -> None:
        self._report.add(
            "broken-row",
            "loss",
            count,
            example="no name, start or duration",
            effect="these rows are left out",
        )

    def _arguments(
        self, spans: list[Any], names: npt.NDArray[np.int32], flags: npt.NDArray[np.uint8]
    ) -> dict[str, Column]:
        """Return the columns of arguments that events of these types can have."""
        chunk: dict[str, Column] = {}
        if not self._flags & ANY:
            return chunk
        args = [span.args for span in spans]
        n = len(args)
        first = np.empty(0, np.int64)

        def put(name: str, missing: int, rows: IntArray | None, values: npt.NDArray[Any]) -> None:
            column = values
            if rows is not None:
                column = np.full(n, missing, values.dtype)
                column[rows] = values
            chunk[name] = column

        if self._flags & (CALL | DEVICE | UNKNOWN):
            rows, some = _flagged(args, flags & (CALL | DEVICE | UNKNOWN))
            put("correlation", -1, rows, integers([each.correlation for each in some]))
        if self._flags & (DEVICE | UNKNOWN):
            rows, some = _flagged(args, flags & (DEVICE | UNKNOWN))
            put("device", -1, rows, identifiers([each.device for each in some]))
            put("stream", -1, rows, identifiers([each.stream for each in some]))
        if self._flags & EXTRAS:
            rows, some = _flagged(args, flags & EXTRAS)
            put("extra", 0, rows, self.extras.column(map(extra_of, some)))
        if self._flags & (OPERATOR | UNKNOWN):
            rows, some = _flagged(args, flags & (OPERATOR | UNKNOWN))
            sequence = integers([each.sequence for each in some])
            put("sequence", -1, rows, sequence)
            if (sequence >= 0).any():
                put("fwd_thread", 0, rows, integers([each.fwd_thread for each in some]))
            dims = self.dims.column(_copies([each.dims for each in some]))
            dtypes = self.dtypes.column(_copies([each.types for each in some]))
            put("dims", 0, rows, dims)
            put("dtypes", 0, rows, dtypes)
            first = self._first_calls.rows(names if rows is None else names[rows], dims, dtypes, dims > 0)
            first = first if rows is None else rows[first]
            if len(first):
                texts = _copies([args[i].strides for i in first.tolist()])
                put("strides", 0, first, self.strides.column(texts))
            if issubclass(self._small, OldArguments):
                for name, values in self._old_arguments(some):
                    put(name, 0, rows, values)
        if self._flags & CONCRETE or len(first):
            chosen = flags & CONCRETE
            chosen[first] = CONCRETE
            rows, some = _flagged(args, chosen)
            put("concrete", 0, rows, self.concrete.column(_copies([each.concrete for each in some])))
        return chunk

    def _old_arguments(self, args: list[Any]) -> Iterable[tuple[str, npt.NDArray[Any]]]:
        for name, interner, read in (
            ("old_dims", self.dims, lambda each: bytes(each.old_dims)),
            ("stack", self.stacks, attrgetter("call_stack")),
            ("path", self.paths, attrgetter("hierarchy")),
        ):
            values = interner.column(map(read, args))
            if values.any():
                yield name, values


def _times(
    spans: list[Any], variant: Variant
) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_] | None] | None:
    """Return starts, durations and a mask of valid ones (None: all); None if times are needed as text."""
    if variant.text_times:
        ts, ts_ok = to_ns([span.ts for span in spans])
        dur, dur_ok = to_ns([span.dur for span in spans])
        return ts, dur, ts_ok & dur_ok
    exact_ts = exact_ns([span.ts for span in spans])
    exact_dur = exact_ns([span.dur for span in spans]) if exact_ts is not None else None
    if exact_ts is None or exact_dur is None:
        return None
    return exact_ts, exact_dur, None


def _copies(texts: list[Raw]) -> list[bytes]:
    """Return copies of JSON texts that outlive the chunk. Join and split are faster than single copies."""
    return b"\0".join(texts).split(b"\0") if texts else []  # no valid JSON holds a NUL


def _constant(values: IntArray) -> Column:
    """Return the single value if all are equal, otherwise the array."""
    return int(values[0]) if (values == values[0]).all() else values


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
    report.add_where("broken-row", "loss", ~ok, lambda i: rows[i], "these rows are left out")
    rows, ts = [row for row, good in zip(rows, ok.tolist(), strict=True) if good], ts[ok]
    if not rows:
        return
    threads: dict[tuple[int, int], int] = {}
    track = [threads.setdefault((number_of(row.pid), number_of(row.tid)), len(threads)) for row in rows]
    pairs = pair(np.array(track), ts, np.array([isinstance(row, Begin) for row in rows]))
    last = max(int(ts.max()), columns.end())
    begin = np.concatenate([pairs.begin, pairs.unclosed])
    end = np.concatenate([ts[pairs.end], np.full(len(pairs.unclosed), last)])
    opened = [row for row in (rows[i] for i in begin.tolist()) if isinstance(row, Begin)]
    spans = [(row.cat or "", row.name or "", row.pid, row.tid) for row in opened]
    columns.add_spans(spans, ts[begin], end - ts[begin])
    shown = rows.__getitem__
    report.add_where("unclosed-begin", "loss", pairs.unclosed, shown, "kept until the end of the trace")
    report.add_where("end-without-begin", "loss", pairs.unopened, shown, "ignored")
