"""What the idle time of devices is made of, summed by cause."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.schema import Column, Table
from ..scope import WindowLike
from .device import device
from .device_idle import CAUSES, cause_column, device_idle

_COLUMNS: Final = Table(
    "idle_causes",
    (
        Column("device", "int16", "", "number of the device"),
        Column("cause", "str", "", "as in `device_idle`"),
        Column("gaps", "int64", "", "gaps that have a part of this cause"),
        Column("idle_ns", "int64", "ns", "idle time of this cause; sums to the device's idle time"),
        Column("window_ns", "int64", "ns", "span of the device, busy or idle"),
        Column("share", "float64", "1", "of `window_ns`; with the busy share it sums to 1"),
        Column("idle_share", "float64", "1", "of the device's idle time; NaN where it has none"),
    ),
)


def idle_causes(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Sum the idle time of every device by what it waited for.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns. Default: from the first to the last work of each device, as in `device`.

    Returns
    -------
    DataFrame
        ``device cause gaps idle_ns window_ns share idle_share``: a row a device and cause, by
        device, in the order ``input sync memcpy communication host-bound launch-latency tail unknown``; rows
        without time are kept, so that every device has all of them; no rows without device work.

    Notes
    -----
    Each gap of `device_idle` is divided among its causes; here they are added up, so that for each device
    ``idle_ns`` sums to that of `device` and, with its ``busy_ns``, to ``window_ns``.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [next/data     ][mm]
    ... stream 7:    [gemm]                [gemm]
    ... ''', launches=[("mm", "gemm")])
    >>> table = idle_causes(trace)
    >>> table[table["idle_ns"] > 0][["cause", "idle_ns", "window_ns"]].values.tolist()
    [['input', 13, 28], ['launch-latency', 3, 28]]
    """
    busy, gaps = device(trace, window=window), device_idle(trace, window=window)
    if busy.empty:
        return _COLUMNS.empty()
    columns = [cause_column(cause) for cause in CAUSES]
    times = gaps.groupby("device")[columns].sum().reindex(busy["device"], fill_value=0)
    counts = (gaps[columns] > 0).groupby(gaps["device"]).sum().reindex(busy["device"], fill_value=0)
    repeated = busy.loc[busy.index.repeat(len(CAUSES)), ["device", "window_ns", "idle_ns"]]
    spent = times.to_numpy(dtype=np.int64).ravel()
    whole = repeated["idle_ns"].to_numpy(dtype=np.float64)
    return _COLUMNS.frame(
        {
            "device": repeated["device"].to_numpy(),
            "cause": list(CAUSES) * len(busy),
            "gaps": counts.to_numpy(dtype=np.int64).ravel(),
            "idle_ns": spent,
            "window_ns": repeated["window_ns"].to_numpy(),
            "share": spent / np.maximum(repeated["window_ns"].to_numpy(), 1),
            "idle_share": np.divide(spent, whole, out=np.full(len(spent), np.nan), where=whole > 0),
        }
    )
