"""Parts that all of AMD's formats share: streams of GPUs, calls of HIP and HSA, and arrows between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...readers.codec.columns import MISSING, TableRows, marked, per_group, sizes, texts
from ...readers.events import stream_tracks
from ...trace.arrays import BoolArray, IntArray, optional
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from ...trace.taxonomy import is_collective_kernel

_STARTS_WORK: Final = re.compile(r"(?:hip|hsa)\w*(?:Launch|Memcpy|Memset)|hsa_amd_memory_async_copy")
_CALL: Final = re.compile(r"_*(?:hip|hsa)", re.IGNORECASE)
_LATEST_NS: Final = 1 << 61
DEVICE_KINDS: Final = ("kernel", "collective", "memcpy", "memset")
_WORDS: Final = {"HOST": "H", "DEVICE": "D"}
_COPY: Final = re.compile(r"(?:MEMORY_COPY_)?(HOST|DEVICE)_TO_(HOST|DEVICE)")
GRID: Final = ("grid_size_x", "grid_size_y", "grid_size_z")
BLOCK: Final = ("workgroup_size_x", "workgroup_size_y", "workgroup_size_z")
OPERATOR, _ANNOTATION, _COLLECTIVE = 3, 4, 5
CALL_KINDS: Final = ("overhead", "launch", "sync", "operator", "annotation", "collective")


def times(rows: TableRows) -> tuple[IntArray, IntArray]:
    """Return starts and durations in ns; rows without an end are instants."""
    ts = np.clip(rows.ints("start", 0), 0, _LATEST_NS)
    end = rows.ints("end", MISSING)
    return ts, np.where(end == MISSING, 0, np.clip(end, 0, _LATEST_NS) - ts)


def kernel_kinds(names: Coded) -> Coded:
    return Coded(marked(names, is_collective_kernel).astype(np.int64), list(DEVICE_KINDS))


def call_kinds(names: Coded, launched: BoolArray, other: IntArray) -> Coded:
    """Return the category of calls: positions in `CALL_KINDS`."""
    # `launched`: those that started recorded work; `other`: the category of calls other than those of HIP or
    # HSA. A marker is named by its message, which may be that of a call.
    kind = np.where(launched | marked(names, _STARTS_WORK.match), 1, 0)
    kind = np.where(marked(names, lambda name: "Synchronize" in name), 2, kind)
    is_call = marked(names, _CALL.match) & (other != _ANNOTATION) & (other != _COLLECTIVE)
    return Coded(np.where(is_call, kind, other), list(CALL_KINDS))


def thread_tracks(builder: TraceBuilder, calls: TableRows, rank: int | None = None) -> IntArray:
    """Return the tracks of the threads that made calls, by ``pid`` and ``tid``."""
    ids = (np.maximum(calls.ints(name), 0) for name in ("pid", "tid"))
    return per_group(lambda pid, tid: builder.track(f"thread {tid}", pid=pid, tid=tid, rank=rank), *ids)


class LaunchedWork(NamedTuple):
    """Kernels, copies and fills that calls may have launched."""

    handle: IntArray
    correlation: IntArray


def add_work(
    builder: TraceBuilder,
    rows: TableRows,
    name: Coded,
    category: Any,
    correlation: IntArray,
    where: tuple[IntArray, IntArray],  # device and stream of each row
    rank: int | None,
    columns: dict[str, Any],  # the other columns of `device_events`
) -> tuple[LaunchedWork, pd.DataFrame]:
    """Add work on its streams; return it and its rows of ``device_events``."""
    device, stream = where
    ts, dur = times(rows)
    facts = {"device": device, "stream": stream, "correlation": correlation}
    track = stream_tracks(builder, device, stream, rank)
    handle = builder.slices(ts=ts, dur=dur, track=track, name=name, category=category, **facts)
    table = {"device": device, "stream": stream, "start_unix_ns": ts, "correlation": correlation}
    return LaunchedWork(handle, correlation), pd.DataFrame({**table, "name": texts(name), **columns})


def kernel_facts(rows: TableRows, registers: IntArray, shared_memory: IntArray) -> dict[str, Any]:
    """Return the columns of `device_events` that only kernels have."""
    return {
        "kind": "kernel",
        # a grid is in work-items, not in blocks
        "grid": sizes(rows, GRID, BLOCK),
        "block": sizes(rows, BLOCK),
        "registers_per_thread": optional(registers),
        "shared_memory_bytes": optional(shared_memory),
    }


def joined_work(builder: TraceBuilder, *parts: tuple[LaunchedWork, pd.DataFrame]) -> LaunchedWork:
    """Put the rows of ``device_events`` into the builder, and return all work."""
    works, tables = zip(*parts, strict=True)
    add_events(builder, tables)
    return LaunchedWork(*(np.concatenate(column) for column in zip(*works, strict=True)))


def add_calls(
    builder: TraceBuilder,
    calls: TableRows,
    track: IntArray,
    names: Coded,
    other: IntArray,
    source: IntArray,  # the call that launched each row of `work`; -1 for none
    work: IntArray,
    **columns: Any,
) -> None:
    """Add calls, with arrows to the work that they launched, and count work without a call."""
    has = source >= 0
    launched = np.zeros(len(calls), bool)
    launched[source[has]] = True
    ts, dur = times(calls)
    category = call_kinds(names, launched, other)
    name = names.named("unknown call")
    handles = builder.slices(ts=ts, dur=dur, track=track, name=name, category=category, **columns)
    if len(handles):
        builder.flows("launch", handles[source[has]], work[has])
    builder.report.unlaunched(int((~has).sum()))


def add_events(builder: TraceBuilder, parts: Sequence[pd.DataFrame]) -> None:
    """Add the table ``device_events``, in the columns of Kineto's."""
    if tables := [part for part in parts if len(part)]:
        table = pd.concat(tables, ignore_index=True)
        earlier = builder.metadata.setdefault("tables", {}).get("device_events")
        table = table if earlier is None else pd.concat([earlier, table], ignore_index=True)
        builder.metadata["tables"]["device_events"] = table.astype({"name": "category", "kind": "category"})


def add_allocations(builder: TraceBuilder, table: pd.DataFrame, device: IntArray, frees: BoolArray) -> None:
    """Add allocations, in any order; device -1 is the host."""
    if not len(table):
        return
    # `start address size` are int64
    table = table.assign(device=device, frees=frees).sort_values("start", kind="stable", ignore_index=True)
    # a free does not always have a size: then it is that of the block at its address
    table["size"] = table["size"].where(~table["frees"]).groupby(table["address"]).ffill().fillna(0)
    signed = np.where(table["frees"], -1, 1) * table["size"].to_numpy(np.int64)
    total = pd.Series(signed).groupby(table["device"]).cumsum().to_numpy(np.int64)
    addr, total = table["address"].to_numpy(np.int64).view(np.uint64), np.maximum(total, 0)
    ts, device = table["start"].to_numpy(), table["device"].to_numpy(np.int64)
    builder.allocations(ts=ts, addr=addr, bytes=signed, device=device, allocated=total, reserved=total)


def kind_of_region(category: str) -> int:
    """Return the category of regions that are not calls of HIP or HSA."""
    if category.startswith("RCCL"):
        return _COLLECTIVE
    return _ANNOTATION if category.startswith("MARKER") else OPERATOR


def copy_name(text: str) -> str:
    match = _COPY.match(text)
    return f"Memcpy {_WORDS[match[1]]}to{_WORDS[match[2]]}" if match else text
