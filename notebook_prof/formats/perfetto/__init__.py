"""Perfetto's protocol buffers, as written by PyTorch, tracing libraries, rocprofv3, Chrome and Linux."""

from __future__ import annotations

from typing import Final

from ...readers.base import Probe, Reader
from ...readers.codec.protobuf import WireError, fields, varint

_OWN: Final = frozenset({6, 8, 10, 11, 12, 13, 33, 35, 36, 41, 42, 44, 50, 52, 53, 58, 59, 60, 66, 79, 87})
"""Fields of packets that do not occur in other formats whose files begin in the same way."""
_LOOKED_AT: Final = 20


class PerfettoReader(Reader):
    """Reads traces of Perfetto: ``.pftrace``, ``.perfetto-trace``, ``.pb``."""

    # Threads, processes and lanes become tracks; those named like a stream or queue of a GPU become streams.
    # PyTorch's files (`export_perfetto_trace`) give the same Trace as its JSON.
    name = "perfetto"
    priority = 625
    describes = "Perfetto protobuf (.pftrace, .pb): of PyTorch, tracing libraries, rocprofv3, Linux"
    reads = ".trace:read_trace"

    def recognises(self, probe: Probe) -> bool:
        head, at = probe.head, 0
        own = False
        try:
            for _ in range(_LOOKED_AT):
                if at >= len(head):
                    break
                if head[at] != 0x0A:
                    return False
                size, begin = varint(head, at + 1, len(head))
                at = begin + size
                numbers = [number for number, _ in fields(head, (begin, min(at, len(head))))]
                own |= not _OWN.isdisjoint(numbers)
                if 3 in numbers and not own:
                    return False
        except WireError:
            return own and at > len(head)
        return own
