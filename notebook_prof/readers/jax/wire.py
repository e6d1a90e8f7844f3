"""Protocol buffers without a library: just what ``xplane.proto`` needs.

The messages, from ``xla/tsl/profiler/protobuf/xplane.proto`` in openxla/xla, with field numbers: XSpace has
planes (1). XPlane: name (2), lines (3), event_metadata (4), stat_metadata (5), stats (6). XLine: id (1), name
(2), timestamp_ns (3), events (4), display_name (11). XEvent: metadata_id (1), offset_ps (2), duration_ps (3),
stats (4). XStat: metadata_id (1) and one of double (2), uint64 (3), int64 (4), str (5), bytes (6), ref (7).
Entries of the two tables of metadata: key (1), value (2); values: id (1), name (2), stats (5).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ...trace.report import ImportReport
from ...trace.strings import Coded
from .columns import WANTED, Line, Space, as_arguments, is_told

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TOP: Final = 1 << 63
_PS: Final = 1000
_LIMIT: Final = 1 << 62

Field = tuple[int, int, int, int]
"""Number, wire type, and value (integers) or start, and end of the bytes."""


class BrokenMessageError(ValueError):
    """The bytes are no message, or it is cut off."""


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """The fields of one message.

    Yields
    ------
    (number, wire, value, stop)
        For integers the value and 0; for everything else where its bytes begin and end.

    Raises
    ------
    BrokenMessageError
        If the message is cut off, or has a wire type that there is not.
    """
    while at < end:
        key, at = varint(data, at, end)
        wire = key & 7
        if wire == _VARINT:
            value, at = varint(data, at, end)
            yield key >> 3, wire, value, 0
            continue
        if wire == _BYTES:
            size, at = varint(data, at, end)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise BrokenMessageError(f"there is no wire type {wire}")
        if size > end - at:
            raise BrokenMessageError("a field is longer than its message")
        yield key >> 3, wire, at, at + size
        at += size


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned integer of 7 bits a byte, and where it ends."""
    result = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise BrokenMessageError("a number is cut off")


def planes(data: bytes) -> list[tuple[int, int]]:
    """Where the planes of a file begin and end.

    Raises
    ------
    BrokenMessageError
        If the file is cut off.
    """
    return [
        (at, stop) for number, wire, at, stop in fields(data, 0, len(data)) if (number, wire) == (1, _BYTES)
    ]


def walk(data: bytes, report: ImportReport) -> Space:
    """Decode a file.

    Parameters
    ----------
    data : bytes
        A serialized XSpace.
    report : ImportReport
        Counts a missing end (``truncated-file``) and what cannot be decoded (``broken-message``).

    Returns
    -------
    Space
        Every event that is whole.
    """
    space = Space([])
    try:
        for number, wire, at, stop in fields(data, 0, len(data)):
            if (number, wire) == (1, _BYTES):
                _plane(data, at, stop, space, report)
    except BrokenMessageError as error:
        report.add(
            "truncated-file",
            "loss",
            example=str(error),
            effect="the last planes are missing",
            advice="the writing process was probably killed",
        )
    return space


def _plane(data: bytes, at: int, stop: int, space: Space, report: ImportReport) -> None:
    name = ""
    lines: list[tuple[int, int]] = []
    events: list[tuple[int, int]] = []
    stats: list[tuple[int, int]] = []
    statistic: dict[int, str] = {}
    try:
        for number, wire, a, b in fields(data, at, stop):
            if wire != _BYTES:
                continue
            if number == 2:
                name = data[a:b].decode(errors="replace")
            elif number == 3:
                lines.append((a, b))
            elif number == 4:
                events.append((a, b))
            elif number == 5:
                key, text, _ = _entry(data, a, b, {})
                statistic[key] = text
            elif number == 6:
                stats.append((a, b))
    except BrokenMessageError as error:
        _broken(report, f"plane {name!r}: {error}")
    space.planes.append(name)
    wanted = {key: text for key, text in statistic.items() if is_told(text)}
    known: dict[int, tuple[str, dict[str, Any]]] = {}
    for a, b in events:
        try:
            key, text, own = _entry(data, a, b, wanted, statistic)
        except BrokenMessageError as error:
            _broken(report, f"plane {name!r}: {error}")
            continue
        known[key] = (text, own)
    own_stats: dict[str, Any] = {}
    for a, b in stats:
        _stat(data, a, b, statistic, statistic, own_stats)
    if own_stats:
        space.facts[name] = own_stats
    for a, b in lines:
        space.lines.append(_line(data, (a, b), name, known, wanted, statistic, report))


def _broken(report: ImportReport, example: str) -> None:
    report.add("broken-message", "loss", example=example, effect="what follows in it is left out")


def _entry(
    data: bytes, at: int, stop: int, wanted: dict[int, str], refs: dict[int, str] | None = None
) -> tuple[int, str, dict[str, Any]]:
    """Key, name and kept statistics of an entry of one of the two tables of metadata."""
    key, name, stats = 0, "", dict[str, Any]()
    for number, wire, a, b in fields(data, at, stop):
        if (number, wire) == (1, _VARINT):
            key = a
        elif (number, wire) == (2, _BYTES):
            for inner, kind, c, d in fields(data, a, b):
                if (inner, kind) == (2, _BYTES):
                    name = data[c:d].decode(errors="replace")
                elif (inner, kind) == (5, _BYTES) and wanted:
                    _stat(data, c, d, wanted, refs or {}, stats)
    return key, name, stats


def _stat(
    data: bytes, at: int, stop: int, wanted: dict[int, str], refs: dict[int, str], into: dict[str, Any]
) -> None:
    name = ""
    value: Any = None
    try:
        for number, wire, a, b in fields(data, at, stop):
            if number == 1 and wire == _VARINT:
                if a not in wanted:
                    return
                name = wanted[a]
            elif wire == _VARINT:
                value = refs.get(a, "") if number == 7 else (a - 2 * _TOP if number == 4 and a >= _TOP else a)
            elif number == 2 and wire == _FIXED64:
                value = struct.unpack_from("<d", data, a)[0]
            elif number == 5 and wire == _BYTES:
                value = data[a:b].decode(errors="replace")
            elif number == 6 and wire == _BYTES:
                value = data[a:b]
    except BrokenMessageError:
        return
    if name and value is not None:
        into[name] = value


def _line(
    data: bytes,
    span: tuple[int, int],
    plane: str,
    known: dict[int, tuple[str, dict[str, Any]]],
    wanted: dict[int, str],
    refs: dict[int, str],
    report: ImportReport,
) -> Line:
    name, display, number_of, start = "", "", 0, 0
    events: list[tuple[int, int]] = []
    try:
        for number, wire, a, b in fields(data, *span):
            if number == 4 and wire == _BYTES:
                events.append((a, b))
            elif wire == _BYTES and number in (2, 11):
                text = data[a:b].decode(errors="replace")
                name, display = (text, display) if number == 2 else (name, text)
            elif wire == _VARINT and number == 1:
                number_of = a if a < _TOP else a - 2 * _TOP
            elif wire == _VARINT and number == 3:
                start = a
    except BrokenMessageError as error:
        _broken(report, f"line {name!r}: {error}")
    rows, told = _events(data, events, known, wanted, refs, report)
    ids, offset, dur = (
        np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ((),) * 3)
    )
    distinct, codes = np.unique(ids, return_inverse=True)
    names = [known.get(int(key), (f"event {key}", {}))[0] for key in distinct]
    start = start if start < _LIMIT else 0
    stats = {key: [own.get(key) for own in told] for key in WANTED}
    stats = {key: values for key, values in stats.items() if any(value is not None for value in values)}
    return Line(
        plane,
        display or name,
        number_of,
        offset // _PS + start,
        dur // _PS,
        Coded(codes, names),
        stats,
        as_arguments(told),
    )


def _events(
    data: bytes,
    spans: list[tuple[int, int]],
    known: dict[int, tuple[str, dict[str, Any]]],
    wanted: dict[int, str],
    refs: dict[int, str],
    report: ImportReport,
) -> tuple[list[tuple[int, int, int]], list[dict[str, Any]]]:
    """Metadata, offset and duration of whole events, and their statistics."""
    rows: list[tuple[int, int, int]] = []
    told: list[dict[str, Any]] = []
    for at, stop in spans:
        key = offset = dur = 0
        own: dict[str, Any] = {}
        try:
            for number, wire, a, b in fields(data, at, stop):
                if wire == _VARINT:
                    if number == 1:
                        key = a
                    elif number == 2:
                        offset = a
                    elif number == 3:
                        dur = a
                elif number == 4 and wanted and wire == _BYTES:
                    _stat(data, a, b, wanted, refs, own)
        except BrokenMessageError as error:
            _broken(report, str(error))
            continue
        if max(offset, dur, key) >= _LIMIT:
            report.add(
                "broken-row", "loss", example=f"offset {offset} ps", effect="these events are left out"
            )
            continue
        told.append({**known[key][1], **own} if key in known else own)
        rows.append((key, offset, dur))
    return rows, told
