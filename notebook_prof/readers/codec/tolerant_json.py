"""Decodes JSON that is damaged, padded or truncated, as far as possible, and counts what is lost."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import msgspec

from ...errors import FormatError
from ...trace.report import ImportReport

NOTHING: Final = msgspec.Raw(b"")
"""The text of a field that is missing."""
UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors that decoders raise."""


def decoded(text: bytes | memoryview | msgspec.Raw | str, kind: Any = Any) -> Any:
    """Decode a JSON value of some type; None for any other text."""
    try:
        return msgspec.json.decode(text, type=kind)
    except UNDECODABLE:
        return None


# Repair the invalid JSON that torch has written, and split into rows what cannot be repaired.

# The quote that ends a name is followed by the row's next key or the end of the object.
_NAME: Final = re.compile(rb'"name":\s*"')
_NAME_END: Final = re.compile(rb'"\s*(?:,\s*"(?:ph|cat|pid|tid|ts|dur|id|args|bp|s)":|\})')
# A top-level line `"key": "value",` as add_metadata writes it.
_LINE: Final = re.compile(rb'^([ \t]*"(?!name")[^"\n]+":[ \t]*")([^\n]*)$', re.MULTILINE)
_TWO_KEYS: Final = re.compile(rb'",?\s*"[^"\n]+":')
_BARE_QUOTE: Final = re.compile(rb'(?<!\\)((?:\\\\)*)"')
_BAD_ESCAPE: Final = re.compile(rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NOT_A_NUMBER: Final = re.compile(rb'(":\s*)-?(?:inf(?:inity)?|nan)(?=\s*[,}\]])', re.IGNORECASE)
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_PATIENCE: Final = 4
_MORE_PATIENCE: Final = 50_000_000
_DEEP_COST: Final = 10_000
_BRACKET_COST: Final = 20
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_SEPARATORS: Final = re.compile(r"[ \t\r\n,]*")
_EVENTS: Final = re.compile(r'"traceEvents"\s*:\s*\[')


def mend(data: bytes, reason: str, report: ImportReport) -> bytes:
    """Repair text that is not JSON, as far as possible, and count the repairs as ``invalid-json``."""
    # Known causes: quotes and line breaks in names (torch 2.0 to 2.13), backslashes (2.0 on Windows), ``inf``
    # and ``nan`` (before 2.1), control characters, bytes that are not UTF-8.
    count = 0
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode(errors="replace").encode()
        count += 1
    data, numbers = _NOT_A_NUMBER.subn(rb"\1null", data)
    report.add("not-a-number", "info", numbers, example="NaN or Infinity", effect="values without a number")
    for pattern, replacement in ((_CONTROL, b" "), (_BAD_ESCAPE, rb"\\\\")):
        data, n = pattern.subn(replacement, data)
        count += n
    data, named = _mend_names(data)
    data, lines = _mend_lines(data)
    effect = "repaired: the characters of some names are a guess"
    advice = "torch writes names with quotes wrongly; avoid them in record_function()"
    report.add("invalid-json", "info", count + named + lines, reason, effect, advice)
    return data


def _mend_names(data: bytes) -> tuple[bytes, int]:
    """Escape quotes and line breaks in names. Each name's end is searched once, so this takes linear time."""
    parts: list[bytes] = []
    at = count = 0
    for start in _NAME.finditer(data):
        if start.start() < at:
            continue
        if (end := _NAME_END.search(data, start.end())) is None:
            break
        text = data[start.end() : end.start()]
        fixed = _escaped(text)
        count += fixed != text
        parts += [data[at : start.end()], fixed]
        at = end.start()
    return b"".join([*parts, data[at:]]), count


def _mend_lines(data: bytes) -> tuple[bytes, int]:
    count = 0

    def escape(match: re.Match[bytes]) -> bytes:
        nonlocal count
        value = match[2].rstrip().removesuffix(b"}").rstrip().removesuffix(b",").rstrip()
        text = value[:-1]
        if not value.endswith(b'"') or _TWO_KEYS.search(text):
            return match[0]
        fixed = _escaped(text)
        count += fixed != text
        return match[1] + fixed + match[2][len(text) :]

    return _LINE.sub(escape, data), count


def _escaped(text: bytes) -> bytes:
    if b'"' not in text and b"\n" not in text:
        return text
    return _BARE_QUOTE.sub(rb'\1\\"', text).replace(b"\r", b"").replace(b"\n", b"\\n")


def split_rows(data: bytes) -> tuple[bytes, list[bytes], bool, str]:
    """Return the object around the events, each event's text, whether the list ends, and what follows it."""
    # The array form may legally lack its end. The list does not end either if the damage was so dense that
    # the rest was given up.
    text = data.decode(errors="replace")
    match = _EVENTS.search(text)
    array = match is None and text.lstrip().startswith("[")
    if match is None and not array:
        return b"{}", [], True, ""
    start = match.end() if match is not None else text.index("[") + 1
    rows, at, complete = row_texts(text, start)
    complete = complete or (array and at >= len(text))
    tail = text[at + 1 :] if complete else ""
    head = text[: match.start()] + '"traceEvents": []' + (tail or "}") if match is not None else "{}"
    second = tail.strip() if array or _EVENTS.search(tail) else ""
    return head.encode(), rows, complete, second


def row_texts(text: str, at: int) -> tuple[list[bytes], int, bool]:
    """Split a list of events from its first event on into JSON texts of its elements, as far as delimited.

    >>> row_texts('[{"a": 1}, 2]', 1)
    ([b'{"a": 1}', b'2'], 12, True)
    """
    # Also returned: the position of the closing bracket, or the end of the text, or an earlier one if the
    # damage was so dense that the rest was given up; and whether there is a closing bracket.
    # a row's end can be found without parsing numbers, and Python refuses to parse long ones
    scan = json.JSONDecoder(parse_int=len, parse_float=len).raw_decode
    rows: list[bytes] = []
    patience = _PATIENCE * len(text) + _MORE_PATIENCE
    while patience > 0:
        at = _SEPARATORS.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text) or text[at] == "]":
            return rows, at, at < len(text)
        try:
            _, end = scan(text, at)
        except json.JSONDecodeError as error:
            patience -= error.pos - at  # each nested row would be scanned to the end again
            end = _next_row(text, at)
        except RecursionError:
            closing = _closing_bracket(text, at)
            patience -= _DEEP_COST + _BRACKET_COST * ((closing or len(text)) - at)
            end = closing or _next_row(text, at)
        rows.append(text[at:end].encode())
        at = end
    return rows, at, False


def add_broken_row(report: ImportReport, error: Exception, row: bytes) -> None:
    """Report a row that cannot be decoded, with its text and the reason."""
    start = row[:80].decode(errors="replace")
    if isinstance(error, RecursionError):
        effect = "these rows are left out: their values are nested too deeply"
        advice = "no profiler writes such rows: check which program wrote or changed the file"
        report.add("nested-too-deep", "loss", example=start, effect=effect, advice=advice)
        return
    report.broken_rows(1, f"{error}: {start}")


def add_cut_list(report: ImportReport) -> None:
    """Report that the list of events has no end."""
    effect, advice = "the last events are missing", "the writing process was probably killed"
    report.truncated("the list of events has no end", effect, advice=advice)


def add_second_list(report: ImportReport, text: str) -> None:
    """Report a second list of events, which is not read."""
    effect = "what follows the end of the list of events is left out"
    advice = "split the file there, and open each part"
    report.add("second-list", "loss", example=text[:80], effect=effect, advice=advice)


def _closing_bracket(text: str, at: int) -> int:
    """Return the position after the bracket that closes the one at `at`; 0 if there is none."""
    depth = 0
    for token in _BRACKETS.finditer(text, at):
        sign = token[0]
        if sign[0] != '"':
            depth += 1 if sign in "[{" else -1
            if depth <= 0:
                return token.end() if depth == 0 else 0
    return 0


def _next_row(text: str, at: int) -> int:
    """Return the start of the row after a broken one."""
    row = re.compile(r",\s*(?=\{\s*(?:\"|\}))").search(text, at + 1)
    return row.end() if row else len(text)


E = TypeVar("E")
R = TypeVar("R")


class EventFile(msgspec.Struct, Generic[R]):
    """A file that holds its events in one list, ``traceEvents``."""

    rows: list[R] = msgspec.field(name="traceEvents")


def decode_events(data: bytes, envelope: type[E], row: type[R], report: ImportReport) -> E:
    """Decode a file of events as a whole or, if that fails, row by row; FormatError without events.

    >>> Row = msgspec.defstruct("Row", [("name", str)])
    >>> decode_events(b'{"traceEvents": [{"name": "a"}, {"name": "b', EventFile[Row], Row, ImportReport())
    EventFile(rows=[Row(name='a')])
    """
    # Returns the object around the events, whose attribute `rows` they are.
    data = data.rstrip(b"\x00 \t\r\n")
    listed = data.lstrip().startswith(b"[")
    try:
        return _decode_whole(data, envelope, row, listed)
    except msgspec.ValidationError:
        pass
    except UNDECODABLE as error:
        data = mend(data, str(error), report)
        try:
            return _decode_whole(data, envelope, row, listed)
        except UNDECODABLE:
            pass
    return _one_by_one(data, envelope, row, report)


def decode_rows(data: bytes, row: type[R], report: ImportReport) -> list[R]:
    """Decode the events of a file and ignore its other fields; see `decode_events`."""
    return decode_events(data, EventFile[row], row, report).rows  # type: ignore[valid-type]


def decode_object(data: bytes, kind: type[E], whose: str) -> E:
    """Decode a whole file, ignoring any padding around it; FormatError if it is not JSON of this form.

    >>> decode_object(b'{"a": [1]}  ', dict[str, list[int]], "our")
    {'a': [1]}
    """
    try:
        return msgspec.json.decode(data.strip(b"\x00 \t\r\n"), type=kind)
    except UNDECODABLE as error:
        cut = ": the file was cut, copy or record it again" if "truncated" in str(error) else ""
        raise FormatError(f"it cannot be read as {whose} JSON ({error}){cut}") from error


def _decode_whole(data: bytes, envelope: type[E], row: type[R], listed: bool) -> E:
    if listed:
        return envelope(rows=msgspec.json.decode(data, type=list[row]))  # type: ignore[call-arg,valid-type]
    return msgspec.json.decode(data, type=envelope)


def _one_by_one(data: bytes, envelope: type[E], row: type[R], report: ImportReport) -> E:
    head, texts, complete, second = split_rows(data)
    if second:
        add_second_list(report, second)
    if not complete:
        add_cut_list(report)
    strict, loose = msgspec.json.Decoder(row), msgspec.json.Decoder(row, strict=False)
    rows: list[R] = []
    for text in texts:
        try:
            rows.append(strict.decode(text))
        except UNDECODABLE:
            try:
                rows.append(loose.decode(text))
            except UNDECODABLE as error:
                add_broken_row(report, error, text)
    if not texts:
        raise FormatError(f"no events can be read from it; it starts with {data[:40]!r}")
    with suppress(*UNDECODABLE):
        file = msgspec.json.decode(head, type=envelope, strict=False)
        file.rows = rows  # type: ignore[attr-defined]
        return file
    return envelope(rows=rows)  # type: ignore[call-arg]
