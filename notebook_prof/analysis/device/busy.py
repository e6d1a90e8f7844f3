"""Device utilisation, and what ran: launch attributes, power and clocks of cards, copies."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError
from ...trace import DEVICE_CATEGORIES, Trace, Window, length, union
from ...trace.intervals import clip
from ...trace.schema import Table
from ...trace.strings import as_text
from ..busy_time import device_of, device_window
from ..scope import Numbers, Scope, Texts, WindowLike, bounds, on_device, recorded_table
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


def device_attributes(trace: Trace, work: Scope, names: Sequence[str] = ATTRIBUTES) -> pd.DataFrame | None:
    """Return the recorded attributes of device work, one row per slice; None if none were recorded."""
    table = recorded_table(trace, "device_events")
    own = [] if table is None else [name for name in names if name in table]
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
            attributes[name] = as_text(attributes[name])
    return attributes


def uses_tensor_cores(name: object) -> bool:
    """Return whether a kernel runs on tensor cores, judged by its name."""
    text = str(name).lower()
    return any(mark in text for mark in _TENSOR_CORES)


_GPU: Final = r"^GPU (?P<device>\d+) (?P<counter>.+)$"
_COUNTERS: Final[dict[str, tuple[str, str | Callable[[pd.Series[float]], float]]]] = {
    "power_w": ("power", "mean"),
    "power_max_w": ("power", "max"),
    "energy_j": ("energy", lambda readings: readings.iloc[-1] - readings.iloc[0]),
    "temperature_max_c": ("temperature", "max"),
    "sm_clock_mhz": ("SM clock", "mean"),
    "memory_used_bytes": ("memory", "max"),
    "own_memory_bytes": ("memory of this process", "max"),
    "throttled_share": ("throttle reasons", lambda readings: (readings > 0).mean()),
}
"""Column → counter of the `nvml` collector, and how to reduce its readings."""


def device_counters(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Sum up the counters of the `nvml` collector by device; NaN for a counter without readings."""
    tracks = trace.tracks[trace.tracks["kind"] == "counter"]
    parts = tracks["name"].astype(str).str.extract(_GPU).set_index(tracks["track"]).dropna()
    counters = trace.counters
    if window is not None:
        cut = Window.of(window)
        counters = counters[(counters["ts"] >= cut.start) & (counters["ts"] < cut.end)]
    readings = counters.join(parts.astype({"device": "int64"}), on="track", how="inner")
    columns = {
        name: readings[readings["counter"] == counter].groupby("device")["value"].agg(how)
        for name, (counter, how) in _COUNTERS.items()
    }
    return pd.DataFrame(columns, dtype="float64").rename_axis("device")


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


_NAME: Final = re.compile(
    r"(?:Memcpy|memcpy) ?(?P<to>[HDAP]to[HDAP]|P2P|DtoD|HtoD|DtoH|HtoH|PtoP)?"
    r"(?:.*\((?P<source>[\w ]+?) *-> *(?P<target>[\w ]+?)\))?.*"
)
_OVER_LINK: Final = ("HtoD", "DtoH")
_COPY_COLUMNS: Final = Table.of(
    "copies",
    "device:int64 direction:str source:str target:str pinned:boolean count:int64 total_ns:int64 "
    "union_ns:int64 share:float64 bytes:Int64 bytes_per_s:float64 link_bytes_per_s:float64 "
    "link_share:float64",
)


def copies(
    trace: Trace,
    *,
    window: WindowLike = None,
    step: Numbers = None,
    phase: Texts = None,
    link_bytes_per_s: float | None = None,
) -> pd.DataFrame:
    """Sum up copies by device, direction and kinds of memory, with their rate.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns: copies that begin in it. They are not cut, since bytes cannot be.
    step : int or iterable of int, optional
        Keep only copies launched by these steps.
    phase : str or iterable of str, optional
        Keep these.
    link_bytes_per_s : float, optional
        Rate of the link between host and device in one direction. Default: the rate of the PCIe link as found
        by the `nvml` collector.

    Returns
    -------
    DataFrame
        By `total_ns`, longest first; no rows without copies.

        - ``device`` int64, -1 if unknown; ``direction`` str: ``HtoD DtoH DtoD PtoP …``; ``source``,
          ``target`` str: ``Pageable Pinned Device Managed …``; all three are empty if not recorded;
        - ``pinned`` boolean: whether the host's side is page-locked memory; missing without a host side, or
          if not recorded. Only pinned copies run in parallel with the host, at the link's rate;
        - ``count`` int64; ``total_ns`` int64: sum of durations; ``union_ns`` int64: time with at least one
          running; ``share`` float64: of the summed durations of all copies;
        - ``bytes`` Int64; ``bytes_per_s`` float64: over `total_ns`; missing if the bytes of some copies were
          not recorded;
        - ``link_bytes_per_s``, ``link_share`` float64: for copies between host and device, if the link is
          known.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw("stream 7: [Memcpy HtoD (Pageable -> Device)]",
    ...     categories={"Memcpy HtoD (Pageable -> Device)": "memcpy"})
    >>> copies(trace)[["direction", "source", "pinned", "count"]].values.tolist()
    [['HtoD', 'Pageable', False, 1]]
    """
    if link_bytes_per_s is not None and not link_bytes_per_s > 0:
        raise OptionError(
            f"link_bytes_per_s={link_bytes_per_s} must be above 0: bytes per second in one direction"
        )
    work = on_device(trace, window).where(step=step, phase=phase, category="memcpy")
    if not len(work.rows):
        return _COPY_COLUMNS.empty()
    attributes = device_attributes(trace, work, ["bytes"])
    size = None if attributes is None else attributes.get("bytes")
    table = pd.DataFrame(
        {
            "device": device_of(trace, work),
            "name": work.codes("name"),
            # take whole copies: a window cuts times, but bytes cannot be cut
            "ts": trace.slices["ts"].to_numpy()[work.rows],
            "dur": trace.slices["dur"].to_numpy()[work.rows],
            "bytes": np.nan if size is None else size.to_numpy(float, na_value=np.nan),
        }
    )
    kinds = []
    for name in work.slices["name"].cat.categories:
        match = _NAME.fullmatch(str(name))
        to, *ends = match.group("to", "source", "target") if match else ("", "", "")
        kinds.append(("PtoP" if to == "P2P" else to or "", *(end or "" for end in ends)))
    for i, column in enumerate(("direction", "source", "target")):
        table[column] = np.array([kind[i] for kind in kinds], dtype=object)[table["name"]]
    links = trace.metadata.get("pcie_links")
    rates = {  # bytes per second, as found by the `nvml` collector
        link.get("device"): link.get("bytes_per_s")
        for link in reversed(links if isinstance(links, list | tuple) else ())
        if isinstance(link, dict)
    }
    rows = []
    for (device, *kind), own in table.groupby(["device", "direction", "source", "target"]):
        total, moved = int(own["dur"].sum()), own["bytes"].sum(skipna=False)
        rate = moved * 1e9 / total if total else np.nan
        link = (link_bytes_per_s or rates.get(device) or np.nan) if kind[0] in _OVER_LINK else np.nan
        rows.append(
            {
                "device": device,
                **dict(zip(("direction", "source", "target"), kind, strict=True)),
                "pinned": _pinned(*kind),
                "count": len(own),
                "total_ns": total,
                "union_ns": length(union(*bounds(own))),
                "share": total / max(int(table["dur"].sum()), 1),
                "bytes": pd.NA if np.isnan(moved) else int(moved),
                "bytes_per_s": rate,
                "link_bytes_per_s": link,
                "link_share": rate / link,
            }
        )
    return _COPY_COLUMNS.of_rows(rows).sort_values(
        "total_ns", ascending=False, kind="stable", ignore_index=True
    )


def _pinned(direction: str, source: str, target: str) -> Any:
    host = {"H": source, "": ""}.get(direction[:1], target if direction.endswith("H") else "")
    return host == "Pinned" if host in ("Pinned", "Pageable") else pd.NA
