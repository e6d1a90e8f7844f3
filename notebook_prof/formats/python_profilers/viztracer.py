"""VizTracer: trace events whose names contain the place of the function."""

from __future__ import annotations

import re
from typing import Final

from ...readers.call_tree import CallFrame
from ...readers.trace_event import read_events
from ...trace.builder import TraceBuilder

_LOCATION: Final = re.compile(r"(.*?) \((.*):(\d{1,9})\)", re.DOTALL)


def read_viztracer(data: bytes, builder: TraceBuilder) -> None:
    """Put the file's events into `builder`."""
    envelope = read_events(data, builder, frame_of)
    facts = envelope.viztracer if isinstance(envelope.viztracer, dict) else {}
    if "version" in facts:
        builder.metadata["viztracer"] = str(facts["version"])
    if facts.get("overflow"):
        example = f"overflow: {facts['overflow']}"
        effect = "the earliest events were overwritten while recording"
        advice = "record with a larger tracer_entries"
        builder.report.add("buffer-overflow", "loss", example=example, effect=effect, advice=advice)
    files = envelope.files.get("files") if isinstance(envelope.files, dict) else None
    if isinstance(files, dict):
        builder.metadata["source_files"] = {
            str(path): str(text[0]) for path, text in files.items() if isinstance(text, list) and text
        }


def frame_of(name: str) -> CallFrame | None:
    """Return the function named like ``step (train.py:9)``.

    >>> frame_of("Thread.run (/lib/threading.py:982)"), frame_of("builtins.exec")
    (CallFrame(function='Thread.run', file='/lib/threading.py', line=982), None)
    """
    if not name.endswith(")") or (match := _LOCATION.fullmatch(name)) is None:
        return None
    return CallFrame(match[1], match[2], int(match[3]))
