"""JSON that is damaged, padded or cut off: decode what is there, count the rest."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from ...errors import FormatError
from ...trace.report import ImportReport
from . import json_repair

E = TypeVar("E")
R = TypeVar("R")

_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_events(
    data: bytes, envelope: type[E], row: type[R], report: ImportReport
) -> tuple[E | None, list[R] | None]:
    """Decode a file of events, as a whole or else row by row.

    Parameters
    ----------
    data : bytes
        Decompressed JSON: an object with a list ``traceEvents``, or that list.
    envelope, row : type
        msgspec types of the object and of one event.
    report : ImportReport
        Counts repairs (``invalid-json``), unreadable rows (``broken-row``), a missing end
        (``truncated-file``).

    Returns
    -------
    envelope : E or None
        The object, if it could be decoded as a whole; None if `rows` had to be taken one by one from
        text whose object cannot be decoded, or if the file is a list.
    rows : list of R or None
        Events that were decoded one by one; None if they are in `envelope`.

    Raises
    ------
    FormatError
        If there are no events at all.

    Examples
    --------
    >>> Row = msgspec.defstruct("Row", [("name", str)])
    >>> File = msgspec.defstruct("File", [("traceEvents", list[Row])])
    >>> decode_events(b'{"traceEvents": [{"name": "a"}, {"name": "b', File, Row, ImportReport())[1]
    [Row(name='a')]
    """
    data = data.rstrip(b"\x00 \t\r\n")
    listed = data.lstrip().startswith(b"[")
    try:
        return _decode_whole(data, envelope, row, listed)
    except msgspec.ValidationError:
        pass
    except _UNDECODABLE as error:
        data = json_repair.mend(data, str(error), report)
        try:
            return _decode_whole(data, envelope, row, listed)
        except _UNDECODABLE:
            pass
    return _one_by_one(data, envelope, row, report)


def decode_object(data: bytes, kind: type[E], whose: str) -> E:
    """Decode a whole file, whatever padding is around it.

    Parameters
    ----------
    data : bytes
    kind : type
        A msgspec Struct.
    whose : str
        For the message, as in ``Scalene's``.

    Raises
    ------
    FormatError
        If it is not JSON of this form.

    Examples
    --------
    >>> decode_object(b'{"a": [1]}  ', dict[str, list[int]], "our")
    {'a': [1]}
    """
    try:
        return msgspec.json.decode(data.strip(b"\x00 \t\r\n"), type=kind)
    except _UNDECODABLE as error:
        raise FormatError(f"it cannot be read as {whose} JSON ({error})") from error


def _decode_whole(
    data: bytes, envelope: type[E], row: type[R], listed: bool
) -> tuple[E | None, list[R] | None]:
    if listed:
        return None, msgspec.json.decode(data, type=list[row])  # type: ignore[valid-type]
    return msgspec.json.decode(data, type=envelope), None


def _one_by_one(
    data: bytes, envelope: type[E], row: type[R], report: ImportReport
) -> tuple[E | None, list[R]]:
    head, texts, complete = json_repair.split_rows(data)
    if not complete:
        report.add(
            "truncated-file",
            "loss",
            example="the list of events has no end",
            effect="the last events are missing",
            advice="the writing process was probably killed",
        )
    strict, loose = msgspec.json.Decoder(row), msgspec.json.Decoder(row, strict=False)
    rows: list[R] = []
    for text in texts:
        try:
            rows.append(strict.decode(text))
        except _UNDECODABLE:
            try:
                rows.append(loose.decode(text))
            except _UNDECODABLE as error:
                json_repair.add_broken_row(report, error, text)
    if not texts:
        raise FormatError(f"no events can be read from it; it starts with {data[:40]!r}")
    try:
        return msgspec.json.decode(head, type=envelope, strict=False), rows
    except _UNDECODABLE:
        return None, rows
