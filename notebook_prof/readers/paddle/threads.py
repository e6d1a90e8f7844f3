"""Tracks of threads and streams."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from .columns import PaddleColumns


def thread_tracks(rows: pd.DataFrame, columns: PaddleColumns, builder: TraceBuilder) -> IntArray:
    """Return the track of each row's thread, by its ``pid`` and ``tid``, named as ``ExtraInfo`` tells."""
    code, distinct = pd.factorize(pd.MultiIndex.from_frame(rows[["pid", "tid"]]))
    keys = [
        builder.track(columns.extra.get(str(tid), f"thread {tid}"), pid=int(pid), tid=int(tid))
        for pid, tid in distinct
    ]
    return np.asarray(np.array(keys, np.int64)[code])


def stream_tracks(rows: pd.DataFrame, builder: TraceBuilder) -> IntArray:
    """Return the track of each row's stream, by its ``device`` and ``stream``."""
    if rows.empty:  # pandas 2, the newest for Python 3.10, cannot number no rows
        return np.empty(0, np.int64)
    code, distinct = pd.factorize(pd.MultiIndex.from_frame(rows[["device", "stream"]]))
    keys = [
        builder.track(f"GPU {device} stream {stream}", "stream", device=int(device), stream=int(stream))
        for device, stream in distinct
    ]
    return np.asarray(np.array(keys, np.int64)[code])
