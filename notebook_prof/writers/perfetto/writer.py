"""Writes a Trace as Perfetto's protocol buffers."""

from __future__ import annotations

import os
from typing import Final

from ...atomic_files import Sink, atomic_gzip
from ...trace import Trace
from .events import ANNOTATIONS, CATEGORY_WORDS, SEQUENCE, Events
from .wire import bytes_field, number_field

_CLOCK_SNAPSHOT, _TRACK_DESCRIPTOR, _INTERNED = 6, 60, 12
_CATEGORIES, _NAMES, _ANNOTATION_NAMES, _STRINGS = 1, 2, 3, 29
_BOOT, _REAL = 6, 1
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_AT_ONCE: Final = 1 << 14


def write_perfetto(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a Trace as Perfetto protobuf, which ui.perfetto.dev and `read_trace` open; ``.gz`` compresses."""
    # Threads are threads of their process, streams tracks of their GPU, counters have their unit. Slices are
    # begins and ends, in order of time. If slices of a track cross, which Perfetto cannot show, the shorter
    # ones are on tracks beside it, named ``main (2)``. Flows are numbered. Phase, step, module, shapes,
    # correlation, device and stream are annotations, and so are the event's arguments and launch settings.
    # Allocations are ``[memory]`` instants, as in PyTorch's export. Times are nanoseconds of the boot clock,
    # from the start of the trace; a clock snapshot has the Unix time.
    # Call stacks, the metadata with its tables, and the import report are not written.
    with atomic_gzip(path) as file:
        _write(trace, file)


def _write(trace: Trace, file: Sink) -> None:
    events = Events(trace)
    start = int(trace.metadata.get("start_unix_ns", 0))
    clocks = (
        number_field(1, clock) + number_field(2, value) for clock, value in ((_BOOT, 0), (_REAL, start))
    )
    snapshot = b"".join(bytes_field(1, clock) for clock in clocks) + number_field(2, _BOOT)
    file.write(_packet(bytes_field(_CLOCK_SNAPSHOT, snapshot)))
    for message in events.descriptions.messages:
        file.write(_packet(bytes_field(_TRACK_DESCRIPTOR, message)))
    _write_interned(events, file)
    for column in events.packets():
        file.write(memoryview(column.buffers()[2] or b""))


def _write_interned(events: Events, file: Sink) -> None:
    """Write texts and their numbers, from 1; the first packet clears the sequence's earlier state."""
    flags = _STATE_CLEARED | _NEEDS_STATE
    for kind, texts in (
        (_CATEGORIES, CATEGORY_WORDS),
        (_ANNOTATION_NAMES, ANNOTATIONS),
        (_NAMES, events.names),
        (_STRINGS, events.texts),
    ):
        for first in range(0, len(texts), _AT_ONCE):
            entries = (
                bytes_field(kind, number_field(1, first + i + 1) + bytes_field(2, text))
                for i, text in enumerate(texts[first : first + _AT_ONCE])
            )
            file.write(_packet(bytes_field(_INTERNED, b"".join(entries)), flags))
            flags = _NEEDS_STATE


def _packet(content: bytes, flags: int = 0) -> bytes:
    head = number_field(10, SEQUENCE) + (number_field(13, flags) if flags else b"")
    return bytes_field(1, head + content)
