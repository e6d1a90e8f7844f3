"""From a piece of the text of a file to typed events, whatever is wrong with it."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from ...trace.report import ImportReport
from ..codec import json_repair
from .event_types import AllArguments, LooseRow, Variant, complete_type, decoder, loose_decoder, row_decoder

_LIMIT: Final = 16 << 20
_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_LOOSE: Final = Variant(AllArguments, text_times=True)


class Decoded(NamedTuple):
    """Some events.

    Attributes
    ----------
    rows : list of Event
    variant : Variant
        With which they were decoded.
    text : bytes or memoryview
        The list that they were decoded from; empty if they were taken one by one.
    tail : bytes or None
        What follows the list in the text given; None if the list goes on.
    """

    rows: list[Any]
    variant: Variant
    text: bytes | memoryview
    tail: bytes | None


def decode(
    listed: memoryview, last: bool, array: bool, variant: Variant, report: ImportReport
) -> Decoded | None:
    """Decode the next events of a file.

    Parameters
    ----------
    listed : memoryview
        A list of events; with `last`, all that is left of the file.
    last : bool
    array : bool
        Whether the file is a bare list, which may lack its end.
    variant : Variant
    report : ImportReport
        Counts repairs (``invalid-json``), unreadable rows (``broken-row``), unknown phases
        (``row-not-used``), and a missing end (``truncated-file``).

    Returns
    -------
    Decoded or None
        None if the text seems to end inside an event: more of it is needed.
    """
    if last:
        listed = memoryview(bytes(listed).rstrip(b"\x00 \t\r\n"))
    try:
        return _whole(listed, variant, last)
    except msgspec.ValidationError:
        return _one_by_one(bytes(listed), last, array, report)
    except _UNDECODABLE as error:
        reason = str(error)
    trial = ImportReport()
    fixed = json_repair.mend(bytes(listed), reason, trial)
    try:
        decoded = _whole(fixed, variant, last)
    except msgspec.ValidationError:
        decoded = _one_by_one(fixed, last, array, trial)
    except _UNDECODABLE as error:
        if not last and "truncated" in str(error) and len(listed) < _LIMIT:
            return None
        decoded = _one_by_one(fixed, last, array, trial)
    report.extend(trial)
    return decoded


def again(decoded: Decoded, variant: Variant, report: ImportReport) -> Decoded:
    """Decode the same events with another variant."""
    try:
        return decoded._replace(rows=decoder(variant).decode(decoded.text), variant=variant)
    except _UNDECODABLE:
        return _one_by_one(decoded.text, False, True, report)._replace(tail=decoded.tail)


def _whole(listed: bytes | memoryview, variant: Variant, last: bool) -> Decoded:
    decode_list = decoder(variant).decode
    try:
        return Decoded(decode_list(listed), variant, listed, b"" if last else None)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        # a complete list, and something behind it: the rest of the file's object
        found = _TRAILING.search(str(error))
        if found is None:
            raise
        end = int(found[1]) - 1
        while end > 0 and listed[end - 1 : end] != b"]":
            end -= 1
        return Decoded(decode_list(listed[:end]), variant, listed[:end], bytes(listed[end:]))


def _one_by_one(listed: bytes | memoryview, last: bool, array: bool, report: ImportReport) -> Decoded:
    """Decode every row by itself; slow, and only for pieces that do not decode as a whole."""
    text = bytes(listed).decode(errors="replace")
    texts, end, complete = json_repair.row_texts(text, 1)
    if not complete and not (array and end >= len(text)):
        report.add(
            "truncated-file",
            "loss",
            example="the list of events has no end",
            effect="the last events are missing",
            advice="the writing process was probably killed",
        )
    rows = [row for each in texts if (row := _row(each, report)) is not None]
    tail = text[end + 1 :].encode() if complete else b""
    return Decoded(rows, _LOOSE, b"", tail if last or tail.strip() else None)


def _row(text: bytes, report: ImportReport) -> Any:
    try:
        return row_decoder(_LOOSE).decode(text)
    except _UNDECODABLE:
        pass
    try:
        row = loose_decoder.decode(text)
    except _UNDECODABLE as error:
        json_repair.add_broken_row(report, error, text)
        return None
    if row.ph != "X":
        report.add(
            "row-not-used",
            "loss",
            example=f"events of phase {row.ph!r}",
            effect="they are not in the tables",
        )
        return None
    if not isinstance(row.name, str | int | float):
        json_repair.add_broken_row(report, TypeError("the name is not text"), text)
        return None
    return _loosely(row)


def _loosely(row: LooseRow) -> Any:
    """A complete event whose parts are not of the types that they should be."""
    arguments = AllArguments()
    with suppress(*_UNDECODABLE):
        arguments = msgspec.json.decode(row.args, type=AllArguments, strict=False)
    return complete_type(_LOOSE)(
        cat=row.cat if isinstance(row.cat, str) else "",
        name=str(row.name),
        pid=row.pid if isinstance(row.pid, int | str) else None,
        tid=row.tid if isinstance(row.tid, int | str) else None,
        ts=row.ts,
        dur=row.dur,
        args=arguments,
    )
