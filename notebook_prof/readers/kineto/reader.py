"""The reader of Kineto's JSON files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, Final

from ...trace.builder import TraceBuilder
from ..base import PiecesReader, Probe
from .assemble import assemble
from .parser import parse

_MARKS: Final = re.compile(
    rb'"traceEvents"\s*:\s*\[\s*\]|"schemaVersion"|"deviceProperties"|"baseTimeNanoseconds"|PyTorch Profiler'
    rb'|"cat":\s*"(?:cpu_op|user_annotation|cuda_runtime|cuda_driver|kernel|python_function'
    rb'|Operator|Kernel|Runtime|Memcpy|Memset)"'
)


class KinetoReader(PiecesReader):
    """Reads ``*.pt.trace.json`` of every torch since 1.8, compressed or not.

    Times are kept to the nanosecond. Rows of bookkeeping (``PyTorch Profiler (0)``, the record
    window) are left out, as are the file's own flow arrows, which are found again from the
    correlation and sequence numbers.
    """

    name: ClassVar[str] = "kineto"
    priority: ClassVar[int] = 500
    describes: ClassVar[str] = (
        "PyTorch profiler (Kineto) JSON: torch.profiler's export_chrome_trace, tensorboard_trace_handler"
    )

    def recognises(self, probe: Probe) -> bool:
        """Whether the head is JSON with one of Kineto's own keys or categories."""
        return probe.head.lstrip()[:1] in (b"{", b"[") and _MARKS.search(probe.head) is not None

    def read_pieces(self, pieces: Iterable[bytes], builder: TraceBuilder) -> None:
        """Put the file's rows into `builder`."""
        file_name = str(builder.metadata.get("file", ""))
        columns, facts = parse(pieces, builder.report, file_name)
        builder.metadata.update(facts)
        assemble(columns, builder)
