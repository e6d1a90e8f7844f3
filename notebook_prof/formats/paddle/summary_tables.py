"""The tables of Paddle's summary: devices, types, phases, memory, operators, kernels and ranges."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...analysis.busy_time import device_of
from ...analysis.scope import ints, on_device, recorded_table
from ...analysis.time.phases import phases
from ...analysis.work.slices import inclusive_work, slice_work
from ...trace import Intervals, length, overlap, union
from ...trace.arrays import BoolArray, IntArray
from ...trace.nesting import inherit
from ...trace.taxonomy import is_collective_kernel
from .columns import DEVICE_TYPES, RUNTIME_TYPES
from .summary_events import PHASES, STEP, TypedEvents, ranked, ratios, spread

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
    if (table := recorded_table(events.trace, "memory_places")) is not None:
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
    of_phase = events.of(*PHASES) & events.host
    inside = inherit(events.parent, np.where(of_phase, 1, -1)) > 0
    rows = np.flatnonzero(of_phase & ~(inside[events.parent] & (events.parent >= 0)))
    steps = np.flatnonzero(events.of(STEP))
    kernel_ns = events.below("Kernel")
    whole = spread(np.array([STEP] * len(steps), dtype=object), events.dur[steps], kernel_ns[steps])
    parts = spread(events.type[rows], events.dur[rows], kernel_ns[rows])
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
    # types of device work in the order in which Paddle meets them
    work = _by_visit(events, np.flatnonzero(events.of(*DEVICE_TYPES)))
    for word in map(str, pd.unique(types[work])):
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
    # including kernels launched inside these events
    marked = inherit(events.parent, np.where(called, 1, -1)) > 0
    launched = (events.owner >= 0) & marked[events.owner]
    return called, events.of("Kernel") & (libraries | launched)


def _intervals(events: TypedEvents, rows: BoolArray) -> Intervals:
    return union(events.ts[rows], (events.ts + events.dur)[rows])


def _busy(events: TypedEvents, rows: BoolArray | IntArray) -> int:
    return length(_intervals(events, np.asarray(rows)))


# Operators and what is inside them, kernels, and the user's own ranges.

_ARGUMENTS: Final = re.compile(r"(.+?)(<.*>)(\(.*\))")
_MEMORY_WORDS: Final = ("memcpy", "memorycopy", "memset")
_Groups = dict[Any, IntArray]


def operator_table(
    events: TypedEvents, sorted_by: str = "CPUTotal", op_detail: bool = True, thread_sep: bool = False
) -> pd.DataFrame:
    """List operators by name, with the calls and the device work inside them."""
    # Level 0 is operators; 1 is what is directly inside them, and device work that the operator launched
    # itself; 2 is device work of what is inside. Device work has no `cpu_` columns. Ratios of operators are
    # shares of all operators (of a thread), those of what is inside are shares of the enclosing row.
    operators = events.order[events.of("Operator")[events.order]]
    return _by_thread(
        events, operators, thread_sep, lambda rows: _table_of(events, rows, sorted_by, op_detail)
    )


def _by_thread(
    events: TypedEvents, rows: IntArray, apart: bool, make: Callable[[IntArray], pd.DataFrame]
) -> pd.DataFrame:
    """Return a table of all rows, or of each thread's rows, with the column `thread`."""
    threads, every = events.threads(rows), [(pd.NA, rows)]
    if apart and len(rows):
        every = [(thread, rows[threads == thread]) for thread in pd.unique(threads)]
    table = pd.concat([make(own).assign(thread=thread) for thread, own in every], ignore_index=True)
    return table.assign(thread=pd.array(table["thread"].tolist(), dtype="Int64"))


def kernel_table(events: TypedEvents, sorted_by: str = "GPUTotal") -> pd.DataFrame:
    """List kernels by name, without argument lists, by total time unless `sorted_by` is a GPU key."""
    rows = _by_visit(events, np.flatnonzero(events.of("Kernel")))
    table = spread(_cut(events, rows), events.dur[rows], events.dur[rows])
    table = ratios(table, 0, float(events.dur[rows].sum()))
    key = sorted_by if str(getattr(sorted_by, "name", sorted_by)).startswith("GPU") else "GPUTotal"
    return ranked(table, key).drop(columns=[c for c in table.columns if c.startswith("cpu_")])


def user_table(
    events: TypedEvents, sorted_by: str = "CPUTotal", thread_sep: bool = False, *, memory: bool = False
) -> pd.DataFrame:
    """List the user's ranges or, with `memory`, those whose names say that they copy or fill memory."""
    types = ("UserDefined", "PythonUserDefined") if memory else ("PythonUserDefined",)
    moves = events.named(lambda name: any(word in name.lower() for word in _MEMORY_WORDS))
    ranges = events.order[(events.of(*types) & (moves == memory))[events.order]]
    gpu = float(events.gpu_ns[events.of(STEP)].sum())

    def table_of(rows: IntArray) -> pd.DataFrame:
        table = spread(events.names[rows], events.dur[rows], events.gpu_ns[rows])
        # ratios are shares of the time of all steps
        return ratios(table if memory else ranked(table, sorted_by), events.total_ns, gpu)

    table = _by_thread(events, ranges, thread_sep, table_of)
    return table.drop(columns="thread") if memory else table


def _flops(events: TypedEvents, operators: IntArray, table: pd.DataFrame) -> Any:
    """Return the FLOPs of each name; 0 for Paddle's recordings, since Paddle's own summary counts none."""
    if events.own_types or table.empty:
        return 0.0
    flops, _ = inclusive_work(
        slice_work(events.trace), events.trace.slices["depth"].to_numpy(), events.parent
    )
    sums = pd.Series(flops[operators]).groupby(events.names[operators].astype(object), sort=False).sum()
    return sums.reindex(table["name"]).to_numpy(dtype=np.float64)


def _table_of(events: TypedEvents, operators: IntArray, sorted_by: str, op_detail: bool) -> pd.DataFrame:
    table = spread(events.names[operators], events.dur[operators], events.gpu_ns[operators])
    table = ratios(table, float(events.dur[operators].sum()), float(events.gpu_ns[operators].sum()))
    table["flops"] = _flops(events, operators, table)
    table = ranked(table, sorted_by).assign(level=0)
    if not op_detail or table.empty:
        return table
    groups = _inside_operators(events, operators)
    parts: list[pd.DataFrame] = []
    for i in range(len(table)):
        parts += [table.iloc[i : i + 1], *_details(events, table.iloc[i], *groups)]
    return pd.concat(parts, ignore_index=True)


def _inside_operators(events: TypedEvents, operators: IntArray) -> tuple[_Groups, _Groups, _Groups]:
    """Return the direct children of each operator, its own device work, and the device work by child name."""
    rank = np.full(len(events.ts) + 1, -1, np.int64)
    rank[operators] = np.arange(len(operators))
    inner = np.flatnonzero(events.host & ~events.of("Operator") & (rank[events.parent] >= 0))
    inner = inner[np.argsort(rank[events.parent[inner]], kind="stable")]
    work = np.flatnonzero(events.of(*DEVICE_TYPES))
    own = work[rank[events.owner[work]] >= 0]
    own = own[np.argsort(rank[events.owner[own]], kind="stable")]
    is_inner = np.zeros(len(events.ts) + 1, bool)
    is_inner[inner] = True
    under = work[is_inner[events.owner[work]]]
    home = events.owner[under]
    return (
        _split(inner, events.names[events.parent[inner]]),
        _split(own, events.names[events.owner[own]]),
        _split(under, events.names[events.parent[home]], events.names[home]),
    )


def _split(rows: IntArray, *names: npt.NDArray[np.object_]) -> _Groups:
    """Return the rows of each name, or tuple of names, in order."""
    by = pd.MultiIndex.from_arrays(names) if len(names) > 1 else names[0]
    return {key: rows[at] for key, at in pd.Series(rows).groupby(by).indices.items()}


def _details(
    events: TypedEvents, row: pd.Series[Any], inside: _Groups, own: _Groups, below: _Groups
) -> list[pd.DataFrame]:
    operator, none = row["name"], np.empty(0, np.int64)
    rows, work = inside.get(operator, none), own.get(operator, none)
    table = spread(events.names[rows], events.dur[rows], events.gpu_ns[rows])
    table = ratios(table, float(row["cpu_total_ns"]), float(row["gpu_total_ns"])).assign(level=1)
    parts = []
    for i, name in enumerate(table["name"]):
        parts.append(table.iloc[i : i + 1])
        if (operator, name) in below:
            gpu = float(table["gpu_total_ns"].iloc[i])
            parts.append(_device_rows(events, below[operator, name], gpu, 2))
    if len(work):
        parts.append(_device_rows(events, work, float(row["gpu_total_ns"]), 1))
    return parts


def _device_rows(events: TypedEvents, rows: IntArray, whole: float, level: int) -> pd.DataFrame:
    rows = _by_visit(events, rows)
    table = ratios(spread(_cut(events, rows), events.dur[rows], events.dur[rows]), 1, whole)
    table[[name for name in table.columns if name.startswith("cpu_")]] = np.nan
    return table.assign(level=level)


def _by_visit(events: TypedEvents, rows: IntArray) -> IntArray:
    """Return device work in the order in which the events that launched it are visited."""
    return np.asarray(rows[np.argsort(events.position_in_order[events.owner[rows]], kind="stable")])


def _cut(events: TypedEvents, rows: IntArray) -> npt.NDArray[np.object_]:
    """Cut argument lists off names that have template arguments."""
    code, names = pd.factorize(events.names[rows])
    short = [f"{m[1]}{m[2]}" if (m := _ARGUMENTS.match(str(name))) else str(name) for name in names]
    return np.asarray(np.array([*short, ""], dtype=object)[code])
