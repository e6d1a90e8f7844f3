"""Work on GPUs: kernels, copies, fills, whole graphs, and waits for them."""

from __future__ import annotations

from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...readers.codec.columns import INTS, MISSING, TableRows, groups, marked, per_group, sizes
from ...trace.arrays import IntArray
from ...trace.strings import Coded, joined
from ...trace.taxonomy import is_collective_kernel
from .session import GRAPHS, KERNELS, MEMCPY, MEMSET, NO_ID, NsysSession, pid_of

_KEYS: Final = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_GRID: Final = ("gridX", "gridY", "gridZ")
_BLOCK: Final = ("blockX", "blockY", "blockZ")
_COLUMNS: Final = {
    KERNELS: (
        *_KEYS,
        *("demangledName", "shortName", "mangledName", "graphId", "graphNodeId"),
        *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
        *(*_GRID, *_BLOCK),
    ),
    MEMCPY: (*_KEYS, "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId"),
    MEMSET: (*_KEYS, "bytes", "memKind", "graphNodeId"),
    GRAPHS: (*_KEYS, "graphId"),
}
_COPY: Final = (
    *("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
    *("HtoD", "DtoH", "DtoD"),
)
_UNIFIED: Final = (11, 12, 13)
"""Kinds of copies that the driver makes on its own, for managed memory."""
_MEMORY: Final = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static")
_WAITS: Final = ("Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
_UNIFIED_STREAM: Final = -2


class NsysWork(NamedTuple):
    """Work that calls may have launched, as columns of equal length."""

    pid: IntArray
    correlation: IntArray
    handle: IntArray


def add_device_work(session: NsysSession) -> NsysWork:
    """Put kernels, copies, fills and graphs into the builder, each on its stream, and waits beside them."""
    rows = {table: session.rows(table, dict.fromkeys(names, INTS)) for table, names in _COLUMNS.items()}
    processes = (np.unique(pid_of(part.ints("globalPid"))).tolist() for part in rows.values())
    session.number_ranks(pid for pids in processes for pid in pids)
    events: _Events = []
    parts = [
        add(session, rows[table], events)
        for table, add in ((KERNELS, _kernels), (MEMCPY, _copies), (MEMSET, _fills), (GRAPHS, _graphs))
        if len(rows[table])
    ]
    _waits(session, events)
    if events:
        # launch details, in the columns of Kineto's `device_events`
        table = pd.concat([part for part, _ in events], ignore_index=True)
        codes, names = joined([name for _, name in events])
        table.insert(4, "name", pd.Categorical.from_codes(codes, categories=list(names)))
        session.builder.metadata.setdefault("tables", {})["device_events"] = table.astype(
            {"kind": "category"}
        )
    none = np.empty(0, np.int64)
    columns = zip(*parts, strict=True) if parts else ((), (), ())
    return NsysWork(*(np.concatenate([none, *column]) for column in columns))


_Events = list[tuple[pd.DataFrame, Coded]]
"""Rows of the table ``device_events`` and their names, a part for each table of the report."""


def _kernels(session: NsysSession, rows: TableRows, events: _Events) -> NsysWork:
    numbers = (rows.ints(name, MISSING) for name in ("demangledName", "shortName", "mangledName"))
    number = reduce(lambda first, other: np.where(first == MISSING, other, first), numbers)
    name = session.names(number).named("unknown kernel")
    collective = marked(name, is_collective_kernel)
    category = Coded(collective.astype(np.int64), ["kernel", "collective"])
    facts: dict[str, Any] = {
        "grid": sizes(rows, _GRID),
        "block": sizes(rows, _BLOCK),
        "registers_per_thread": _optional(rows, "registersPerThread"),
        "shared_memory_bytes": _sum(rows, "staticSharedMemory", "dynamicSharedMemory"),
        "graph": _optional(rows, "graphId", zero_is_none=True),
        "graph_node": _optional(rows, "graphNodeId", zero_is_none=True),
    }
    return _add(session, rows, name, category, "kernel", events, facts)


def _copies(session: NsysSession, rows: TableRows, events: _Events) -> NsysWork:
    kinds = [rows.ints(name) for name in ("copyKind", "srcKind", "dstKind")]
    code, first = groups(*kinds)
    name = Coded(code, [_copy_name(*own) for own in np.stack(kinds, axis=1)[first].tolist()])
    unified = np.isin(rows.ints("copyKind"), _UNIFIED)
    work = _add(session, rows, name, "memcpy", "gpu_memcpy", events, _moved(rows), unified)
    # no call launched migrations: their numbers mean nothing
    return NsysWork(*(column[~unified] for column in work))


def _fills(session: NsysSession, rows: TableRows, events: _Events) -> NsysWork:
    code, first = groups(rows.ints("memKind"))
    kinds = [_memory(kind) for kind in rows.ints("memKind")[first].tolist()]
    name = Coded(code, [f"Memset ({kind})" if kind else "Memset" for kind in kinds])
    return _add(session, rows, name, "memset", "gpu_memset", events, _moved(rows))


def _moved(rows: TableRows) -> dict[str, Any]:
    node = _optional(rows, "graphNodeId", zero_is_none=True)
    return {"bytes": _optional(rows, "bytes"), "graph_node": node}


def _graphs(session: NsysSession, rows: TableRows, events: _Events) -> NsysWork:
    """Add launches of CUDA graphs that were recorded as a whole: one row for all of their kernels."""
    code, first = groups(rows.ints("graphId"))
    name = Coded(code, [f"CUDA graph {graph}" for graph in rows.ints("graphId")[first].tolist()])
    session.builder.report.add(
        "graph-as-kernel",
        "loss",
        len(rows),
        example=name.values[0],
        effect="each launch of these graphs is one row of category kernel: how many kernels ran, and which, "
        "is unknown",
        advice="record with --cuda-graph-trace=node",
    )
    return _add(session, rows, name, "kernel", "kernel", events, {"graph": _optional(rows, "graphId")})


def _waits(session: NsysSession, events: _Events) -> None:
    """Add waits for devices; the host waits in the call that has the same correlation."""
    columns = (*_KEYS, "syncType", "eventId", "eventSyncId")
    rows = session.rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", dict.fromkeys(columns, INTS))
    if not len(rows):
        return
    kind = rows.ints("syncType", 0)
    name = Coded(np.where((kind > 0) & (kind < len(_WAITS)), kind, 0), _WAITS)
    facts: dict[str, Any] = {"sync_kind": pd.Categorical.from_codes(name.codes, list(_WAITS))}
    event = rows.ints("eventId")
    on_event = (event >= 0) & (event != NO_ID)
    if on_event.any():
        facts["wait_on_event"] = pd.arrays.IntegerArray(event, ~on_event)
        record = _records(session, rows)
        for column in ("wait_on_stream", "wait_on_correlation"):
            values = record[column].to_numpy()
            facts[column] = pd.arrays.IntegerArray(values, ~on_event | (values < 0))
    _add(session, rows, name, "sync", "cuda_sync", events, facts)


def _records(session: NsysSession, waits: TableRows) -> pd.DataFrame:
    """Return the stream and the call that recorded the event of each wait; -1 if unknown."""
    columns = ("globalPid", "eventId", "eventSyncId", "streamId", "correlationId")
    records = session.rows("CUPTI_ACTIVITY_KIND_CUDA_EVENT", dict.fromkeys(columns, INTS))
    keys = ["globalPid", "eventId", "eventSyncId"]
    table = pd.DataFrame({name: records.ints(name) for name in columns}).drop_duplicates(keys, keep="last")
    table = table[table["eventSyncId"] >= 0]
    own = pd.DataFrame({name: waits.ints(name) for name in keys})
    merged = own.merge(table, on=keys, how="left").fillna(-1).astype("int64")
    return merged.rename(columns={"streamId": "wait_on_stream", "correlationId": "wait_on_correlation"})


def _add(
    session: NsysSession,
    rows: TableRows,
    name: Coded,
    category: Any,
    kind: str,
    events: _Events,
    facts: dict[str, Any],
    unified: Any = None,
) -> NsysWork:
    ts, dur = session.times(rows)
    pid = pid_of(rows.ints("globalPid"))
    device = session.devices(pid, rows.ints("deviceId", 0))
    stream = rows.ints("streamId")
    stream = np.where((stream < 0) | (stream == NO_ID), -1, stream)
    lane = stream if unified is None else np.where(unified, _UNIFIED_STREAM, stream)
    correlation = rows.ints("correlationId")
    handle = session.builder.slices(
        ts=ts,
        dur=dur,
        track=_streams(session, pid, device, lane),
        name=name,
        category=category,
        correlation=np.maximum(correlation, -1),
        device=device,
        stream=stream,
    )
    columns: dict[str, Any] = {"device": device, "stream": stream, "start_unix_ns": ts}
    columns["correlation"] = correlation
    # columns without any value are left out
    columns |= {"kind": kind, **{key: value for key, value in facts.items() if not pd.isna(value).all()}}
    events.append((pd.DataFrame(columns, index=range(len(rows))), name))
    return NsysWork(pid, correlation, handle)


def _streams(session: NsysSession, pid: IntArray, device: IntArray, stream: IntArray) -> IntArray:
    def track(process: int, number: int, own: int) -> int:
        name = f"GPU {number}" + (f" stream {own}" if own >= 0 else "")
        name += " unified memory" if own == _UNIFIED_STREAM else ""
        rank, known = session.ranks.get(process), None if own == -1 else own
        return session.builder.track(name, "stream", device=number, stream=known, rank=rank)

    return per_group(track, pid, device, stream)


def _copy_name(kind: int, source: int, target: int) -> str:
    """Return Kineto's name for a copy."""
    name = f"Memcpy {_COPY[kind]}".rstrip() if 0 <= kind < len(_COPY) else "Memcpy"
    if kind in _UNIFIED:
        return f"{name} (unified memory)"
    ends = [_memory(source), _memory(target)]
    return f"{name} ({ends[0]} -> {ends[1]})" if all(ends) else name


def _memory(kind: int) -> str:
    return _MEMORY[kind] if 0 <= kind < len(_MEMORY) else ""


def _optional(rows: TableRows, name: str, *, zero_is_none: bool = False) -> Any:
    values = rows.ints(name, MISSING)
    return pd.arrays.IntegerArray(values, (values == MISSING) | ((values == 0) & zero_is_none))


def _sum(rows: TableRows, *names: str) -> Any:
    columns = [rows.ints(name, MISSING) for name in names]
    absent = np.logical_and.reduce([column == MISSING for column in columns])
    total = np.sum([np.where(column == MISSING, 0, column) for column in columns], axis=0)
    return pd.arrays.IntegerArray(total, absent)
