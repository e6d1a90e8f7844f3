"""Chrome traces that notebook_prof itself has written: they come back as they were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
from msgspec.structs import astuple

from ...errors import FormatError
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport
from ...trace.strings import Coded
from ...trace.taxonomy import CATEGORIES, MODULE_PREFIX, PHASES
from ..base import PiecesReader, Probe
from ..codec import json_repair
from ..codec.event_list import CHUNK_BYTES, EventText
from ..codec.interner import Interner
from ..codec.numbers import integers, to_ns
from .chrome_events import EventTables
from .chrome_head import MOST_NS, MOST_NUMBER, put_head
from .chrome_rows import (
    UNDECODABLE,
    Head,
    Memory,
    Slice,
    Source,
    Tables,
    Target,
    Value,
    list_decoder,
    row_decoder,
)

__all__ = ["OwnChromeReader"]


_MARK: Final = b'"notebook_prof_tables"'
_LIMIT: Final = 16 << 20
_WORD: Final = (1 << 64) - 1
_ARROWS: Final = {"ac2g": "launch", "fwdbwd": "fwdbwd", "flow": "link"}
_NUMBERS: Final = ("step", "correlation", "device", "stream")


class OwnChromeReader(PiecesReader):
    """Reads what ``Trace.to_chrome`` writes: phases, modules, steps, counters and links are as they were."""

    name: ClassVar[str] = "chrome"
    priority: ClassVar[int] = 690
    describes: ClassVar[str] = "Chrome trace JSON that notebook_prof wrote (Trace.to_chrome)"

    def recognises(self, probe: Probe) -> bool:
        """Return whether our own tables are in the head."""
        return probe.head.lstrip()[:1] == b"{" and _MARK in probe.head

    def read_pieces(self, pieces: Iterable[bytes], builder: TraceBuilder) -> None:
        """Put the file's rows into `builder`."""
        text = EventText(pieces)
        try:
            head = msgspec.json.decode(text.head + b"]}", type=Head)
        except UNDECODABLE as error:
            raise FormatError(f"it does not start as Trace.to_chrome writes it ({error})") from error
        if not text.has_list or abs(head.base) >= 1 << 62:
            raise FormatError("there is no list 'traceEvents' in it: not written by Trace.to_chrome")
        _Rows(head, builder).take(_parts(text, builder.report))


def _parts(text: EventText, report: ImportReport) -> Iterator[list[Any]]:
    """Yield the events, a handful at a time."""
    chunk_bytes = CHUNK_BYTES
    while True:
        part, last = text.peek(chunk_bytes)
        listed = bytes(part)
        try:
            rows = list_decoder.decode(listed[: listed.rfind(b"]") + 1] if last else listed)
        except UNDECODABLE as error:
            if not last and "truncated" in str(error) and len(listed) < _LIMIT:
                chunk_bytes *= 2
                continue
            rows = _one_by_one(listed, last, report)
        yield rows
        if last:
            return
        text.skip()
        chunk_bytes = CHUNK_BYTES


def _one_by_one(listed: bytes, last: bool, report: ImportReport) -> list[Any]:
    texts, _, complete = json_repair.row_texts(listed.decode(errors="replace"), 1)
    if last and not complete:
        report.add(
            "truncated-file",
            "loss",
            example=f"it ends with {listed[-40:]!r}",
            effect="the last events are missing",
            advice="write it again",
        )
    rows = []
    for text in texts:
        try:
            rows.append(row_decoder.decode(text))
        except UNDECODABLE as error:
            report.add("broken-row", "loss", example=str(error), effect="these rows are left out")
    return rows


class _Rows:
    """Gives typed rows to a builder."""

    def __init__(self, head: Head, builder: TraceBuilder) -> None:
        self._base, self._builder, self._tables = head.base, builder, EventTables()
        self._head = head
        self._handles: list[IntArray] = []
        self._arrows: dict[type[Any], list[tuple[int, int, str]]] = {Source: [], Target: []}
        self._tracks_by_thread: dict[tuple[int, int], int] = {}
        self._counters: dict[tuple[str, int], int] = {}
        self._tracks, self._frames = put_head(head, builder)
        for row, track in zip(head.tables.tracks, self._tracks, strict=True):
            if row.kind in ("counter", "memory"):
                self._counters[row.name, row.place[0]] = track
            else:
                self._tracks_by_thread[row.place] = track

    def take(self, parts: Iterable[list[Any]]) -> None:
        """Take all rows of the file."""
        for rows in parts:
            # steps are told by the tables; for other readers they are slices without a category
            self._slices([row for row in rows if type(row) is Slice and row.args.category])
            self._memory([row for row in rows if type(row) is Memory])
            self._values([row for row in rows if type(row) is Value])
            for kind, arrows in self._arrows.items():
                arrows += [
                    (row.id, row.args.slice, getattr(row, "cat", "")) for row in rows if type(row) is kind
                ]
        self._odd_values(self._head.tables)
        self._flows()
        # rows of slices mean nothing any more if one is lost
        sound = "broken-row" not in self._builder.report
        self._tables.put(self._builder, self._head.tables.metadata if sound else {}, self._base)
        for issue in self._head.tables.report:
            self._builder.report.add(*astuple(issue))

    def _slices(self, rows: list[Slice]) -> None:
        ts, dur, ok = self._times(rows)
        ok &= np.fromiter((row.args.category in CATEGORIES for row in rows), bool, len(rows))
        self._report_lost(ok)
        handles, first = np.full(len(rows), -1, np.int64), sum(map(len, self._handles))
        self._handles.append(handles)
        args = [row.args for row, good in zip(rows, ok.tolist(), strict=True) if good]
        rows = [row for row, good in zip(rows, ok.tolist(), strict=True) if good]
        if not rows:
            return
        numbers = {key: integers([getattr(each, key) for each in args]) for key in _NUMBERS}
        track = np.array([self._track(row) for row in rows], np.int64)
        names = _coded([_name(row) for row in rows])
        number = first + np.flatnonzero(ok)
        self._tables.take(args, number, track, ts[ok] + self._base, dur[ok], names, numbers)
        handles[ok] = self._builder.slices(
            ts=ts[ok] + self._base,
            dur=dur[ok],
            track=track,
            name=names,
            category=_chosen(CATEGORIES, [each.category for each in args]),
            phase=_chosen(PHASES, [each.phase for each in args]),
            shapes=_coded([each.shapes or bytes(each.dims).decode() or None for each in args]),
            module=_coded([each.module for each in args]),
            stack=np.array([self._frames.get(row.sf, -1) for row in rows], np.int64),
            **{
                key: np.where((values >= 0) & (values <= MOST_NUMBER.get(key, _WORD)), values, -1)
                for key, values in numbers.items()
            },
        )

    def _track(self, row: Slice) -> int:
        if (track := self._existing_track(row)) < 0:
            track = self._tracks_by_thread[row.pid, row.tid] = self._builder.track(f"thread {row.tid}")
        return track

    def _existing_track(self, row: Slice | Memory) -> int:
        if 0 <= row.args.track < len(self._tracks):
            return self._tracks[row.args.track]
        return self._tracks_by_thread.get((row.pid, row.tid), -1)

    def _memory(self, rows: list[Memory]) -> None:
        ts, ok = to_ns([row.ts for row in rows])
        self._report_lost(ok)
        rows = [row for row, good in zip(rows, ok.tolist(), strict=True) if good]
        if rows:
            args = [row.args for row in rows]
            self._builder.allocations(
                ts=ts[ok] + self._base,
                addr=np.array([each.addr & _WORD for each in args], np.uint64),
                bytes=integers([each.size for each in args]),
                device=np.clip(integers([each.device for each in args]), -1, np.iinfo(np.int16).max),
                allocated=integers([each.allocated for each in args]),
                reserved=integers([each.reserved for each in args]),
                track=np.array([self._existing_track(row) for row in rows], np.int64),
            )

    def _values(self, rows: list[Value]) -> None:
        ts, ok = to_ns([row.ts for row in rows])
        self._report_lost(ok)
        rows = [row for row, good in zip(rows, ok.tolist(), strict=True) if good]
        for row in rows:
            key = row.name, row.pid
            if key not in self._counters:
                self._counters[key] = self._builder.track(row.name, "counter")
        if rows:
            track = np.array([self._counters[row.name, row.pid] for row in rows], np.int64)
            self._builder.counter(track, ts[ok] + self._base, [row.args.value for row in rows])

    def _odd_values(self, tables: Tables) -> None:
        """Put values of counters that JSON's numbers cannot be."""
        for track, ts, value in tables.values:
            if 0 <= track < len(self._tracks) and abs(ts) < MOST_NS and value in ("nan", "inf", "-inf"):
                self._builder.counter(self._tracks[track], self._base + ts, float(value))

    def _flows(self) -> None:
        """Put links, told by row numbers; these mean nothing any more if a row is lost."""
        handles = np.concatenate([np.empty(0, np.int64), *self._handles])
        sound = "broken-row" not in self._builder.report
        ends = {number: row for number, row, _ in self._arrows[Target]}
        for kind, flow in _ARROWS.items():
            pairs = [(row, ends.get(number, -1)) for number, row, cat in self._arrows[Source] if cat == kind]
            whole = [pair for pair in pairs if sound and min(pair) >= 0 and max(pair) < len(handles)]
            self._builder.report.add(
                "arrow-without-slice", "loss", len(pairs) - len(whole), flow, "these links are left out"
            )
            if whole:
                src, dst = np.array(whole, np.int64).T
                self._builder.flows(flow, handles[src], handles[dst])

    def _times(self, rows: list[Slice]) -> tuple[IntArray, IntArray, np.ndarray[Any, np.dtype[np.bool_]]]:
        ts, ts_ok = to_ns([row.ts for row in rows])
        dur, dur_ok = to_ns([row.dur for row in rows])
        return ts, dur, ts_ok & dur_ok

    def _report_lost(self, ok: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        self._builder.report.add(
            "broken-row",
            "loss",
            int((~ok).sum()),
            example="no time or category",
            effect="these rows are left out",
        )


def _name(row: Slice) -> str:
    return row.name.removeprefix(MODULE_PREFIX) if row.args.category == "module" else row.name


def _chosen(words: Sequence[str], texts: list[str]) -> Coded:
    codes = {word: i for i, word in enumerate(words)}
    return Coded(np.array([codes.get(text, -1) for text in texts], np.int32), words)


def _coded(texts: Sequence[str | None]) -> Coded:
    numbers = Interner({None: -1})
    codes = np.array([numbers[text] for text in texts], np.int32)
    # the first number that is given is 1
    return Coded(np.where(codes > 0, codes - 1, -1), list(numbers)[1:])
