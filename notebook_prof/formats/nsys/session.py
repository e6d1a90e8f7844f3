"""Data shared by all tables of a report: strings, processes and threads, devices, clocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from ...readers.codec.columns import (
    INTS,
    MISSING,
    TEXTS,
    Kind,
    Strings,
    TableRows,
    TableSource,
    per_group,
    read_rows,
    texts,
    texts_in,
)
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX: Final = "NVTX_EVENTS"
NO_ID: Final = 0xFFFFFFFF
"""Value that CUPTI writes where there is no stream or event."""
MAX_DEVICE: Final = int(np.iinfo(np.int16).max)

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
        return np.clip(numbers, 0, MAX_DEVICE)

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
