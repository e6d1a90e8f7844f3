"""Tracks of threads and streams."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...trace.arrays import IntArray, number_rows
from ...trace.builder import TraceBuilder
from .columns import PaddleColumns


def thread_tracks(rows: pd.DataFrame, columns: PaddleColumns, builder: TraceBuilder) -> IntArray:
    """Return the track of each row's thread, by its ``pid`` and ``tid``, named as ``ExtraInfo`` tells."""
    code, distinct = number_rows(rows["pid"], rows["tid"])
    keys = [
        builder.track(columns.extra.get(str(tid), f"thread {tid}"), pid=int(pid), tid=int(tid))
        for pid, tid in distinct
    ]
    return np.asarray(np.array(keys, np.int64)[code])


def stream_tracks(rows: pd.DataFrame, builder: TraceBuilder) -> IntArray:
    """Return the track of each row's stream, by its ``device`` and ``stream``."""
    code, distinct = number_rows(rows["device"], rows["stream"])
    keys = [
        builder.track(f"GPU {device} stream {stream}", "stream", device=int(device), stream=int(stream))
        for device, stream in distinct
    ]
    return np.asarray(np.array(keys, np.int64)[code])
