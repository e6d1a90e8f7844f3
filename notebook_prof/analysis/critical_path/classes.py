"""The class of each piece of a critical path, by category, phase and kind of run."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...trace import Trace
from ...trace.arrays import IntArray
from ..scope import matching_codes
from .dependences import Dependences
from .walk import RUNS, Runs

CLASSES: Final = (
    "kernel",
    "copy",
    "communication",
    "launch-latency",
    "event-latency",
    "device-gap",
    "launch-call",
    "host-operator",
    "python",
    "data",
    "overhead",
    "wait-wakeup",
    "sync",
    "idle",
)
"""Classes of time on a critical path; see `critical_path`."""

IN_WORDS: Final = {
    "kernel": "kernels",
    "copy": "copies",
    "communication": "communication",
    "launch-latency": "launches under way",
    "event-latency": "waits for events",
    "device-gap": "gaps of the device",
    "launch-call": "launch calls",
    "host-operator": "operators of the host",
    "python": "between operators",
    "data": "data",
    "overhead": "the profiler",
    "wait-wakeup": "waking up from waits",
    "sync": "waits",
    "idle": "nothing recorded",
}
"""What sentences call each of `CLASSES`."""

ON_STREAM: Final = {"kernel": "kernel", "memcpy": "copy", "memset": "copy", "collective": "communication"}
ON_THREAD: Final = {
    "operator": "host-operator",
    "kernel": "host-operator",
    "launch": "launch-call",
    "memcpy": "copy",
    "memset": "copy",
    "collective": "communication",
    "python": "python",
    "annotation": "python",
    "module": "python",
    "io": "data",
    "sync": "sync",
    "overhead": "overhead",
}
"""Classes of slices, by category: on streams (above) and on threads."""


def class_codes(graph: Dependences, pieces: Runs) -> IntArray:
    """Return the index into `CLASSES` of each piece."""
    slices = graph.resources.trace.slices
    words = slices["category"].cat.categories
    nobody = {"thread": CLASSES.index("idle"), "stream": CLASSES.index("device-gap")}
    thread = np.array([*(CLASSES.index(ON_THREAD[w]) for w in words), nobody["thread"]], np.int64)
    stream = np.array(
        [*(CLASSES.index(ON_STREAM.get(w, "kernel")) for w in words), nobody["stream"]], np.int64
    )
    category = np.append(slices["category"].cat.codes.to_numpy(), -1)[pieces.row]
    device = np.isin(pieces.track, list(graph.streams))
    code: IntArray = np.where(device, stream[category], thread[category])
    phase = np.append(slices["phase"].cat.codes.to_numpy(), -1)[pieces.row]
    data = matching_codes(phase, slices["phase"].cat.categories == "data")
    loading = np.isin(pieces.track, sorted(graph.loader_workers))
    code[(data | loading) & ~device] = CLASSES.index("data")
    if len(full := graph.resources.full_buffers()):
        code[np.isin(pieces.row, full) & ~device] = CLASSES.index("launch-call")
    for name in ("wait-wakeup", "launch-latency", "event-latency"):
        code[pieces.kind == RUNS.index(name)] = CLASSES.index(name)
    return code


def resource_names(trace: Trace) -> tuple[IntArray, list[str]]:
    """Return the keys of all tracks, ascending, and a distinct name for each."""
    tracks = trace.tracks.sort_values("track", kind="stable")
    names = tracks["name"].astype(str)
    again = names.duplicated(keep=False).to_numpy()
    labels = [
        f"{name} (track {key})" if twice or not name else name
        for name, key, twice in zip(names, tracks["track"], again, strict=True)
    ]
    return tracks["track"].to_numpy(np.int64), labels
