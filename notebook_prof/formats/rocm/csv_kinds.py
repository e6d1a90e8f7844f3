"""The kinds of rocprofv3's CSV files, by their headers."""

from __future__ import annotations

from typing import Final

KERNELS, COUNTERS, CALLS, COPIES, ALLOCATIONS, AGENTS = (
    "kernels", "counters", "calls", "copies", "allocations", "agents",
)  # fmt: skip
_NEEDED: Final = (
    (COUNTERS, {"counter_name", "kernel_name", "start"}),
    (KERNELS, {"kernel_name", "start", "end"}),
    (CALLS, {"domain", "function", "start", "end"}),
    (COPIES, {"direction", "start", "end"}),
    (ALLOCATIONS, {"operation", "address", "start"}),
    (AGENTS, {"node_id", "agent_type"}),
)
_OURS: Final = {"start_timestamp": "start", "end_timestamp": "end", "process_id": "pid", "thread_id": "tid"}
_LONGEST_HEAD: Final = 4_096


def kind_of(head: bytes) -> str | None:
    """Return the kind of a file of rocprofv3; None for any other file."""
    line = head[:_LONGEST_HEAD].partition(b"\n")[0]
    if b"," not in line or b"_" not in line:
        return None
    names = set(header_names(line))
    return next((kind for kind, needed in _NEEDED if needed <= names), None)


def header_names(line: bytes) -> list[str]:
    """Return the columns of a header, in lower case."""
    words = line.decode(errors="replace").strip().split(",")
    lowered = [word.strip(' "').lower() for word in words]
    return [_OURS.get(word, word) for word in lowered]
