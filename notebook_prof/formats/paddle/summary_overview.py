"""Paddle's device, overview, model and distribution tables."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...analysis.busy_time import device_of
from ...analysis.scope import ints, on_device
from ...analysis.time.phases import phases
from ...trace import Intervals, length, overlap, union
from ...trace.arrays import BoolArray, IntArray
from ...trace.nesting import inherit
from ...trace.taxonomy import is_collective_kernel
from .columns import DEVICE_TYPES, RUNTIME_TYPES
from .summary_events import PHASES, STEP, TypedEvents, ratios, spread

_COLUMNS = ("allocation_count", "free_count", "allocation_bytes", "free_bytes", "increase_bytes")


def memory_table(events: TypedEvents) -> pd.DataFrame:
    """Sum allocations and frees by place and event, sorted by increase."""
    table = events.trace.allocations
    home = ints(table["slice"])
    with_slice = np.flatnonzero(home >= 0)
    home = events.around(home[with_slice])
    # Changes in an inner event count for its operator. Changes in other things directly inside an operator,
    # such as Paddle 3's kernel launches, count for both, as in Paddle's own table: the rows do not add up.
    # Nested operators of other frameworks are not credited twice.
    own = np.flatnonzero((home >= 0) & ~events.of("OperatorInner")[home])
    above = np.where(home >= 0, events.parent[home], -1)
    up = np.flatnonzero((above >= 0) & events.of("Operator")[above] & events.own_types)
    rows, labels = np.concatenate([own, up]), np.concatenate([home[own], above[up]])
    size = table["bytes"].to_numpy()[with_slice[rows]]
    device = table["device"].to_numpy()[with_slice[rows]]
    order = np.lexsort((with_slice[rows], events.position_in_order[labels]))
    frame = pd.DataFrame(
        {
            "device": device,
            "name": events.names[labels],
            "allocation_count": size > 0,
            "free_count": size < 0,
            "allocation_bytes": np.maximum(size, 0),
            "free_bytes": np.maximum(-size, 0),
            "increase_bytes": size,
        }
    ).iloc[order]
    totals = frame.groupby(["device", "name"], sort=False)[list(_COLUMNS)].sum().astype("int64").reset_index()
    totals = totals.sort_values("increase_bytes", ascending=False, kind="stable", ignore_index=True)
    totals.insert(2, "type", "Allocated")
    totals.insert(0, "place", _place_names(totals.pop("device")))
    joined = totals.merge(_peaks(events).astype({"place": object}), on="place", how="left")
    return joined.sort_values("place", kind="stable", ignore_index=True)


def _place_names(devices: pd.Series[int]) -> pd.Series[Any]:
    names = ["Place(cpu)" if device < 0 else f"Place(gpu:{device})" for device in devices]
    return pd.Series(names, dtype=object)


def _peaks(events: TypedEvents) -> pd.DataFrame:
    tables = events.trace.metadata.get("tables")
    table = tables.get("memory_places") if isinstance(tables, dict) else None
    if isinstance(table, pd.DataFrame):
        return table[["place", "peak_allocated_bytes", "peak_reserved_bytes"]]
    groups = events.trace.allocations.groupby("device")[["allocated", "reserved"]].max().reset_index()
    peaks = {f"peak_{word}_bytes": groups[word] for word in ("allocated", "reserved")}
    return pd.DataFrame({"place": _place_names(groups["device"]), **peaks})


_PHASE: Final = dict(zip(("data", "forward", "backward", "optimizer"), PHASES, strict=True))


def model_table(events: TypedEvents) -> pd.DataFrame:
    """List steps, the four phases and the rest, on host and devices; no rows without phases."""
    # In Paddle's files, a call is an outermost event of the phase, and device time is the sum of the kernels
    # below it; in others, a call is the phase's part of one step.
    if not events.own_types:
        return _from_steps(events)
    rows = events.phase_rows
    steps = np.flatnonzero(events.of(STEP))
    whole = spread(np.array([STEP] * len(steps), dtype=object), events.dur[steps], events.kernel_ns[steps])
    parts = spread(events.type[rows], events.dur[rows], events.kernel_ns[rows])
    return _joined(whole, parts)


def _joined(whole: pd.DataFrame, parts: pd.DataFrame) -> pd.DataFrame:
    if parts.empty or whole.empty:
        return ratios(whole.iloc[:0].copy(), 0, 0)
    parts = parts.set_index("name").reindex(PHASES).fillna(0).reset_index()
    others = pd.DataFrame({"name": ["Others"], "calls": 0})
    for column in ("cpu_total_ns", "gpu_total_ns"):
        others[column] = whole[column].iloc[0] - parts[column].sum()
    table = pd.concat([whole, parts, others], ignore_index=True).astype({"calls": "int64"})
    return ratios(table, float(whole["cpu_total_ns"].iloc[0]), float(whole["gpu_total_ns"].iloc[0]))


def _from_steps(events: TypedEvents) -> pd.DataFrame:
    table = phases(events.trace)
    table = table[table["step"].notna()] if len(events.trace.steps) else table.iloc[:0]
    per_step = table.groupby("step", sort=False)[["host_ns", "device_ns"]].sum()
    named = table["phase"].astype("object").map(_PHASE)
    of_phases = table[named.notna() & ((table["host_ns"] > 0) | (table["device_ns"] > 0))]
    whole, parts = (
        spread(names, *(times[side].to_numpy(np.int64) for side in ("host_ns", "device_ns")))
        for names, times in (
            (np.array([STEP] * len(per_step), dtype=object), per_step),
            (named[of_phases.index].to_numpy(dtype=object), of_phases),
        )
    )
    return _joined(whole, parts)


_COLLECTIVE_WORDS = ("allreduce", "broadcast", "rpc")


def device_table(events: TypedEvents) -> pd.DataFrame:
    """List the utilisation, as a share, of the CPU (if the file contains it) and of each device."""
    metadata = events.trace.metadata
    rows: list[tuple[str, float]] = []
    for name, key in (("CPU(Process)", "process_cpu_utilization"), ("CPU(System)", "system_cpu_utilization")):
        if isinstance(value := metadata.get(key), int | float):
            rows.append((name, float(value)))
    work = on_device(events.trace)
    where = device_of(events.trace, work)
    kernels = events.of("Kernel")[work.rows]
    for number in np.unique(where).tolist():
        of_device = kernels & (where == number)
        busy = length(union(work.ts[of_device], work.end[of_device]))
        # the union of the kernels over the time of the steps
        rows.append((f"GPU{number}", busy / events.total_ns if events.total_ns else 0.0))
    return pd.DataFrame(rows, columns=["device", "utilization"]).astype({"utilization": "float64"})


def overview_table(events: TypedEvents) -> pd.DataFrame:
    """Sum time by type of event, counting overlaps once."""
    # Steps come first, then types on the host by time, then those on devices. `ratio` is a share of the time
    # of all steps. The four phases have the calls and the summed time of their outermost events.
    types = events.type
    host = events.host | events.of(*RUNTIME_TYPES)
    host_types = [word for word in pd.unique(types[np.flatnonzero(host)]) if word not in ("", STEP, *PHASES)]
    masks = {word: host & events.of(word) for word in host_types if word != "Communication"}
    rows = [(word, int(mask.sum()), _busy(events, mask)) for word, mask in masks.items()]
    called, collective = _communication(events)
    if called.any():
        rows.append(("Communication", int(events.of("Communication")[host].sum()), _busy(events, called)))
    phases = model_table(events)
    for phase in phases[phases["name"].isin(PHASES)].to_dict("records"):
        if phase["calls"]:
            rows.append((phase["name"], int(phase["calls"]), int(phase["cpu_total_ns"])))
    rows.sort(key=lambda row: -row[2])
    table = [(STEP, "cpu", len(events.trace.steps), events.total_ns), *((r[0], "cpu", *r[1:]) for r in rows)]
    for word in _device_order(events):
        of_type = events.of(word) & ~host
        table.append((word, "gpu", int(of_type.sum()), _busy(events, of_type)))
    if collective.any():
        table.append(("Communication", "gpu", int(collective.sum()), _busy(events, collective)))
    totals = pd.DataFrame(table, columns=["type", "on", "calls", "time_ns"])
    totals["ratio"] = totals["time_ns"] / events.total_ns if events.total_ns else 0.0
    return totals


def distribution_table(events: TypedEvents) -> pd.DataFrame:
    """Sum communication, computation and their overlap; no rows without communication."""
    # Communication is that of the host (communication events, operators named all-reduce, broadcast or rpc)
    # and of the devices (their kernels, and kernels of collective libraries); computation is all other
    # kernels.
    called, collective = _communication(events)
    both = _intervals(events, called | collective)
    computation = _intervals(events, events.of("Kernel") & ~collective)
    if not length(both):
        return pd.DataFrame({"name": [], "time_ns": [], "ratio": []})
    times = [events.total_ns, length(both), length(computation), length(overlap(both, computation))]
    table = pd.DataFrame({"name": [STEP, "Communication", "Computation", "Overlap"], "time_ns": times})
    table["ratio"] = table["time_ns"] / events.total_ns if events.total_ns else 0.0
    return table


def _communication(events: TypedEvents) -> tuple[BoolArray, BoolArray]:
    """Return masks of communication on the host and of the device work that belongs to it."""
    named = events.named(lambda name: any(word in name.lower() for word in _COLLECTIVE_WORDS))
    libraries = events.named(lambda name: is_collective_kernel(name) or "xccl" in name.lower())
    called = events.host & (events.of("Communication") | (events.of("Operator") & named))
    # kernels launched inside these events too
    marked = inherit(events.parent, np.where(called, 1, -1)) > 0
    launched = (events.owner >= 0) & marked[events.owner]
    return called, events.of("Kernel") & (libraries | launched)


def _device_order(events: TypedEvents) -> list[str]:
    """Return the types of device work in the order in which Paddle meets them."""
    work = np.flatnonzero(events.of(*DEVICE_TYPES))
    work = work[np.argsort(events.position_in_order[events.owner[work]], kind="stable")]
    return [str(word) for word in pd.unique(events.type[work])]


def _intervals(events: TypedEvents, rows: BoolArray) -> Intervals:
    return union(events.ts[rows], (events.ts + events.dur)[rows])


def _busy(events: TypedEvents, rows: BoolArray | IntArray) -> int:
    return length(_intervals(events, np.asarray(rows)))
