"""Decodes the events of a file list by list, without holding the whole text, even if it is damaged."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from ...trace.report import ImportReport
from ..codec.tolerant_json import UNDECODABLE, add_broken_row, add_cut_list, mend, row_texts
from .column_builder import ColumnBuilder
from .event_types import MOST, AllArguments, Variant, complete_type, decoder, loose_decoder

CHUNK_BYTES: Final = 256 * 1024
"""Characters decoded at once. The rows of so much text stay in the processor's cache."""

EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
"""The start of the list of events."""
_LONGEST_KEY: Final = 256
_BETWEEN: Final = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|args|bp|s)"\s*:)')
_ARRAY: Final = re.compile(rb"\s*\[")


class EventText:
    """Cuts the text of a list of events into shorter lists, from start to end."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self._rest, self._next = iter(pieces), bytearray(), 0
        # the text up to the list's opening bracket, or all of it without a list
        self.head, self.has_list, searched = b"", False, 0
        while not self.has_list and self._grow():
            begin, searched = max(0, searched - _LONGEST_KEY), len(self._rest)
            if opening := _ARRAY.match(self._rest) or EVENTS.search(self._rest, begin):
                self.has_list, self._next = True, opening.end()
        self.head = bytes(self._rest[: self._next] if self.has_list else self._rest)
        self.skip()

    def peek(self, at_least: int) -> tuple[bytes, bool]:
        """Return the next events as a list, and whether nothing is left after them."""
        # The list ends after an event, or else contains everything up to the end of the file, without a
        # bracket of ours. Whether an event really ends there is a guess, which decoding the text confirms.
        begin = at_least
        while (match := _BETWEEN.search(self._rest, begin)) is None:
            begin = max(at_least, len(self._rest) - _LONGEST_KEY)
            if not self._grow():
                self._next = len(self._rest)
                return b"[" + self._rest, True
        self._next = match.end()
        with memoryview(self._rest) as rest:  # copied once
            return b"".join((b"[", rest[: match.start() + 1], b"]")), False

    def skip(self) -> None:
        """Continue after the text that `peek` returned."""
        del self._rest[: self._next]

    def remaining(self) -> bytes:
        """Return everything after the text that `peek` returned, up to the end of the file."""
        return bytes(self._rest[self._next :]) + b"".join(self._pieces)

    def _grow(self) -> bool:
        """Read a piece; return False at the end."""
        piece = next(self._pieces, None)
        self._rest += piece or b""
        return piece is not None


_LONGEST_EVENT: Final = 16 << 20
_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")


class Decoded(NamedTuple):
    """Decoded events, and the text that follows them."""

    events: list[Any]  # of type `Event`
    variant: Variant
    text: bytes  # the list that was decoded; empty if events were decoded one by one
    tail: bytes | None  # the text after the list; None if the list continues


def read_events(text: EventText, is_array: bool, columns: ColumnBuilder, report: ImportReport) -> bytes:
    """Add all events of a file to `columns`, and return the text after their list."""
    # `is_array`: whether the file is a bare list, which may lack its end
    chunk_bytes, variant = CHUNK_BYTES, Variant(text_times=False, all_arguments=False)
    while True:
        chunk, last = text.peek(chunk_bytes)
        decoded = decode(chunk, last, is_array, variant, report)
        if decoded is None:
            chunk_bytes *= 2
            continue
        while (needed := columns.add_events(decoded.events, decoded.variant)) != decoded.variant:
            try:
                events = decoder(needed).decode(decoded.text)
                decoded = decoded._replace(events=events, variant=needed)
            except UNDECODABLE:
                again = _decode_one_by_one(decoded.text, False, True, report)
                decoded = again._replace(tail=decoded.tail)
        if columns.range_count:
            columns.ranges.add(decoded.text, columns.range_count, report)
        if decoded.tail is not None:
            return decoded.tail + text.remaining()
        variant = decoded.variant
        text.skip()
        chunk_bytes = CHUNK_BYTES


def decode(
    chunk: bytes, last: bool, is_array: bool, variant: Variant, report: ImportReport
) -> Decoded | None:
    """Decode the next events, or return None if the text seems to end inside an event, so more is needed."""
    # `chunk` is a list of events or, if it is the last, everything that is left of the file.
    if last:
        chunk = chunk.rstrip(b"\x00 \t\r\n")
    try:
        return _decode_list(chunk, variant, last)
    except msgspec.ValidationError:
        return _decode_one_by_one(chunk, last, is_array, report)
    except UNDECODABLE as error:
        reason = str(error)
    trial = ImportReport()
    mended = mend(chunk, reason, trial)
    try:
        decoded = _decode_list(mended, variant, last)
    except UNDECODABLE as error:
        is_json = isinstance(error, msgspec.ValidationError)
        if not last and not is_json and "truncated" in str(error) and len(chunk) < _LONGEST_EVENT:
            return None
        decoded = _decode_one_by_one(mended, last, is_array, trial)
    report.extend(trial)
    return decoded


def _decode_list(chunk: bytes, variant: Variant, last: bool) -> Decoded:
    decode_list = decoder(variant).decode
    try:
        return Decoded(decode_list(chunk), variant, chunk, b"" if last else None)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        # a complete list, followed by the rest of the file's object
        trailing = _TRAILING.search(str(error))
        if trailing is None:
            raise
        end = int(trailing[1]) - 1
        while end > 0 and chunk[end - 1 : end] != b"]":
            end -= 1
        return Decoded(decode_list(chunk[:end]), variant, chunk[:end], chunk[end:])


def _decode_one_by_one(chunk: bytes, last: bool, is_array: bool, report: ImportReport) -> Decoded:
    """Decode each event separately. Slow, so used only for chunks that cannot be decoded as a whole."""
    text = chunk.decode(errors="replace")
    event_texts, end, complete = row_texts(text, 1)
    if not complete and not (is_array and end >= len(text)):
        add_cut_list(report)
    events = [event for each in event_texts if (event := _decode_event(each, report)) is not None]
    tail = text[end + 1 :].encode() if complete else b""
    return Decoded(events, MOST, b"", tail if last or tail.strip() else None)


def _decode_event(text: bytes, report: ImportReport) -> Any:
    with suppress(*UNDECODABLE):
        return decoder(MOST, listed=False).decode(text)
    try:
        event = loose_decoder.decode(text)
    except UNDECODABLE as error:
        add_broken_row(report, error, text)
        return None
    if event.ph != "X":
        example = f"events of phase {event.ph!r}"
        report.add("row-not-used", "loss", example=example, effect="they are not in the tables")
        return None
    if not isinstance(event.name, str | int | float):
        add_broken_row(report, TypeError("the name is not text"), text)
        return None
    # fields have unexpected types
    arguments = AllArguments()
    with suppress(*UNDECODABLE):
        arguments = msgspec.json.decode(event.args, type=AllArguments, strict=False)
    return complete_type(MOST)(
        cat=event.cat if isinstance(event.cat, str) else "",
        name=str(event.name),
        pid=event.pid if isinstance(event.pid, int | str) else None,
        tid=event.tid if isinstance(event.tid, int | str) else None,
        ts=event.ts,
        dur=event.dur,
        args=arguments,
    )
