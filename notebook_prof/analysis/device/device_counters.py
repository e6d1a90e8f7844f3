"""What the counters of a card say over a window: power, energy, heat, clocks, memory."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from ...trace import Trace, Window
from ..scope import WindowLike

_GPU: Final = re.compile(r"GPU (\d+) (.+)")
_COLUMNS: Final = {
    "power_w": ("power", "mean"),
    "power_max_w": ("power", "max"),
    "energy_j": ("energy", "grown"),
    "temperature_max_c": ("temperature", "max"),
    "sm_clock_mhz": ("SM clock", "mean"),
    "memory_used_bytes": ("memory", "max"),
    "own_memory_bytes": ("memory of this process", "max"),
    "throttled_share": ("throttle reasons", "above"),
}
"""Column → counter of the `nvml` collector, and what is made of its readings."""


def device_counters(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Sum up the counters that the `nvml` collector reads, by device.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns: readings inside.

    Returns
    -------
    DataFrame
        By device, indexed by its number (int64, ``device``); no rows where no card was read. All float64,
        NaN where a counter was not read: ``power_w`` (mean), ``power_max_w``; ``energy_j``: from the first
        to the last reading; ``temperature_max_c``; ``sm_clock_mhz`` (mean); ``memory_used_bytes``,
        ``own_memory_bytes`` (largest; of the card, of this process); ``throttled_share``: of the readings
        in which a cap, heat or a slowdown lowered the clocks.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.counter(b.track("GPU 0 power", "counter", device=0), [0, 50], [100.0, 300.0])
    >>> device_counters(b.seal())["power_w"].tolist()
    [200.0]
    """
    tracks = trace.tracks[trace.tracks["kind"] == "counter"]
    known = {
        int(key): (int(match[1]), match[2])
        for key, name in zip(tracks["track"], tracks["name"], strict=True)
        if (match := _GPU.fullmatch(str(name)))
    }
    counters = trace.counters
    if window is not None:
        cut = Window.of(window)
        counters = counters[(counters["ts"] >= cut.start) & (counters["ts"] < cut.end)]
    values = {known[key]: part for key, part in counters.groupby("track")["value"] if key in known}
    wanted = {counter for counter, _ in _COLUMNS.values()}
    devices = sorted({device for device, name in values if name in wanted})
    rows = {
        column: [_made(values.get((device, counter)), how) for device in devices]
        for column, (counter, how) in _COLUMNS.items()
    }
    return pd.DataFrame(rows, index=pd.Index(devices, dtype="int64", name="device"), dtype="float64")


def _made(readings: pd.Series[float] | None, how: str) -> float:
    if readings is None or not len(readings):
        return float("nan")
    if how == "grown":
        return float(readings.iloc[-1] - readings.iloc[0])
    if how == "above":
        return float(np.mean(readings.to_numpy() > 0))
    return float(readings.max() if how == "max" else readings.mean())
