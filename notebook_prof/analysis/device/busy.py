"""Device utilisation and what ran; launch attributes, power and clocks of cards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pandas as pd

from ...trace import DEVICE_CATEGORIES, Trace, Window, length
from ...trace.intervals import clip
from ...trace.schema import Table
from ..busy_time import device_of, device_window
from ..scope import Scope, WindowLike, on_device, recorded_table
from ..time.host_states import exposed_communication

ATTRIBUTES: Final = (
    *("grid", "block", "registers_per_thread", "shared_memory_bytes", "blocks_per_sm", "warps_per_sm"),
    *("occupancy", "bytes", "graph", "graph_node", "priority"),
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
    own = [] if table is None else [name for name in ATTRIBUTES if name in table]
    if table is None or not own or not len(work.rows):
        return None
    origin = int(trace.metadata.get("start_unix_ns", 0))
    recorded = table.assign(start=table["start_unix_ns"] - origin)
    recorded = recorded.astype(dict.fromkeys(_KEYS, "int64")).drop_duplicates(_KEYS)
    start = work.slices["ts"].to_numpy()[work.rows]
    keys = {"device": work.ints("device"), "stream": work.ints("stream"), "start": start}
    attributes = pd.DataFrame(keys).merge(recorded[[*_KEYS, *own]], on=_KEYS, how="left")[own]
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


_GPU: Final = r"^GPU (\d+) (.+)$"
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
    parts = tracks["name"].astype(str).str.extract(_GPU)
    counter_of = dict(zip(tracks["track"], zip(parts[0], parts[1], strict=True), strict=True))
    counters = trace.counters
    if window is not None:
        cut = Window.of(window)
        counters = counters[(counters["ts"] >= cut.start) & (counters["ts"] < cut.end)]
    values = {
        (int(counter_of[key][0]), counter_of[key][1]): part
        for key, part in counters.groupby("track")["value"]
        if isinstance(counter_of.get(key, (None,))[0], str)
    }
    names = {counter for counter, _ in _COUNTERS.values()}
    devices = sorted({device for device, name in values if name in names})
    none = pd.Series(dtype=float)
    rows = {
        column: [_REDUCED[how](values.get((device, counter), none)) for device in devices]
        for column, (counter, how) in _COUNTERS.items()
    }
    return pd.DataFrame(rows, index=pd.Index(devices, dtype="int64", name="device"), dtype="float64")


_REDUCED: Final[dict[str, Callable[[pd.Series[float]], float]]] = {
    "mean": lambda readings: readings.mean(),
    "max": lambda readings: readings.max(),
    "above": lambda readings: (readings > 0).mean(),
    "grown": lambda readings: readings.iloc[-1] - readings.iloc[0] if len(readings) else np.nan,
}


_COLUMNS: Final = Table.of(
    "device",
    "device:int16 window_ns:int64 busy_ns:int64 idle_ns:int64 compute_ns:int64 communication_ns:int64 "
    "memory_ns:int64 exposed_communication_ns:int64",
)


def device(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Return the busy and idle time of each device, from the union of its streams.

    Parameters
    ----------
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
    every = on_device(trace, window)
    if not len(every.rows):
        return _COLUMNS.empty()
    where = device_of(trace, every)
    rows = []
    for number in np.unique(where).tolist():
        work = every.only(where == number)
        cut = device_window(work, window)
        kinds = [DEVICE_CATEGORIES, ("kernel",), ("collective",), ("memcpy", "memset")]
        busy, *parts = (length(clip(work.open(work.among("category", kind)), cut)) for kind in kinds)
        rows.append((number, cut.dur, busy, cut.dur - busy, *parts, length(exposed_communication(work))))
    return _COLUMNS.of_tuples(rows)
