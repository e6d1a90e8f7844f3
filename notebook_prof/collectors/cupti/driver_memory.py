"""What the process took from the driver: cudaMalloc and its kin, as a counter a device."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...trace.builder import TraceBuilder
from .align import Alignment
from .layouts import MEMORY2
from .walk import Records

_ALLOCATION: Final = 1
_ON_DEVICE: Final = (3, 4, 5, 6, 7)
"""Kinds of memory that take the card's: device, array, managed, and both static."""


def driver_memory(records: Records, clock: Alignment, builder: TraceBuilder) -> None:
    """Add a counter ``GPU 0 taken from the driver`` in bytes, against the start of the recording.

    Pools of frameworks take large pieces and hand out small ones, so this is what they *hold*; what they
    hand out is in `allocations`. Frees of what was taken before the recording count below zero.
    """
    rows = records.of.get(MEMORY2)
    if rows is None:
        return
    rows = rows[np.isin(rows["memoryKind"], _ON_DEVICE) & (rows["timestamp"] > 0)]
    rows = rows[np.argsort(rows["timestamp"], kind="stable")]
    size = rows["bytes"].astype(np.int64)
    size = np.where(rows["memoryOperationType"] == _ALLOCATION, size, -size)
    for device in np.unique(rows["deviceId"]).tolist():
        of_device = rows["deviceId"] == device
        name = f"GPU {device} taken from the driver"
        track = builder.track(name, "counter", device=int(device), unit="bytes")
        builder.counter(track, clock.to_wall(rows["timestamp"][of_device]), np.cumsum(size[of_device]))
