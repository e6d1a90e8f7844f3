"""The reader of generic trace events."""

from __future__ import annotations

import re
from collections import Counter
from typing import ClassVar, Final

from ...trace.builder import TraceBuilder
from ..base import Probe, Reader
from .arguments import Arguments
from .events import Events, Tracks, columns, number
from .flows import add_asyncs, add_flows
from .rows import Envelope, decode
from .samples import Stacks, add_counters, add_sampled
from .slices import FrameOf, add_slices

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
    """Reads Chrome's Trace Event Format: object, array (also without its end), or an event a line.

    Times are microseconds in the file, whatever ``displayTimeUnit`` says, and are kept to the
    nanosecond. Ends are matched with begins by name. Asynchronous events are on tracks of their own,
    flows are of the kind ``link``. What slices were called with is in
    ``metadata["tables"]["event_arguments"]``: see `arguments.Arguments.table`.
    """

    name: ClassVar[str] = "trace_event"
    priority: ClassVar[int] = 10
    describes: ClassVar[str] = "Chrome trace JSON (Trace Event Format) of any program"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the head is JSON with events, or an empty list."""
        head = probe.head.lstrip()
        if head[:1] not in (b"{", b"["):
            return False
        return _MARKS.search(head) is not None or _EMPTY.match(head) is not None

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Put the file's events into `builder`."""
        read_events(data, builder)


def read_events(data: bytes, builder: TraceBuilder, frame_of: FrameOf | None = None) -> Envelope:
    """Put the events of a file into `builder`.

    Parameters
    ----------
    data : bytes
    builder : TraceBuilder
        Its report counts every event that is not used.
    frame_of : callable, optional
        The function that an event's name stands for, or None.

    Returns
    -------
    Envelope
        What is around the events, for dialects that say more; its `rows` are used up.

    Raises
    ------
    FormatError
        If it is no trace.
    """
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
    stacks = Stacks(envelope.frames)
    keys = stacks.keys((row.sf for row in events.rows if row.sf is not None and row.ph != "P"), builder)
    arguments = Arguments()
    placed = add_slices(events, tracks, keys, arguments, builder, frame_of)
    add_asyncs(events, tracks, arguments, builder)
    add_counters(events, tracks, builder)
    add_flows(events, tracks, placed, builder)
    add_sampled(events, tracks, stacks, builder)
    if (table := arguments.table()) is not None:
        builder.metadata.setdefault("tables", {})["event_arguments"] = table
    _count_unused(events, arguments, builder)
    return envelope


def _count_unused(events: Events, arguments: Arguments, builder: TraceBuilder) -> None:
    for letter, count in Counter(events.phase.tolist()).items():
        if letter not in _USED:
            what = f" ({_WHAT[letter]})" if letter in _WHAT else ""
            example = f"events of phase {letter!r}{what}"
            builder.report.add(
                "row-not-used", "loss", count, example=example, effect="they are not in the tables"
            )
    bare = sum(len(row.arguments()) > 2 for row in events.rows if row.ph not in ("C", "M")) - arguments.count
    builder.report.add(
        "arguments-not-kept",
        "info",
        bare,
        effect="those of arrows, samples and events that are no slices are left out",
    )
