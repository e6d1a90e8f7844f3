"""Proton, Triton's profiler: a tree of kernels and scopes."""

from __future__ import annotations

import re
from typing import ClassVar, Final

from ...readers.base import Probe, Reader
from ...trace.builder import TraceBuilder

_MARKS: Final = tuple(re.compile(rb'"' + word + rb'"\s*:') for word in (b"frame", b"metrics"))
_PACKED: Final = re.compile(rb"(?:[\x91-\x9f]|\xdc..)[\x81-\x8f]\xa5frame", re.DOTALL)
"""MessagePack: a list whose first element is a map, and its first key."""


class ProtonReader(Reader):
    """Reads ``proton.start(…, data="tree")``: sums by call path, without a timeline."""

    # The kernels of a device are on one lane, one after another in the order of the tree, inside the scopes
    # in which they were launched. The file does not contain when they ran, nor how long a scope took on the
    # host unless that was measured. All metrics are in ``metadata["tables"]["proton"]``.
    name: ClassVar[str] = "proton"
    priority: ClassVar[int] = 407
    describes: ClassVar[str] = (
        "Proton, Triton's profiler: its tree of kernels and scopes (.hatchet, .hatchet_msgpack)"
    )

    def recognises(self, probe: Probe) -> bool:
        """Return whether the head is a list of nodes, in JSON or MessagePack."""
        head = probe.head
        if _PACKED.match(head):
            return True
        return head.lstrip()[:1] == b"[" and all(mark.search(head) is not None for mark in _MARKS)

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Put the kernels and scopes into `builder`."""
        from .tree import read_tree

        read_tree(data, _PACKED.match(data) is not None, builder)
