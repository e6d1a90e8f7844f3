"""Paddle's memory events: allocations, the pools behind them, and their peaks."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from ...trace.builder import TraceBuilder
from ...trace.intervals import IntArray
from .columns import PaddleColumns
from .threads import thread_tracks

_DEVICE: Final = re.compile(r"Place\((?!.*pinned)[A-Za-z_]+:(\d{1,4})\)")
_HOST: Final = "Place(cpu)"


def allocations(columns: PaddleColumns, builder: TraceBuilder) -> dict[str, pd.DataFrame]:
    """Put memory events into `builder`.

    Allocate and Free become rows of `allocations`, on their thread's track, also where the thread has
    no events of its own. ReservedAllocate and ReservedFree, with which the allocator takes memory from
    the system, are already in `reserved`; pinned host memory has totals of its own. Both are kept apart.

    Returns
    -------
    dict of str to DataFrame
        ``memory_places``: ``place device peak_allocated_bytes peak_reserved_bytes``, the peaks of the whole
        process. ``reserved_events``: what is not in `allocations`, with ``ts`` in Unix ns.
    """
    memory = columns.memory
    device = _devices(memory["place"])
    usual = memory["type"].isin(["Allocate", "Free"]).to_numpy() & (device > -2)
    builder.report.add(
        "pinned-memory",
        "info",
        int((device <= -2).sum()),
        effect="not in allocations: see metadata['tables']['reserved_events']",
    )
    if usual.any():
        rows = memory[usual]
        builder.allocations(
            ts=rows["ts"].to_numpy(),
            addr=rows["addr"].to_numpy(),
            bytes=rows["bytes"].to_numpy(),
            device=device[usual],
            allocated=rows["allocated"].to_numpy(),
            reserved=rows["reserved"].to_numpy(),
            track=thread_tracks(rows, columns, builder),
        )
    places = memory.assign(device=device).groupby("place", sort=False)
    peaks = places[["device", "peak_allocated", "peak_reserved"]].max().reset_index()
    return {
        "memory_places": peaks.rename(
            columns={"peak_allocated": "peak_allocated_bytes", "peak_reserved": "peak_reserved_bytes"}
        ),
        "reserved_events": memory[~usual].reset_index(drop=True),
    }


def _devices(place: pd.Series) -> IntArray:
    """Device of each place; -1 for the host, -2 for pinned memory and places that are not known."""
    code, places = pd.factorize(place.to_numpy())
    numbers = [
        -1 if text == _HOST else int(match[1]) if (match := _DEVICE.fullmatch(str(text))) else -2
        for text in places
    ]
    return np.asarray(np.array([*numbers, -2], np.int64)[code])
