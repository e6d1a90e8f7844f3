"""The JSON of trace events, typed loosely: writers put anything anywhere."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from ...errors import FormatError
from ...trace.report import ImportReport
from ..codec.tolerant_json import decode_events

_NOTHING: Final = Raw(b"")
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Row(Struct, gc=False):
    """One event. Times stay text: a double cannot hold them."""

    ph: Any = ""
    name: Any = None
    cat: Any = None
    pid: Any = None
    tid: Any = None
    ts: Raw = _NOTHING
    dur: Raw = _NOTHING
    tdur: Raw = _NOTHING
    id: Any = None
    id2: Any = None
    scope: Any = None
    args: Raw = _NOTHING
    attr: Raw = _NOTHING
    bp: Any = None
    bind_id: Any = None
    flow_in: Any = None
    flow_out: Any = None
    sf: Any = None
    weight: Any = None

    def arguments(self) -> Raw:
        """Return its arguments; IBM's writers call them ``attr``."""
        return self.args if len(self.args) > 2 else self.attr


class Envelope(Struct):
    """The object around the events."""

    rows: list[Row] | UnsetType = field(name="traceEvents", default=UNSET)
    base_ns: Any = field(name="baseTimeNanoseconds", default=None)
    unit: Any = field(name="displayTimeUnit", default=None)
    frames: Any = field(name="stackFrames", default=None)
    samples: Raw = field(name="samples", default=_NOTHING)
    other: Any = field(name="otherData", default=None)
    viztracer: Any = field(name="viztracer_metadata", default=None)
    files: Any = field(name="file_info", default=None)


def decode(data: bytes, report: ImportReport) -> Envelope:
    """Decode a file: object, array with or without its end, or an event a line.

    Raises
    ------
    FormatError
        If it is not a list of events in any of these forms.
    """
    text = data.strip(b"\x00 \t\r\n")
    if text.startswith(b"{") and (lines := _lines(text, report)) is not None:
        return Envelope(rows=lines)
    if text.strip(b"[], \t\r\n") == b"":
        example = "the list of events is empty"
        report.add("no-events", "info", 1, example, "all tables are empty")
        return Envelope(rows=[])
    try:
        envelope, rows = decode_events(text, Envelope, Row, report)
    except RecursionError as error:
        raise FormatError("its JSON is nested too deeply for a trace") from error
    envelope = envelope or Envelope()
    if rows is not None:
        envelope.rows = rows
    samples = _samples(envelope.samples, report)
    if envelope.rows is UNSET and not samples:
        raise FormatError("there is no list 'traceEvents' in it: this is not a file of trace events")
    envelope.rows = [*(envelope.rows or []), *samples]
    return envelope


def _samples(text: Raw, report: ImportReport) -> list[Row]:
    """Return the list ``samples`` beside the events, as events of phase P."""
    if not bytes(text).startswith(b"["):
        return []
    try:
        rows = msgspec.json.decode(text, type=list[Row])
    except _UNDECODABLE as error:
        report.add("broken-samples", "loss", example=str(error), effect="no samples are read")
        return []
    for row in rows:
        row.ph = "P"
    return rows


def _lines(text: bytes, report: ImportReport) -> list[Row] | None:
    """Return events of a file with an object a line; None if it is not one."""
    first, _, further = text.partition(b"\n")
    if not further.lstrip().startswith(b"{"):
        return None
    try:
        if not msgspec.json.decode(first, type=Row).ph:
            return None
    except _UNDECODABLE:
        return None
    try:
        return msgspec.json.Decoder(Row).decode_lines(text)
    except _UNDECODABLE:
        pass
    rows = []
    for line in filter(None, map(bytes.strip, text.splitlines())):
        try:
            rows.append(msgspec.json.decode(line, type=Row))
        except _UNDECODABLE as error:
            example = f"{error}: {line[:80].decode(errors='replace')}"
            report.add("broken-row", "loss", example=example, effect="these rows are left out")
    return rows
