"""The JSON of trace events, loosely typed, since writers use any type in any field."""

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
    """One event. Times stay text, since a double cannot represent them."""

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
    system: Any = field(name="systemTraceEvents", default=None)


def decode(data: bytes, report: ImportReport) -> Envelope:
    """Decode an object, an array with or without its end, or one event per line; FormatError for others."""
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
    _count_system_events(envelope.system, report)
    if envelope.rows is UNSET and not samples:
        raise FormatError("there is no list 'traceEvents' in it: this is not a file of trace events")
    envelope.rows = [*(envelope.rows or []), *samples]
    return envelope


def _samples(text: Raw, report: ImportReport) -> list[Row]:
    """Return the list ``samples`` beside the events as events of phase P."""
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


def _count_system_events(system: Any, report: ImportReport) -> None:
    """Report the operating system's events, which are not read: ftrace's text or Fuchsia's list."""
    if isinstance(system, str):
        lines = map(str.strip, system.splitlines())
        system = [line for line in lines if line and not line.startswith("#")]
    events = system.get("events") if isinstance(system, dict) else system
    if isinstance(events, list) and events:
        effect = "which thread ran on which core is not known"
        advice = "Perfetto's page shows them"
        report.add("system-events", "loss", len(events), str(events[0])[:80], effect, advice)


def _lines(text: bytes, report: ImportReport) -> list[Row] | None:
    """Return the events of a file with one object per line; None for any other file."""
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
