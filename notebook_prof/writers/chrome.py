"""Chrome trace JSON in Kineto's dialect, for Perfetto and TensorBoard."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from ..atomic_files import Sink, atomic_gzip
from ..trace import Trace
from .rows import counter_rows, flow_rows, memory_rows, slice_rows, stack_frames, step_rows, track_rows


def write_chrome(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a Trace as Chrome trace JSON, compressed if the path ends in ``.gz``.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from notebook_prof import TraceBuilder, read_trace
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 2], dur=[9, 3], name=["linear", "mm"], track=b.track("main", pid=1, tid=1))
    >>> file = Path(tempfile.mkdtemp()) / "run.json.gz"
    >>> write_chrome(b.seal(), file)
    >>> read_trace(file).slices[["ts", "dur"]].values.tolist()
    [[0, 9], [2, 3]]
    """
    # Slices become complete events with Kineto's category names; times are microseconds with three decimals
    # relative to ``baseTimeNanoseconds``, so no nanosecond is lost. Streams, launches, counters, allocations
    # and collectives are written as Kineto writes them. Attributes that Kineto lacks (phase, step, module,
    # line) are in ``args``; call stacks are Chrome's ``stackFrames``. Steps that are not slices become
    # ``ProfilerStep#N`` on their own thread. `read_trace` reads the file as one of Kineto's; only ``.nbprof``
    # keeps everything.
    with atomic_gzip(path) as file:
        _write(trace, file)


def _write(trace: Trace, file: Sink) -> None:
    # other programs cannot read half a surrogate
    head = json.dumps(_head(trace), ensure_ascii=False)[:-1] + ', "traceEvents": [\n'
    file.write(head.encode(errors="replace"))
    first = True
    for rows in (track_rows, slice_rows, step_rows, flow_rows, counter_rows, memory_rows):
        for text in rows(trace):
            if text:
                file.write((text if first else ",\n" + text).encode())
                first = False
    file.write(b"\n]}\n")


def _head(trace: Trace) -> dict[str, Any]:
    top: dict[str, Any] = {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": int(trace.metadata.get("start_unix_ns", 0)),
        "deviceProperties": _devices(trace),
    }
    rank = trace.metadata.get("rank")
    if isinstance(rank, int):
        facts = {key: trace.metadata.get(key) for key in ("rank", "world_size", "backend")}
        top["distributedInfo"] = {key: value for key, value in facts.items() if value is not None}
    if len(trace.stacks):
        top["stackFrames"] = stack_frames(trace)
    return top


def _devices(trace: Trace) -> list[dict[str, Any]]:
    names = trace.metadata.get("devices") or ()
    numbers = trace.tracks["device"].dropna().unique()
    name_of = {i: str(name) for i, name in enumerate(names)} if isinstance(names, list | tuple) else {}
    return [
        {"id": int(n), "name": name_of.get(int(n), f"device {n}")} for n in np.sort(numbers) if int(n) >= 0
    ]
