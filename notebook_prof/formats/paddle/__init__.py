"""Paddle: its profiler's JSON and protobuf files, which VisualDL shows, and the text that it prints."""

from __future__ import annotations

import re
from typing import Final

from ...readers.base import Probe, Reader
from ...trace.builder import TraceBuilder

_JSON: Final = re.compile(
    rb'"span_ind(?:e?)x"\s*:|"tid"\s*:\s*"\d+\((?:Python|C\+\+)\)"|"schemaVersion"\s*:\s*"1\.0\.\d'
)
_PROTOBUF: Final = re.compile(rb"\n[\x03-\x0f]\d+\.\d+\.\d+\x10[\x00-\xff]")


class PaddleReader(Reader):
    """Reads ``*.paddle_trace.json`` of schema 1.0.0 to 1.0.2, and ``*.paddle_trace.pb``."""

    # The .pb holds exact nanoseconds, the tree of events and input shapes; the JSON cuts starts to whole
    # microseconds, which are told apart again as far as the file allows. Both give the same tables.
    name = "paddle"
    priority = 620
    describes = "Paddle profiler: .paddle_trace.json (export_chrome_tracing) and .pb (export_protobuf)"

    def recognises(self, probe: Probe) -> bool:
        if probe.head.lstrip()[:1] in (b"{", b"["):
            return _JSON.search(probe.head) is not None
        return _PROTOBUF.match(probe.head) is not None

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        from .chrome import read_json
        from .columns import assemble
        from .protobuf import read_protobuf

        is_json = data.lstrip()[:1] in (b"{", b"[")
        columns = read_json(data, builder.report) if is_json else read_protobuf(data, builder.report)
        assemble(columns, builder)
