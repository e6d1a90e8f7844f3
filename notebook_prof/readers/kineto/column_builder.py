"""Typed events become columns, a handful at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.report import ImportReport
from ..codec.numbers import exact_ns, to_ns
from .coding import (
    ANY,
    BOOKKEEPING,
    CALL,
    CONCRETE,
    DEVICE,
    EXTRAS,
    NAMELESS,
    OPERATOR,
    UNKNOWN,
    FlaggedNumbers,
    Numbers,
    flag_of_kind,
    flag_of_name,
)
from .columns import Ints
from .event_types import EXTRA, AllArguments, Arguments, OldArguments, Variant, complete_type, extra_of
from .identifiers import identifiers, integers
from .instant_events import Sundries
from .profiler_ranges import KIND, Ranges

_ENOUGH: Final = 3
_NOTHING: Final = (None,) * len(EXTRA)

_NONE_IS_ZERO: Final = frozenset(
    ("flags", "fwd_thread", "dims", "old_dims", "dtypes", "concrete", "extra", "stack", "path", "ts", "dur")
)
"""Columns that are 0, not -1, for events that do not have them."""

Column = npt.NDArray[Any] | int
"""A value an event, or one for all events of a part."""


Told = tuple[str, str, int | str | None, int | str | None]
"""Category, name, process and thread of an event."""


class Collector:
    """Takes decoded events and keeps columns of numbers.

    Parameters
    ----------
    report : ImportReport
    small : type of Arguments
        What is decoded of most events that have arguments.

    Attributes
    ----------
    names, kinds, dims, dtypes, concrete, extras, stacks, paths : Numbers
        Distinct values behind the columns of codes.
    sundries : Sundries
        Everything that has no duration.
    ranges : Ranges
        Counters of ranges; `Taker` fills it.
    range_count : int
        How many ranges there are among the events that were taken last.
    present : int
        Flags of all kinds among the events that were taken last.
    """

    def __init__(self, report: ImportReport, small: type[Arguments] = Arguments) -> None:
        self._report, self.small = report, small
        self.names = FlaggedNumbers(flag_of_name)
        self.kinds = FlaggedNumbers(flag_of_kind)
        # number 0 is "nothing"
        self.dims, self.dtypes, self.concrete = (Numbers({b"": 0}) for _ in range(3))
        self.extras, self.stacks, self.paths = Numbers({_NOTHING: 0}), Numbers({"": 0}), Numbers({"": 0})
        self.sundries, self.ranges = Sundries(report), Ranges()
        self.present = self.range_count = self._bare = 0
        self._parts: list[Mapping[str, Column]] = []
        self._counts: list[int] = []

    def take(self, rows: list[Any], variant: Variant) -> Variant:
        """Keep the events, if they were decoded with enough.

        Parameters
        ----------
        rows : list of Event
        variant : Variant
            With which they were decoded.

        Returns
        -------
        Variant
            The same if they were kept. Another one if they have to be decoded again with it.
        """
        complete = complete_type(variant)
        spans = [row for row in rows if row.__class__ is complete]
        others = [row for row in rows if row.__class__ is not complete] if len(spans) < len(rows) else []
        count = len(spans)
        name = self.names.column([row.name for row in spans], count)
        kind = self.kinds.column([row.cat for row in spans], count)
        flags = self.kinds.flags(kind) | self.names.flags(name)
        self.present = int(np.bitwise_or.reduce(flags)) if count else 0
        ranges = self.kinds.get(KIND, -1)
        self.range_count = int(np.count_nonzero(kind == ranges)) if ranges >= 0 else 0
        if needed := self._needed(variant):
            return variant._replace(arguments=needed)
        times = self._times(spans, variant)
        if times is None:
            return variant._replace(text_times=True)
        ts, dur, ok = times
        if others and not self.sundries.take(others):
            return variant._replace(text_times=True)
        if self.present & (BOOKKEEPING | NAMELESS) or not (ok is None or ok.all()):
            good = flags & NAMELESS == 0 if ok is None else ok & (flags & NAMELESS == 0)
            self._lost(count - int(good.sum()))
            keep = np.flatnonzero(good & (flags & BOOKKEEPING == 0))
            spans = [spans[i] for i in keep.tolist()]
            name, kind, flags, ts, dur = name[keep], kind[keep], flags[keep], ts[keep], dur[keep]
        if spans:
            part: dict[str, Column] = {"name": name, "kind": kind, "flags": flags, "ts": ts, "dur": dur}
            part["pid"] = single(identifiers([row.pid for row in spans]))
            part["tid"] = single(identifiers([row.tid for row in spans]))
            self.add_columns(part | self._arguments(spans, flags), len(spans))
        return variant

    def next_variant(self, variant: Variant) -> Variant:
        """With what the next events are probably best decoded, if they are like those taken last."""
        self._bare = 0 if self.present & ANY else self._bare + 1
        if self.present & EXTRAS:
            return variant
        # decoding again costs more than arguments that nobody needs
        return variant._replace(arguments=None if self._bare >= _ENOUGH else self.small)

    def add(
        self, rows: Sequence[tuple[str, str, int | str | None, int | str | None]], ts: Ints, dur: Ints
    ) -> None:
        """Keep further events, each told as (category, name, process, thread), with times in ns."""
        kind = self.kinds.column([row[0] for row in rows], len(rows))
        part: dict[str, Column] = {"kind": kind, "flags": self.kinds.flags(kind), "ts": ts, "dur": dur}
        part["name"] = self.names.column([row[1] for row in rows], len(rows))
        part["pid"], part["tid"] = (identifiers([row[i] for row in rows]) for i in (2, 3))
        self.add_columns(part, len(rows))

    def add_columns(self, columns: Mapping[str, Column], count: int) -> None:
        """Keep further events whose columns are there already."""
        self._counts.append(count)
        self._parts.append(columns)

    def end(self) -> int:
        """When the last event ended, in ns of the file; 0 without events."""
        return int((self.column("ts") + self.column("dur")).max(initial=0))

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column of all events; 0 or -1 for events that do not have it."""
        dtypes = [value.dtype for part in self._parts if isinstance(value := part.get(name), np.ndarray)]
        nothing = 0 if name in _NONE_IS_ZERO else -1
        result = np.empty(sum(self._counts), dtypes[0] if dtypes else np.int64)
        at = 0
        for part, count in zip(self._parts, self._counts, strict=True):
            result[at : at + count] = part.get(name, nothing)
            at += count
        return result

    def _needed(self, variant: Variant) -> type[Arguments] | None:
        """Larger arguments, if these events may have more than was decoded."""
        if self.present & EXTRAS and variant.arguments is not AllArguments:
            return AllArguments
        if self.present & ANY and variant.arguments is None:
            return self.small
        return None

    def _lost(self, count: int) -> None:
        self._report.add(
            "broken-row",
            "loss",
            count,
            example="no name, start or duration",
            effect="these rows are left out",
        )

    def _times(
        self, spans: list[Any], variant: Variant
    ) -> tuple[Ints, Ints, npt.NDArray[np.bool_] | None] | None:
        if variant.text_times:
            ts, ts_ok = to_ns([row.ts for row in spans])
            dur, dur_ok = to_ns([row.dur for row in spans])
            return ts, dur, ts_ok & dur_ok
        exact_ts = exact_ns([row.ts for row in spans])
        exact_dur = exact_ns([row.dur for row in spans]) if exact_ts is not None else None
        if exact_ts is None or exact_dur is None:
            return None
        return exact_ts, exact_dur, None

    def _arguments(self, spans: list[Any], flags: npt.NDArray[np.uint8]) -> dict[str, Column]:
        """Columns of what the kinds of these events can have."""
        part: dict[str, Column] = {}
        if not self.present & ANY:
            return part
        args = [row.args for row in spans]
        n = len(args)

        def put(name: str, nothing: int, rows: Ints | None, values: npt.NDArray[Any]) -> None:
            column = values
            if rows is not None:
                column = np.full(n, nothing, values.dtype)
                column[rows] = values
            part[name] = column

        if self.present & (CALL | DEVICE | UNKNOWN):
            rows, some = _those(args, flags & (CALL | DEVICE | UNKNOWN))
            put("correlation", -1, rows, integers([each.correlation for each in some]))
        if self.present & (DEVICE | UNKNOWN):
            rows, some = _those(args, flags & (DEVICE | UNKNOWN))
            put("device", -1, rows, identifiers([each.device for each in some]))
            put("stream", -1, rows, identifiers([each.stream for each in some]))
        if self.present & EXTRAS:
            rows, some = _those(args, flags & EXTRAS)
            put("extra", 0, rows, self.extras.column(map(extra_of, some), len(some)))
        if self.present & (OPERATOR | UNKNOWN):
            rows, some = _those(args, flags & (OPERATOR | UNKNOWN))
            sequence = integers([each.sequence for each in some])
            put("sequence", -1, rows, sequence)
            if (sequence >= 0).any():
                put("fwd_thread", 0, rows, integers([each.fwd_thread for each in some]))
            put("dims", 0, rows, self.dims.column(map(bytes, [each.dims for each in some]), len(some)))
            put("dtypes", 0, rows, self.dtypes.column(map(bytes, [each.types for each in some]), len(some)))
        if self.present & CONCRETE:
            rows, some = _those(args, flags & CONCRETE)
            values = self.concrete.column(map(bytes, [each.concrete for each in some]), len(some))
            put("concrete", 0, rows, values)
        if issubclass(self.small, OldArguments) and self.present & (OPERATOR | UNKNOWN):
            rows, some = _those(args, flags & (OPERATOR | UNKNOWN))
            self._old(some, lambda name, values: put(name, 0, rows, values))
        return part

    def _old(self, args: list[Any], put: Callable[[str, npt.NDArray[Any]], None]) -> None:
        for name, numbers, read in (
            ("old_dims", self.dims, lambda each: bytes(each.old_dims)),
            ("stack", self.stacks, attrgetter("call_stack")),
            ("path", self.paths, attrgetter("hierarchy")),
        ):
            values = numbers.column(map(read, args), len(args))
            if values.any():
                put(name, values)


def single(values: Ints) -> Column:
    """The value of all, if they have but one."""
    return int(values[0]) if (values == values[0]).all() else values


def _those(args: list[Any], flags: npt.NDArray[Any]) -> tuple[Ints | None, list[Any]]:
    """Arguments of the events whose flag is set, and their rows; None for all rows."""
    rows = np.flatnonzero(flags)
    if len(rows) == len(args):
        return None, args
    return rows, [args[i] for i in rows.tolist()]
