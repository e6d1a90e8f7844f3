"""Counters of MegEngine's timeline."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from .nodes import Nodes
from .rows import Timed, thread_track

ALIASES: Final = {
    "gpu_usgae_ratio": "gpu_usage_ratio",
    "nr_redunant_tensor": "nr_redundant_tensor",
}
"""MegEngine's spelling → ours."""

_ALLOCATED: Final = "_alloc_mem"
_UNITS: Final = {
    "gpu_usage_ratio": "%",
    "train_time_ratio": "%",
    "device_ahead_ms": "ms",
    "dtr_overhead_us": "µs",
}


def counters(events: Timed, nodes: Nodes, builder: TraceBuilder) -> dict[str, str]:
    """Put counters into `builder`, a track a name.

    ``<device>_alloc_mem`` is a memory track in bytes; its changes are also rows of `allocations`, of
    address 0, in the slice in which they happened. Values are as in the file: ratios are per cent,
    and what has no unit is a count (``nr_alive_tensor``).

    Returns
    -------
    dict of str to str
        Spellings of the file that were corrected, with what they became.
    """
    by_name: dict[str, list[int]] = {}
    for i, row in enumerate(events.rows):
        if row.ph == "C" and row.name is not None:
            by_name.setdefault(row.name, []).append(i)
    for name, at in by_name.items():
        values = [(events.rows[i].args or {}).get("value") for i in at]
        ok = np.array([isinstance(v, int | float) and abs(v) < 1e300 for v in values], bool)
        builder.report.add(
            "broken-row",
            "loss",
            int((~ok).sum()),
            example=f"counter {name!r} without a number",
            effect="these values are left out",
        )
        numbers = np.array([value if good else 0 for value, good in zip(values, ok, strict=True)], np.float64)
        ours = ALIASES.get(name, name)
        if ours.endswith(_ALLOCATED):
            device = nodes.device(ours.removesuffix(_ALLOCATED))
            track = builder.track(ours, "memory", device=device, unit="bytes")
            _allocations(events, np.array(at)[ok], numbers[ok], device, builder)
        else:
            track = builder.track(ours, "counter", unit=_UNITS.get(ours, ""))
        builder.counter(track, events.ts[at][ok], numbers[ok])
    return {theirs: ours for theirs, ours in ALIASES.items() if theirs in by_name}


def _allocations(
    events: Timed, at: IntArray, totals: npt.NDArray[np.float64], device: int, builder: TraceBuilder
) -> None:
    """Put the allocator's total as allocations; the first value is the level at the start."""
    if not len(at):
        return
    order = np.lexsort((np.arange(len(at)), events.ts[at]))
    at, level = at[order], np.clip(totals[order], -(2.0**62), 2.0**62).astype(np.int64)
    tracks = {int(i): thread_track(events, int(i), builder) for i in np.unique(events.thread[at])}
    builder.allocations(
        ts=events.ts[at],
        addr=0,
        bytes=np.diff(level, prepend=level[0]),
        device=device,
        allocated=level,
        reserved=0,
        track=np.array([tracks[int(i)] for i in events.thread[at]], np.int64),
    )
    builder.report.add(
        "memory-without-addresses",
        "info",
        len(at),
        effect="allocations are changes of the allocator's total: blocks cannot be told apart",
        advice="record with sample_rate > 0 for more points, or format='memory_flow.svg' for each tensor",
    )
