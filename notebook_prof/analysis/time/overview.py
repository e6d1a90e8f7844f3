"""A run at a glance: the hardware, and a few tables of its time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import pandas as pd

from ...labels import STEP_MARKS
from ...trace import CATEGORIES, DEVICE_CATEGORIES, PHASES, Intervals, Trace, union
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import as_ints
from ...trace.schema import Table
from ..busy_time import busy_time, device_of, device_window
from ..device.busy import device_attributes, device_counters, uses_tensor_cores
from ..grouping import covered
from ..scope import Scope, WindowLike, bounds, length_within, on_device, on_host, sharing, step_spans
from .operators import operators
from .phases import phases

HOST: Final = -1
_DEVICES: Final = Table.of(
    "overview_devices",
    "device:int16 name:str memory_bytes:float64 capability:str window_ns:int64 utilization:float64 "
    "busy_share:float64 sm_efficiency:float64 occupancy:float64 tensor_core_share:float64",
)


def _devices(trace: Trace, window: WindowLike) -> pd.DataFrame:
    """Return the utilization of the host (device -1, if it was recorded) and of each device."""
    # The formulas are those of the overviews of VisualDL and PyTorch's TensorBoard plugin, with the sum of
    # the steps as window. ``sm_efficiency`` is ``Σ min(blocks per SM, 1) · duration in the steps / window``,
    # at most 1; ``occupancy`` is weighted by duration. Work outside the steps does not count, so no share of
    # a device exceeds 1; the host's utilization may.
    work = on_device(trace, window)
    where = device_of(trace, work)
    attributes = device_attributes(trace, work, ["blocks_per_sm", "occupancy"])
    spans = step_spans(trace, window)
    start, end = bounds(spans)
    rows: list[dict[str, Any]] = []
    if isinstance(use := trace.metadata.get("process_cpu_utilization"), int | float):
        name, length = str(trace.metadata.get("host") or "host"), int((end - start).sum()) or trace.span.dur
        rows.append({"device": HOST, "name": name, "window_ns": length, "utilization": use})
    for number in np.unique(where).tolist():
        here = where == number
        whole = (start, end)
        if not (end > start).any():
            cut = device_window(work.only(here), window)
            whole = (as_ints([cut.start]), as_ints([cut.end]))
        time = busy_time(work.only(here), *whole)
        rows.append({"device": number, **device_properties(trace, number), "window_ns": time.window_ns})
        rows[-1] |= _use(work, here, attributes, whole)
        rows[-1]["busy_share"] = time.share
    table = _DEVICES.frame({name: [row.get(name) for row in rows] for name in _DEVICES.names})
    counters = device_counters(trace, window=window)
    return table if counters.empty else table.join(counters, on="device")


def _use(work: Scope, here: BoolArray, attributes: pd.DataFrame | None, whole: Intervals) -> dict[str, float]:
    kernel = here & work.among("category", [name for name in DEVICE_CATEGORIES if not name.startswith("mem")])
    spent = (work.end - work.ts)[kernel].astype(np.float64)
    tensor = work.named(uses_tensor_cores)[kernel]
    use = {
        "utilization": busy_time(work.only(kernel), *whole).share,
        "tensor_core_share": float(spent[tensor].sum() / max(spent.sum(), 1.0)),
    }
    if attributes is None:
        return use
    own = attributes[kernel]
    if "blocks_per_sm" in own:
        blocks = own["blocks_per_sm"].astype("float64").fillna(0).clip(upper=1).to_numpy()
        inside = length_within(union(*whole), work.ts[kernel], work.end[kernel])
        window_ns = max(int((whole[1] - whole[0]).sum()), 1)
        use["sm_efficiency"] = min(float((blocks * inside).sum()) / window_ns, 1.0)
    if "occupancy" in own:
        value = own["occupancy"].astype("float64").to_numpy()
        measured = ~np.isnan(value)
        if spent[measured].sum():
            use["occupancy"] = float((value * spent)[measured].sum() / spent[measured].sum())
    return use


def device_properties(trace: Trace, number: int) -> dict[str, Any]:
    """Return a device's recorded ``name``, and its ``memory_bytes`` and ``capability`` if known."""
    names = trace.metadata.get("devices")
    named = isinstance(names, list | tuple) and number < len(names)
    properties: dict[str, Any] = {
        "name": str(names[number]) if named and names is not None else f"device {number}"
    }
    recorded = trace.metadata.get("device_properties")
    for row in recorded if isinstance(recorded, list | tuple) else ():
        if not isinstance(row, dict) or row.get("id") != number:
            continue
        if isinstance(total := row.get("totalGlobalMem", row.get("total_global_memory")), int | float):
            properties["memory_bytes"] = total
        major = row.get("computeMajor", row.get("compute_major"))
        minor = row.get("computeMinor", row.get("compute_minor"))
        if major is not None:
            properties["capability"] = f"{major}.{minor or 0}"
    return properties


_NONE = "none"


def _events(side: str, scope: Scope, own: IntArray) -> pd.DataFrame:
    """Count and time slices by category and phase, in the order of ``CATEGORIES`` and ``PHASES``."""
    table = pd.DataFrame({"total_ns": 0, "self_ns": own, "count": 1})
    for column, allowed in (("category", CATEGORIES), ("phase", PHASES)):
        words = [word if word in allowed else _NONE for word in scope.slices[column].cat.categories]
        order = pd.Index([*allowed, _NONE])
        table[column] = np.append(order.get_indexer(words), len(allowed))[scope.codes(column)]
    code = (table["category"] * (len(PHASES) + 1) + table["phase"]).to_numpy(np.int64)
    table["total_ns"] = covered(code, scope.ts, scope.end)
    sums = table.groupby(["category", "phase"])[["count", "total_ns", "self_ns"]].sum().reset_index()
    sums.insert(0, "side", side)
    for column, allowed in (("category", CATEGORIES), ("phase", PHASES)):
        sums[column] = np.array([*allowed, _NONE], dtype=object)[sums[column]]
    sums["share"] = sums["self_ns"] / max(int(sums["self_ns"].sum()), 1)
    return sums.astype(dict.fromkeys(("side", "category", "phase"), "str"))


_SHOWN: Final = (str, int, float, bool)


@dataclass(frozen=True, slots=True, repr=False)
class Overview:
    """A run at a glance. Times int64 ns, shares 0–1.

    Attributes
    ----------
    configuration : DataFrame
        ``item value``, both str: facts about the recording and its content.
    devices : DataFrame
        One row for the host and one per device: utilization and, if recorded, power, temperature and memory.
    phases : DataFrame
        A row for the step, then one per phase: ``phase calls host_ns host_mean_ns host_min_ns host_max_ns
        host_share device_ns device_mean_ns device_min_ns device_max_ns device_share``; over steps.
    steps : DataFrame
        The table of `analysis.phases`: ``step phase host_ns device_ns share``.
    events : DataFrame
        ``side category phase count total_ns self_ns share``: by side, category and phase.
    annotations : DataFrame
        The user's own ranges, without steps and loaders: ``name count total_ns self_ns device_ns share``.
    """

    configuration: pd.DataFrame
    devices: pd.DataFrame
    phases: pd.DataFrame
    steps: pd.DataFrame
    events: pd.DataFrame
    annotations: pd.DataFrame

    def __repr__(self) -> str:
        parts = [(field.name, getattr(self, field.name)) for field in fields(self) if field.name != "steps"]
        return "\n\n".join(f"{name}\n{table.to_string(index=False)}" for name, table in parts if len(table))


@sharing
def overview(trace: Trace, *, window: WindowLike = None) -> Overview:
    """Summarise the run: configuration, devices, phases, steps, events and the user's own ranges.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; times are cut at its edges.

    Returns
    -------
    Overview
        A few DataFrames, empty if nothing was recorded for them.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... steps: [0               ]
    ... main:  [next/data][mm/forward]
    ... ''')
    >>> overview(trace).phases[["phase", "calls", "host_ns"]].head(3).values.tolist()
    [['step', 1, 18], ['data', 1, 11], ['forward', 1, 7]]
    """
    steps, host, device = phases(trace, window=window), on_host(trace, window), on_device(trace, window)
    # on the host, ``self_ns`` is self time, which sums to the busy time of threads; on devices, duration
    sides = _events("host", host, host.self_ns), _events("device", device, device.end - device.ts)
    return Overview(
        _configuration(trace),
        _devices(trace, window),
        _phases(trace, steps, window),
        steps,
        pd.concat(sides, ignore_index=True),
        _annotations(trace, window),
    )


def _configuration(trace: Trace) -> pd.DataFrame:
    rows = {key: str(value) for key, value in trace.metadata.items() if isinstance(value, _SHOWN)}
    devices = trace.metadata.get("devices")
    if isinstance(devices, list | tuple):
        rows["devices"] = ", ".join(dict.fromkeys(map(str, devices)))
    kinds = trace.tracks["kind"].astype("str").value_counts()
    rows["processes"] = str(trace.tracks["pid"].dropna().nunique())
    rows |= {f"{kind}s": str(kinds.get(kind, 0)) for kind in ("thread", "stream")}
    rows |= {"steps": str(len(trace.steps)), "slices": str(len(trace.slices))}
    rows["recorded_ns"] = str(trace.span.dur)
    table = pd.DataFrame({"item": list(rows), "value": list(rows.values())})
    return table.astype({"item": "str", "value": "str"})


def _phases(trace: Trace, steps: pd.DataFrame, window: WindowLike) -> pd.DataFrame:
    columns: dict[str, Any] = {"phase": ["step", *PHASES]}
    size = len(PHASES)
    spans = step_spans(trace, window)
    for side in ("host", "device"):
        each = steps[f"{side}_ns"].to_numpy().reshape(-1, size)
        whole = spans["dur"].to_numpy() if side == "host" else each.sum(axis=1)
        each = np.column_stack([whole, each])
        if "calls" not in columns:
            columns["calls"] = (each > 0).sum(axis=0)
        columns[f"{side}_ns"] = each.sum(axis=0)
        columns[f"{side}_mean_ns"] = each.sum(axis=0) / max(len(each), 1)
        columns[f"{side}_min_ns"] = each.min(axis=0) if len(each) else 0
        columns[f"{side}_max_ns"] = each.max(axis=0) if len(each) else 0
        columns[f"{side}_share"] = each.sum(axis=0) / max(int(whole.sum()), 1)
    table = pd.DataFrame(columns)
    return table if len(spans) else table.iloc[:0]


def _annotations(trace: Trace, window: WindowLike) -> pd.DataFrame:
    table = operators(trace, window=window, category="annotation")
    own = ~table["name"].str.startswith((*STEP_MARKS, "enumerate(DataLoader)#"))
    names = ["name", "count", "total_ns", "self_ns", "device_ns", "share"]
    ordered = table.loc[own, names].sort_values("total_ns", ascending=False, kind="stable")
    return ordered.reset_index(drop=True)
