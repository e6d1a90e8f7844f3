"""From the text of a Kineto file to columns, a handful of events at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from ...errors import FormatError
from ...trace.report import ImportReport
from ...trace.strings import Coded
from ..codec.event_list import CHUNK_BYTES, EventText
from .activity_metadata import extra_text
from .activity_types import BOOKKEEPING_KINDS, known, rows_of
from .coding import DEVICE, UNKNOWN, Numbers
from .column_builder import Collector
from .columns import MAX_DEVICE, Ints, KinetoColumns
from .envelope import base_ns, envelope, facts
from .event_types import Arguments, OldArguments
from .links import Mask
from .old_texts import module_path
from .operator_arguments import to_json
from .pairs import settle
from .taking import Taker

_FAR_NS: Final = 3_600_000_000_000
_MODERN: Final = b'"baseTimeNanoseconds"'


class Parsed(NamedTuple):
    """Result of `parse`.

    Attributes
    ----------
    columns : KinetoColumns
        In the order of the file.
    facts : dict
        Metadata; see `envelope.facts`.
    """

    columns: KinetoColumns
    facts: dict[str, Any]


def read_columns(data: bytes, report: ImportReport) -> KinetoColumns:
    """The columns of a Kineto file in memory; see `parse`."""
    return parse([data], report).columns


def parse(pieces: Iterable[bytes], report: ImportReport, file_name: str = "") -> Parsed:
    """Read a Kineto file.

    Parameters
    ----------
    pieces : iterable of bytes
        The decompressed JSON, object or array form, in order.
    report : ImportReport
        Counts every row that is not used, by reason.
    file_name : str
        See `envelope.facts`.

    Returns
    -------
    Parsed

    Raises
    ------
    FormatError
        If it is no trace.

    Notes
    -----
    Memory holds one piece, some hundred kilobytes of decoded events, and the columns; never the whole
    text. Repairs of invalid JSON stay within a handful of events.
    """
    text = EventText(pieces)
    if not text.found:
        start = bytes(text.head[:40])
        raise FormatError(f"there is no list 'traceEvents' in it: not a trace of torch.profiler ({start!r})")
    small = Arguments if _MODERN in text.head else OldArguments
    taker = Taker(small, text.head.lstrip().startswith(b"["), report)
    tail = _read_events(text, taker)
    settle(taker.collector, report)
    around = envelope(text.head, tail, report)
    found = facts(around, file_name)
    return Parsed(_columns(taker.collector, base_ns(around), found.get("rank"), report), found)


def _read_events(text: EventText, taker: Taker) -> bytes:
    """Have all events collected; returns what follows their list."""
    wanted = CHUNK_BYTES
    while True:
        while (decoded := taker.take(*text.peek(wanted))) is None:
            wanted *= 2
        if decoded.tail is not None:
            return decoded.tail + b"".join(text.rest())
        text.skip()
        wanted = CHUNK_BYTES


def _columns(collector: Collector, base: int, rank: int | None, report: ImportReport) -> KinetoColumns:
    column = collector.column
    flags, pid, tid = column("flags"), column("pid"), column("tid")
    kinds = [kind or "" for kind in collector.kinds]
    unknown = sorted(kind for kind in kinds if not known(kind) and kind.lower() not in BOOKKEEPING_KINDS)
    report.add(
        "unknown-category",
        "info",
        len(unknown),
        example=", ".join(map(repr, unknown[:5])),
        effect="counted as operators",
    )
    device, stream = np.minimum(column("device"), MAX_DEVICE), column("stream")
    on_device = (flags & DEVICE > 0) | ((flags & UNKNOWN > 0) & (device >= 0) & (stream >= 0))
    kind = Coded(column("kind"), kinds)
    # a wait of the whole device is on stream -1, of which Kineto writes the absolute value as its thread
    waits = rows_of(kind, np.array([name == "cuda_sync" for name in kinds], bool))
    columns = KinetoColumns(
        ts=column("ts") + base,
        dur=column("dur"),
        name=Coded(column("name"), [name or "" for name in collector.names]),
        kind=kind,
        pid=pid,
        tid=tid,
        device=np.where(on_device, np.where(device >= 0, device, np.clip(pid, 0, MAX_DEVICE)), -1),
        stream=np.where(on_device & ((stream >= 0) | ~waits), np.where(stream >= 0, stream, tid), -1),
        correlation=column("correlation"),
        sequence=column("sequence"),
        fwd_thread=column("fwd_thread"),
        shapes=_texts(_first(column("dims"), column("old_dims")), collector.dims, _spelled(repr)),
        dtypes=_texts(column("dtypes"), collector.dtypes, _spelled(to_json)),
        concrete=_texts(column("concrete"), collector.concrete, _spelled(to_json)),
        extra=_texts(column("extra"), collector.extras, extra_text),
        call_stack=_texts(column("stack"), collector.stacks, str),
        path=_texts(column("path"), collector.paths, module_path),
        thread_names=collector.sundries.thread_names,
        memory=collector.sundries.memory(base),
        counters=collector.sundries.counters(base),
        ranges=collector.ranges.columns(base),
        rank=rank,
    )
    return columns.where(~_never(columns.ts - base, columns.dur, report))


def _never(ts: Ints, dur: Ints, report: ImportReport) -> Mask:
    """Rows at time 0 that are far from all others: torch 2.12 has written them without their times."""
    zero = (ts == 0) & (dur == 0)
    if not zero.any() or zero.all() or ts[~zero].min() < _FAR_NS:
        return np.zeros(len(ts), bool)
    report.add(
        "row-without-time",
        "loss",
        int(zero.sum()),
        example="ts 0.000, dur 0.000",
        effect="these rows are left out",
        advice="torch 2.12 loses times (pytorch#188481): record again with another version",
    )
    return np.asarray(zero)


def _spelled(spell: Callable[[Any], str]) -> Callable[[bytes], str]:
    """JSON in one spelling, whatever the white space of the file; empty where it says nothing."""

    def text(raw: bytes) -> str:
        try:
            value = msgspec.json.decode(raw) if raw else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""
        return spell(value) if value else ""

    return text


def _first(a: Ints, b: Ints) -> Ints:
    """Codes of `a`, and of `b` where `a` has nothing (0)."""
    return np.where(a > 0, a, b) if b.any() else a


def _texts(codes: Ints, values: Numbers, text: Callable[[Any], str]) -> Coded | None:
    """A column of texts, each distinct value turned into text once; None if there are none."""
    if not codes.any():
        return None
    distinct = Numbers({"": 0})
    lookup = distinct.column(map(text, values), len(values)) - 1
    return Coded(lookup[codes], list(distinct)[1:])
