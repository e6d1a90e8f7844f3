"""The Trace Event Format: the JSON of Chrome, Perfetto and tools that write files for them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from ...trace.builder import TraceBuilder
from ..base import Probe, Reader
from .events import EventColumns, TraceEventFile, Tracks, columns, decode, number
from .flows import add_asyncs, add_flows
from .samples import FileStacks, add_counters, add_sampled, add_v8_profiles
from .slices import CollectedArguments, FrameOf, add_slices

_MARKS: Final = re.compile(rb'"traceEvents"\s*:|"ph"\s*:\s*"|"stackFrames"\s*:')
_EMPTY: Final = re.compile(rb"\s*\[[\s\x00\]]*\Z")
_USED: Final = "XBEMiIRCPbneSTpFstf"
_WHAT: Final = {
    "N": "object created",
    "O": "object snapshot",
    "D": "object destroyed",
    "c": "clock synchronisation",
    "V": "memory dump",
    "v": "memory dump",
    "(": "context",
    ")": "context",
    "=": "linked id",
}


class TraceEventReader(Reader):
    """Reads Chrome's Trace Event Format: an object, an array, or one event per line."""

    # An array may lack its end. Times are microseconds in the file, regardless of ``displayTimeUnit``, and
    # are exact to the nanosecond. Ends are matched with begins by name. Asynchronous events are on separate
    # tracks, and flows have the kind ``link``. Arguments of slices are in
    # ``metadata["tables"]["event_arguments"]``.

    name = "trace_event"
    priority = 10
    describes = "Chrome trace JSON (Trace Event Format) of any program"

    def recognises(self, probe: Probe) -> bool:
        head = probe.head.lstrip()
        if head[:1] not in (b"{", b"["):
            return False
        return _MARKS.search(head) is not None or _EMPTY.match(head) is not None

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        read_events(data, builder)


def read_events(data: bytes, builder: TraceBuilder, frame_of: FrameOf | None = None) -> TraceEventFile:
    """Add the events of a file to `builder`, and return the object around them, which dialects read."""
    # `frame_of` returns the function that an event's name represents, or None. The envelope's `rows` are
    # consumed.
    envelope = decode(data, builder.report)
    viztracer = envelope.viztracer if isinstance(envelope.viztracer, dict) else {}
    base_ns = number(envelope.base_ns) or number(viztracer.get("baseTimeNanoseconds")) or 0
    events = columns(envelope.rows or [], base_ns, builder)
    envelope.rows = []
    if isinstance(envelope.unit, str):
        builder.metadata["display_time_unit"] = envelope.unit
    if isinstance(envelope.other, dict):
        builder.metadata["other_data"] = envelope.other
    tracks = Tracks(events, builder)
    stacks = FileStacks(envelope.frames)
    keys = stacks.keys((row.sf for row in events.rows if row.sf is not None and row.ph != "P"), builder)
    arguments = CollectedArguments(builder)
    placed = add_slices(events, tracks, keys, arguments, builder, frame_of)
    add_asyncs(events, tracks, arguments, builder)
    add_counters(events, tracks, builder)
    add_flows(events, tracks, placed, builder)
    add_sampled(events, tracks, stacks, builder)
    add_v8_profiles(events, tracks, base_ns, builder)
    _count_unused(events, arguments, builder)
    return envelope


def _count_unused(events: EventColumns, arguments: CollectedArguments, builder: TraceBuilder) -> None:
    for letter, count in Counter(events.phase.tolist()).items():
        if letter not in _USED:
            what = f" ({_WHAT[letter]})" if letter in _WHAT else ""
            example = f"events of phase {letter!r}{what}"
            builder.report.add("row-not-used", "loss", count, example, "they are not in the tables")
    bare = sum(len(row.arguments()) > 2 for row in events.rows if row.ph not in ("C", "M")) - arguments.count
    effect = "those of arrows, samples and events that are no slices are left out"
    builder.report.add("arguments-not-kept", "info", bare, effect=effect)
