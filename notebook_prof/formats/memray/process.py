"""Print the content of a memray recording as JSON; run in a separate process.

memray reads recordings in C++, and some that are damaged end its process. So `memray_recording` runs this in
another one. It imports memray and the standard library only.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any

_MOST_SNAPSHOTS = 1_000_000
"""Above this number, memray leaves out some. By default it takes one every 10 ms."""


def contents(path: str) -> dict[str, Any]:
    """Return what a recording contains, with each frame once."""
    # ``facts`` is what the head of the file says, with times in ms since the epoch; ``snapshots`` has [time
    # in ms, resident bytes, bytes of the heap]; ``frames`` has [function, file, line]; ``blocks`` has [bytes,
    # count, kept_bytes, kept_count, stack], first those at the peak of the heap, then those not freed. A
    # stack is a list of numbers of frames, innermost first.
    import memray

    frames: dict[tuple[str, str, int], int] = {}

    def stack(record: memray.AllocationRecord) -> list[int]:
        return [frames.setdefault(frame, len(frames)) for frame in record.stack_trace()]

    with memray.FileReader(path, max_memory_records=_MOST_SNAPSHOTS) as reader:
        at_peak = reader.get_high_watermark_allocation_records(merge_threads=True)
        blocks = [(one.size, one.n_allocations, 0, 0, stack(one)) for one in at_peak]
        kept = reader.get_leaked_allocation_records(merge_threads=True)
        blocks += [(0, 0, one.size, one.n_allocations, stack(one)) for one in kept]
        head = reader.metadata
        facts = {
            "memray": version("memray"),
            "command": head.command_line,
            "pid": head.pid,
            "records": head.total_allocations,
            "start_ms": round(head.start_time.timestamp() * 1000),
            "end_ms": round(head.end_time.timestamp() * 1000),
            "aggregated": head.file_format == memray.FileFormat.AGGREGATED_ALLOCATIONS,
            "native_traces": head.has_native_traces,
            "python_allocator": head.python_allocator,
            "python_objects": head.trace_python_allocators,
        }
        snapshots = [tuple(one) for one in reader.get_memory_snapshots()]
    return {"facts": facts, "snapshots": snapshots, "blocks": blocks, "frames": list(frames)}


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[1])
    json.dump(contents(sys.argv[2]), sys.stdout)
