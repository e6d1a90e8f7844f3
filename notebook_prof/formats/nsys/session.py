"""Data shared by all tables of a report (strings, processes, devices, clocks), and the work on GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...readers.codec.columns import (
    INTS,
    MISSING,
    TEXTS,
    Kind,
    Strings,
    TableRows,
    TableSource,
    groups,
    marked,
    per_group,
    read_rows,
    sizes,
    texts,
    texts_in,
)
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded, joined
from ...trace.taxonomy import is_collective_kernel

_NO_ID: Final = 0xFFFFFFFF
"""Value that CUPTI writes where there is no stream or event."""
_MAX_DEVICE: Final = int(np.iinfo(np.int16).max)

_LATEST_NS: Final = 1 << 61
_FACTS: Final = {
    "name": "name",
    "totalGlobalMem": "totalMemory",
    "numSms": "smCount",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
    "maxThreadsPerBlock": "maxThreadsPerBlock",
    "regsPerBlock": "maxRegistersPerBlock",
    "regsPerMultiprocessor": "maxRegistersPerSm",
    "warpSize": "threadsPerWarp",
    "sharedMemPerBlock": "maxShmemPerBlock",
    "sharedMemPerBlockOptin": "maxShmemPerBlockOptin",
    "sharedMemPerMultiprocessor": "maxShmemPerSm",
}
"""Kineto's names for the properties of a GPU in a report."""


def pid_of(global_id: IntArray) -> IntArray:
    """Return the process in a global number: 8 bits of hardware and machine, 24 of process and thread."""
    return np.asarray(np.where(global_id < 0, 0, (global_id >> 24) & 0xFFFFFF))


class NsysSession:
    """A report while it is read: its tables, and the builder."""

    def __init__(self, source: TableSource, builder: TraceBuilder) -> None:
        self.source, self.builder = source, builder
        self._tables_used: set[str] = set()
        strings = self.rows("StringIds", {"id": INTS, "value": TEXTS})
        self.names = Strings(strings.ints("id"), strings.texts("value")).names
        start = self.rows("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": INTS}).ints("utcEpochNs", 0)
        # start of the session in Unix ns; 0 if unknown
        self.base = int(start[0]) if len(start) and 0 < start[0] < _LATEST_NS else 0
        # by process, where several use GPUs: see `number_ranks`
        self.ranks: dict[int, int] = {}
        gpus = self.rows("TARGET_INFO_CUDA_DEVICE", {"pid": INTS, "cudaId": INTS, "gpuId": INTS})
        columns = (gpus.ints(name).tolist() for name in ("pid", "cudaId", "gpuId"))
        self._gpu_of = {(pid, cuda): gpu for pid, cuda, gpu in zip(*columns, strict=True) if gpu >= 0}
        # by global number
        self.thread_names = self._names_of_threads()
        details = self.rows("ANALYSIS_DETAILS", {"duration": INTS}).ints("duration", 0)
        # Unix ns: rows without an end last until then
        self.end = self.base + (int(details[0]) if len(details) and 0 < details[0] < _LATEST_NS else 0)
        self._facts()

    def rows(self, table: str, kinds: Mapping[str, Kind]) -> TableRows:
        """Return columns of a table; no rows if the report lacks the table."""
        self._tables_used.add(table)
        return read_rows(self.source, table, kinds)

    def times(self, rows: TableRows) -> tuple[IntArray, IntArray]:
        """Return starts in Unix ns and durations; rows without an end last until the end of the session."""
        ts = np.clip(rows.ints("start", 0), -_LATEST_NS, _LATEST_NS) + self.base
        ends = rows.ints("end", MISSING)
        last = max(self.end, int(ts.max(initial=self.base)))
        ends = np.where(ends == MISSING, last, np.clip(ends, -_LATEST_NS, _LATEST_NS) + self.base)
        return ts, ends - ts

    def number_ranks(self, pids: Iterable[int]) -> None:
        """Make processes that use GPUs ranks, in the order of their numbers, if there are several."""
        ordered = sorted(set(pids))
        self.ranks = {pid: rank for rank, pid in enumerate(ordered)} if len(ordered) > 1 else {}

    def threads(self, global_tid: IntArray, beside: str = "") -> IntArray:
        """Return the tracks of threads, or of the lanes that are drawn beside them."""

        def track(number: int, pid: int) -> int:
            tid, rank = number & 0xFFFFFF if number >= 0 else 0, self.ranks.get(pid)
            name = self.thread_names.get(number)
            if beside:
                return self.builder.track(
                    f"{name or 'thread'} {tid} · {beside}", "process", pid=pid, rank=rank
                )
            return self.builder.track(name or f"thread {tid}", pid=pid, tid=tid, rank=rank)

        return per_group(track, global_tid, pid_of(global_tid))

    def devices(self, pid: IntArray, device: IntArray) -> IntArray:
        """Return the physical GPU numbers, if the report has them, of CUDA's device numbers."""
        numbers = per_group(lambda process, own: self._gpu_of.get((process, own), own), pid, device)
        return np.clip(numbers, 0, _MAX_DEVICE)

    def report_unread(self) -> None:
        """Report the tables with rows that were not read."""
        about = re.compile(
            r"ENUM_|TARGET_INFO_|META_DATA_|EXPORT_META|StringIds|ThreadNames|PROCESSES|ANALYSIS_|ProcessStreams"
            r"|sqlite_|UnwindMethodType|NVTX_PAYLOAD_"
        )
        left = {name for name in self.source.tables if not about.match(name)} - self._tables_used
        counts = {name: count for name in sorted(left) if (count := self.source.count(name))}
        example = ", ".join(f"{name} ({count:,} rows)" for name, count in list(counts.items())[:4])
        effect = "the data in these tables is not shown"
        advice = "open the report in Nsight Systems to see it"
        self.builder.report.add("table-not-used", "info", sum(counts.values()), example, effect, advice)

    def _names_of_threads(self) -> dict[int, str]:
        """Return names by global number; of several, that of the highest priority."""
        rows = self.rows("ThreadNames", {"nameId": INTS, "priority": INTS, "globalTid": INTS})
        order = np.argsort(rows.ints("priority"), kind="stable")
        names = texts(self.names(rows.ints("nameId")[order]))
        numbers = rows.ints("globalTid")[order].tolist()
        return {number: name for number, name in zip(numbers, names, strict=True) if name}

    def _facts(self) -> None:
        metadata = self.builder.metadata
        for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
            rows = self.rows(table, {"name": TEXTS, "value": TEXTS})
            if (name := rows.texts("name")) is not None and (value := rows.texts("value")) is not None:
                pairs = dict(zip(texts_in(name), texts_in(value), strict=True))
                versions = ("product_version", "schema_version")
                known = {version: pairs.get(f"EXPORT_{version.upper()}") for version in versions}
                metadata["nsys"] = {version: text for version, text in known.items() if text}
        kinds: dict[str, Kind] = {"id": INTS, **dict.fromkeys(_FACTS.values(), INTS), "name": TEXTS}
        rows = self.rows("TARGET_INFO_GPU", kinds)
        name = rows.texts("name")
        if not len(rows) or name is None:
            return
        names = texts_in(name)
        facts = {ours: rows.ints(theirs) for ours, theirs in _FACTS.items() if theirs != "name"}
        metadata["device_properties"] = [
            {"id": number, "name": names[i]}
            | {fact: int(values[i]) for fact, values in facts.items() if values[i] >= 0}
            for i, number in enumerate(rows.ints("id").tolist())
        ]
        metadata["devices"] = names


# Work on GPUs: kernels, copies, fills, whole graphs, and waits for them.

_KEYS: Final = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_GRID: Final = ("gridX", "gridY", "gridZ")
_BLOCK: Final = ("blockX", "blockY", "blockZ")
_COLUMNS: Final = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        *_KEYS,
        *("demangledName", "shortName", "mangledName", "graphId", "graphNodeId"),
        *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
        *(*_GRID, *_BLOCK),
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (*_KEYS, "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId"),
    "CUPTI_ACTIVITY_KIND_MEMSET": (*_KEYS, "bytes", "memKind", "graphNodeId"),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (*_KEYS, "graphId"),
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
    """Work on a device, as columns of equal length, with the numbers of the calls that launched it."""

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
        add(session, of_table, events)
        for of_table, add in zip(rows.values(), (_kernels, _copies, _fills, _graphs), strict=True)
        if len(of_table)
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
"""Rows of ``device_events`` and their names, one part per table of the report."""


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
    # no call launches migrations, so their correlation numbers mean nothing
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
    on_event = (event >= 0) & (event != _NO_ID)
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
    stream = np.where((stream < 0) | (stream == _NO_ID), -1, stream)
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
