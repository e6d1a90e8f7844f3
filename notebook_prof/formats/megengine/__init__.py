"""MegEngine: its profiler's timelines, static graph profiles and memory drawings."""

from __future__ import annotations

import re
from typing import Final

from ...readers.base import Probe, Reader
from ...trace.builder import TraceBuilder

_TIMELINE: Final = re.compile(
    rb'"(?:OpDispatch|nr_op_pending|gpu_usgae_ratio|gpu_usage_ratio|train_time_ratio|nr_alive_tensor'
    rb'|TensorGetProp|TensorWaitProp|nr_redunant_tensor|StartProfile)"|CompNode\(\\"'
)
_GRAPH: Final = re.compile(
    rb'"(?:opr_footprint|opr_internal_pf|graph_exec|comp_seq)"\s*:|comp_node_dispatch:CompNode'
)
_SVG: Final = b"https://megengine.org.cn"


class MegEngineReader(Reader):
    """Reads ``chrome_timeline.json``, ``memory_flow.svg`` and the JSON of ``trace.get_profile()``."""

    # The timeline of a dynamic graph gives operators on the host and kernels on the device, the profile of a
    # static graph each operator with its FLOPs, bytes and shapes, and the drawing each tensor's memory.
    name = "megengine"
    priority = 610
    describes = (
        "MegEngine profiler: chrome_timeline.json, memory_flow.svg, get_profile() JSON of static graphs"
    )

    def recognises(self, probe: Probe) -> bool:
        head = probe.head.lstrip()
        if head[:1] == b"<":
            return _SVG in head
        if head[:1] not in (b"{", b"[") or b'"schemaVersion"' in head:  # a Kineto file, or our export
            return False
        return (b'"ph"' in head and _TIMELINE.search(head) is not None) or _GRAPH.search(head) is not None

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        head = data.lstrip()[:65536]
        if head[:1] == b"<":
            from .memory import read_memory_flow as read
        elif _GRAPH.search(head) is not None and b'"traceEvents"' not in head:
            from .graph import read_graph as read
        else:
            from .timeline import read_timeline as read
        read(data, builder)
