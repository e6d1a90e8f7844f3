"""Recordings of memray, and the table that ``memray transform csv`` makes from one: blocks by stack."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

from ...readers.base import PiecesReader, Probe
from ...trace.builder import TraceBuilder

_HEAD: Final = b"allocator,num_allocations,size,tid,thread_name,stack_trace"
_MAGIC: Final = b"memray\0"
_LZ4: Final = b"\x04\x22\x4d\x18"
_WITHIN: Final = 64


class MemrayReader(PiecesReader):
    """Reads memray's recordings (``.bin``), and the table that ``memray transform csv`` makes from one."""

    # ``p.memory.heap()`` returns the blocks at the peak of the heap. A recording is read by memray itself, in
    # a separate process, and also gives memory over time, ``p.memory()``. The table has no times.
    name = "memray"
    priority = 430
    describes = "memray's recordings, by memray itself, and its table: memray transform csv"

    def recognises(self, probe: Probe) -> bool:
        """Return whether it is a recording of memray or its table."""
        return probe.head.startswith(_HEAD) or _is_recording(probe.head)

    def read_pieces(self, pieces: Iterable[bytes], builder: TraceBuilder) -> None:
        pieces = iter(pieces)
        first = next(pieces, b"")
        pieces = chain([first], pieces)
        if _is_recording(first):
            from .recording import read_recording

            read_recording(pieces, builder)
        else:
            from .recording import read_table

            read_table(b"".join(pieces), builder)


def _is_recording(head: bytes) -> bool:
    return head.startswith(_MAGIC) or (head.startswith(_LZ4) and _MAGIC in head[:_WITHIN])
