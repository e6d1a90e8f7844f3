"""VizTracer: trace events whose names say where a function is."""

from __future__ import annotations

import re
from typing import ClassVar, Final

from ...trace.builder import TraceBuilder
from ..base import Probe, Reader
from ..call_tree import Frame
from ..trace_event import read_events

_MARKS: Final = re.compile(rb'"viztracer_metadata"\s*:|"cat"\s*:\s*"(?:FEE|fee)"')
_LOCATION: Final = re.compile(r"(.*?) \((.*):(\d{1,9})\)", re.DOTALL)


class VizTracerReader(Reader):
    """Reads VizTracer's ``result.json``: calls with file and line, counters, instants.

    Slices are called by their function, file and line; the full path of the file is in `stacks`. The
    source text that VizTracer encloses is in ``metadata["source_files"]``, by path.
    """

    name: ClassVar[str] = "viztracer"
    priority: ClassVar[int] = 520
    describes: ClassVar[str] = "VizTracer JSON: every call of Python functions"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the head is JSON with VizTracer's metadata or categories."""
        return probe.head.lstrip()[:1] in (b"{", b"[") and _MARKS.search(probe.head) is not None

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Put the file's events into `builder`."""
        envelope = read_events(data, builder, frame_of)
        facts = envelope.viztracer if isinstance(envelope.viztracer, dict) else {}
        if "version" in facts:
            builder.metadata["viztracer"] = str(facts["version"])
        if facts.get("overflow"):
            builder.report.add(
                "buffer-overflow",
                "loss",
                example=f"overflow: {facts['overflow']}",
                effect="the earliest events were overwritten while recording",
                advice="record with a larger tracer_entries",
            )
        files = envelope.files.get("files") if isinstance(envelope.files, dict) else None
        if isinstance(files, dict):
            builder.metadata["source_files"] = {
                str(path): str(text[0]) for path, text in files.items() if isinstance(text, list) and text
            }


def frame_of(name: str) -> Frame | None:
    """Return the function that a name like ``step (train.py:9)`` stands for.

    Examples
    --------
    >>> frame_of("Thread.run (/lib/threading.py:982)")
    Frame(function='Thread.run', file='/lib/threading.py', line=982)
    >>> frame_of("builtins.exec") is None
    True
    """
    if not name.endswith(")") or (match := _LOCATION.fullmatch(name)) is None:
        return None
    return Frame(match[1], match[2], int(match[3]))
