"""Device utilisation and what ran; launch attributes, power and clocks of cards."""

from __future__ import annotations

import functools
import re
from typing import Final

import numpy as np
import pandas as pd

from ...trace import DEVICE_CATEGORIES, Trace, Window, length
from ...trace.arrays import BoolArray
from ...trace.intervals import as_ints
from ..busy_time import BusyTime, busy_time, device_of, device_window
from ..scope import Scope, WindowLike, on_device, recorded_table
from ..time.host_states import exposed_communication

ATTRIBUTES: Final = (
    "grid",
    "block",
    "registers_per_thread",
    "shared_memory_bytes",
    "blocks_per_sm",
    "warps_per_sm",
    "occupancy",
    "bytes",
    "graph",
    "graph_node",
    "priority",
)
_KEYS: Final = ["device", "stream", "start"]
_TENSOR_CORES: Final = (
    *("h884", "s884", "h1688", "s1688", "hmma", "i8816", "16816", "dgrad_1x1_stride_2x2"),
    *("first_layer_wgrad_kernel", "conv1x1", "conv2d_c1_k1", "direct_group", "xmma_implicit_gemm"),
    *("xmma_sparse_conv", "xmma_warp_specialized_implicit_gemm", "xmma_gemm", "xmma_sparse_gemm", "c1688"),
    *("tensorop", "gmma", "s1684", "i16832", "flash_fwd", "flash_bwd"),
)
"""Parts of the names of kernels on tensor cores: VisualDL's list, with names from newer libraries."""


def device_attributes(trace: Trace, work: Scope) -> pd.DataFrame | None:
    """Return the recorded `ATTRIBUTES` of device work, one row per slice; None if none were recorded."""
    table = recorded_table(trace, "device_events")
    if table is None or not len(work.rows):
        return None
    own = [name for name in ATTRIBUTES if name in table]
    if not own:
        return None
    origin = int(trace.metadata.get("start_unix_ns", 0))
    recorded = table.assign(start=table["start_unix_ns"] - origin)
    recorded = recorded.astype(dict.fromkeys(_KEYS, "int64")).drop_duplicates(_KEYS)
    device_work = pd.DataFrame(
        {
            "device": work.ints("device"),
            "stream": work.ints("stream"),
            "start": work.slices["ts"].to_numpy()[work.rows],
        }
    )
    attributes = device_work.merge(recorded[[*_KEYS, *own]], on=_KEYS, how="left")[own]
    for name in ("grid", "block"):
        if name in attributes:
            codes, words = pd.factorize(attributes[name].astype("str").where(attributes[name].notna()))
            texts = np.array([*words, None], dtype=object)
            attributes[name] = pd.Series(texts[codes], dtype="str")
    return attributes


def uses_tensor_cores(name: object) -> bool:
    """Return whether a kernel runs on tensor cores, judged by its name."""
    text = str(name).lower()
    return any(mark in text for mark in _TENSOR_CORES)


_GPU: Final = re.compile(r"GPU (\d+) (.+)")
_COUNTERS: Final = {
    "power_w": ("power", "mean"),
    "power_max_w": ("power", "max"),
    "energy_j": ("energy", "grown"),
    "temperature_max_c": ("temperature", "max"),
    "sm_clock_mhz": ("SM clock", "mean"),
    "memory_used_bytes": ("memory", "max"),
    "own_memory_bytes": ("memory of this process", "max"),
    "throttled_share": ("throttle reasons", "above"),
}
"""Column → counter of the `nvml` collector, and how to reduce its readings."""


def device_counters(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Sum up the counters of the `nvml` collector by device; NaN for a counter without readings."""
    tracks = trace.tracks[trace.tracks["kind"] == "counter"]
    counter_of_track = {
        int(key): (int(match[1]), match[2])
        for key, name in zip(tracks["track"], tracks["name"], strict=True)
        if (match := _GPU.fullmatch(str(name)))
    }
    counters = trace.counters
    if window is not None:
        cut = Window.of(window)
        counters = counters[(counters["ts"] >= cut.start) & (counters["ts"] < cut.end)]
    values = {
        counter_of_track[key]: part
        for key, part in counters.groupby("track")["value"]
        if key in counter_of_track
    }
    counter_names = {counter for counter, _ in _COUNTERS.values()}
    devices = sorted({device for device, name in values if name in counter_names})
    rows = {
        column: [_reduced(values.get((device, counter)), how) for device in devices]
        for column, (counter, how) in _COUNTERS.items()
    }
    return pd.DataFrame(rows, index=pd.Index(devices, dtype="int64", name="device"), dtype="float64")


def _reduced(readings: pd.Series[float] | None, how: str) -> float:
    if readings is None or not len(readings):
        return float("nan")
    if how == "grown":
        return float(readings.iloc[-1] - readings.iloc[0])
    if how == "above":
        return float(np.mean(readings.to_numpy() > 0))
    return float(readings.max() if how == "max" else readings.mean())


_COLUMNS: Final = (
    "device",
    "window_ns",
    "busy_ns",
    "idle_ns",
    "compute_ns",
    "communication_ns",
    "memory_ns",
    "exposed_communication_ns",
)


def device(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Return the busy and idle time of each device, from the union of its streams.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns. Default: from the first to the last work of each device.

    Returns
    -------
    DataFrame
        One row per device, by number; no rows without device work. All times are int64 ns.

        - ``device`` int16; ``window_ns``: length of the window;
        - ``busy_ns``: time with anything on any stream; ``idle_ns``: the rest, so both sum to `window_ns`;
        - ``compute_ns``: kernels; ``communication_ns``: collectives; ``memory_ns``: copies and fills; each is
          a separate union, so they may overlap;
        - ``exposed_communication_ns``: communication while no kernel computes; the phase communication of
          `phases` is the part of it that delays the steps.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> one, two = (b.track("", "stream", device=0, stream=number) for number in (7, 20))
    >>> kind = ["kernel", "kernel", "collective"]
    >>> _ = b.slices(ts=[0, 20, 5], dur=[10, 5, 10], track=[one, one, two], name=kind, category=kind)
    >>> device(b.seal())[["window_ns", "busy_ns", "idle_ns", "exposed_communication_ns"]].values.tolist()
    [[25, 20, 5, 5]]
    """
    work = on_device(trace, window)
    if not len(work.rows):
        return _without_rows().copy(deep=False)
    where = device_of(trace, work)
    return _table([_row(work, where == number, int(number), window) for number in np.unique(where)])


def _table(rows: list[tuple[int, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype("int64").astype({"device": "int16"})


@functools.cache
def _without_rows() -> pd.DataFrame:
    return _table([])


def _row(work: Scope, here: BoolArray, number: int, window: WindowLike) -> tuple[int, ...]:
    cut = device_window(work.only(here), window)
    start, end = as_ints([cut.start]), as_ints([cut.end])

    def during(*categories: str) -> BusyTime:
        return busy_time(work.only(here & work.among("category", categories)), start, end)

    any_work = during(*DEVICE_CATEGORIES)
    return (
        number,
        any_work.window_ns,
        any_work.busy_ns,
        any_work.idle_ns,
        during("kernel").busy_ns,
        during("collective").busy_ns,
        during("memcpy", "memset").busy_ns,
        length(exposed_communication(work.only(here))),
    )
