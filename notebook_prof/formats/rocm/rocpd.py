"""rocpd: the database that rocprofv3 and rocprof-sys write, one process a suffix of its tables."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...readers.codec.columns import INTS, TEXTS, Kind, TableSource
from ...readers.codec.rows import Rows, Strings, groups, read_rows, texts_in
from ...readers.codec.sqlite import Database
from ...trace.arrays import IntArray, positions
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from .rpd import read_rpd
from .work import (
    OPERATOR,
    Work,
    add_allocations,
    add_calls,
    add_events,
    add_work,
    copy_name,
    kernel_kinds,
    kind_of_region,
    named,
    optional,
    sizes,
)

_NOT_SHOWN = ("rocpd_pmc_event", "rocpd_sample", "rocpd_barrierop", "ext_callstack")


def read_database(database: Database, builder: TraceBuilder) -> None:
    """Put a database into `builder`."""
    if "rocpd_op" in database.tables or "rocpd_api" in database.tables:
        read_rpd(database, builder)
    else:
        processes = suffixes(set(database.tables))
        with_gpu = [suffix for suffix in processes if database.count(f"rocpd_kernel_dispatch{suffix}")]
        for suffix in sorted(processes, key=lambda suffix: _pid(database, suffix)):
            rank = with_gpu.index(suffix) if suffix in with_gpu and len(with_gpu) > 1 else None
            Rocpd(database, suffix, builder, rank).read()
    _report(database, builder)
    if builder.is_empty:
        raise FormatError(
            "the database of ROCm's profiler holds no kernels, calls or counters; record with "
            "rocprofv3 --runtime-trace"
        )


def _report(database: Database, builder: TraceBuilder) -> None:
    counts = {
        name: count
        for name in sorted(database.tables)
        if name.startswith(_NOT_SHOWN) and (count := database.count(name))
    }
    builder.report.add(
        "table-not-used",
        "info",
        sum(counts.values()),
        example=", ".join(f"{name} ({count:,} rows)" for name, count in list(counts.items())[:3]),
        effect="what these tables tell is not shown",
        advice="nothing needs to be done",
    )


def _pid(source: TableSource, suffix: str) -> int:
    rows = read_rows(source, f"rocpd_info_process{suffix}", {"pid": INTS})
    return int(rows.ints("pid").min(initial=1 << 31))


_PREFIXES: Final = ("rocpd_metadata", "rocpd_string", "rocpd_kernel_dispatch", "rocpd_region")
_NUMBER: Final = re.compile(r"(\d{1,9})\s*$")


class _Events(NamedTuple):
    """Of each row its event's category, and the number that a call and its work share."""

    category: Coded
    correlation: IntArray


class Rocpd:
    """The tables of one process, whose names end with `suffix`; views without it may be absent."""

    def __init__(self, source: TableSource, suffix: str, builder: TraceBuilder, rank: int | None) -> None:
        self._source, self._suffix, self._builder, self._rank = source, suffix, builder, rank
        rows = self._rows("string", {"id": INTS, "string": TEXTS})
        self._names = Strings(rows.ints("id"), rows.texts("string")).names
        self._events = self._rows(
            "event", dict.fromkeys(("id", "category_id", "stack_id", "correlation_id"), INTS)
        )
        agents = self._rows("info_agent", {"id": INTS, "type_index": INTS, "type": TEXTS})
        columns = zip(agents.ints("id").tolist(), agents.ints("type_index", 0).tolist(), strict=True)
        kinds = texts_in(agents.texts("type")) or ["GPU"] * len(agents)
        self._gpus = {
            number: index for (number, index), kind in zip(columns, kinds, strict=True) if kind == "GPU"
        }

    def read(self) -> None:
        """Put the process into the builder."""
        calls = self._rows(
            "region", dict.fromkeys(("pid", "tid", "start", "end", "name_id", "event_id"), INTS)
        )
        of_calls = self._event(calls)
        names = self._names(calls.ints("name_id"))
        work = self._add_work()
        words = [kind_of_region(word) for word in of_calls.category.values]
        other = np.array([*words, OPERATOR], np.int64)[of_calls.category.codes]
        source = positions(of_calls.correlation, work.correlation)
        track, numbers = self._threads(calls), of_calls.correlation
        add_calls(self._builder, calls, track, names, other, source, work.handle, correlation=numbers)
        self._add_allocations()

    def _rows(self, table: str, kinds: dict[str, Kind]) -> Rows:
        return read_rows(self._source, f"rocpd_{table}{self._suffix}", kinds)

    def _event(self, rows: Rows) -> _Events:
        at = positions(self._events.ints("id"), rows.ints("event_id"))
        correlation = self._events.ints("correlation_id")
        correlation = np.where(correlation > 0, correlation, self._events.ints("stack_id"))
        category = self._names(self._events.ints("category_id"))
        return _Events(
            Coded(np.append(category.codes, -1)[at], category.values),
            np.where(at >= 0, np.append(np.where(correlation > 0, correlation, -1), -1)[at], -1),
        )

    def _threads(self, rows: Rows) -> IntArray:
        """Return the tracks of threads; rows name them by the number of a row of another table."""
        kinds: dict[str, Kind] = {"id": INTS, "tid": INTS, "pid": INTS, "name": TEXTS}
        threads, processes = (
            self._rows("info_thread", kinds),
            self._rows("info_process", {"id": INTS, "pid": INTS}),
        )
        code, first = groups(rows.ints("pid"), rows.ints("tid"))
        at = positions(threads.ints("id"), rows.ints("tid")[first])
        of_process = positions(processes.ints("id"), rows.ints("pid")[first])
        tid = np.where(at >= 0, np.append(threads.ints("tid"), 0)[at], np.maximum(rows.ints("tid")[first], 0))
        pid = np.where(of_process >= 0, np.append(processes.ints("pid"), 0)[of_process], 0)
        own = [*(texts_in(threads.texts("name")) or [""] * len(threads)), ""]
        tracks = [
            self._builder.track(own[i] or f"thread {thread}", pid=process, tid=thread, rank=self._rank)
            for i, thread, process in zip(at.tolist(), tid.tolist(), pid.tolist(), strict=True)
        ]
        return np.array(tracks, np.int64)[code]

    def _streams(self, rows: Rows) -> IntArray:
        """Return numbers of streams, or of queues where there are none: those at the end of their names."""
        result = np.full(len(rows), -1, np.int64)
        for column, table in (("stream_id", "info_stream"), ("queue_id", "info_queue")):
            lanes = self._rows(table, {"id": INTS, "name": TEXTS})
            names = texts_in(lanes.texts("name"))
            numbers = [int(m[1]) if (m := _NUMBER.search(name)) else i for i, name in enumerate(names)]
            at = positions(lanes.ints("id"), rows.ints(column))
            result = np.where(result < 0, np.append(np.array(numbers, np.int64), -1)[at], result)
        return np.maximum(result, 0)

    def _add_work(self) -> Work:
        parts, tables = zip(self._add_kernels(), self._add_copies(), strict=True)
        add_events(self._builder, tables)
        return Work(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _add_kernels(self) -> tuple[Work, pd.DataFrame]:
        grid = ("grid_size_x", "grid_size_y", "grid_size_z")
        block = ("workgroup_size_x", "workgroup_size_y", "workgroup_size_z")
        columns = (
            "agent_id",
            "kernel_id",
            "queue_id",
            "stream_id",
            "start",
            "end",
            "event_id",
            "region_name_id",
        )
        rows = self._rows(
            "kernel_dispatch", dict.fromkeys((*columns, *grid, *block, "group_segment_size"), INTS)
        )
        kinds: dict[str, Kind] = {
            "id": INTS,
            "kernel_name": TEXTS,
            "display_name": TEXTS,
            "arch_vgpr_count": INTS,
        }
        symbols = self._rows("info_kernel_symbol", kinds)
        shown = texts_in(symbols.texts("display_name")) or [""] * len(symbols)
        mangled = texts_in(symbols.texts("kernel_name")) or [""] * len(symbols)
        at = positions(symbols.ints("id"), rows.ints("kernel_id"))
        values = [one or other.removesuffix(".kd") for one, other in zip(shown, mangled, strict=True)]
        name = named(Coded(at, values), "unknown kernel")
        device = np.array([self._gpus.get(agent, 0) for agent in rows.ints("agent_id").tolist()], np.int64)
        facts = {
            "kind": "kernel",
            # a grid is told in work-items, not in blocks
            "grid": sizes(rows, grid, block),
            "block": sizes(rows, block),
            "registers_per_thread": optional(np.append(symbols.ints("arch_vgpr_count"), -1)[at]),
            "shared_memory_bytes": optional(rows.ints("group_segment_size")),
        }
        return self._add(rows, name, kernel_kinds(name), device, facts)

    def _add_copies(self) -> tuple[Work, pd.DataFrame]:
        columns = ("start", "end", "name_id", "dst_agent_id", "src_agent_id", "size", "queue_id", "stream_id")
        rows = self._rows("memory_copy", dict.fromkeys((*columns, "event_id"), INTS))
        names = self._names(rows.ints("name_id"))
        name = named(Coded(names.codes, [copy_name(text) for text in names.values]), "Memcpy")
        ends = (rows.ints(column).tolist() for column in ("dst_agent_id", "src_agent_id"))
        device = [self._gpus.get(to, self._gpus.get(of, 0)) for to, of in zip(*ends, strict=True)]
        facts = {"kind": "gpu_memcpy", "bytes": optional(rows.ints("size"))}
        return self._add(rows, name, "memcpy", np.array(device, np.int64), facts)

    def _add(
        self, rows: Rows, name: Coded, category: Any, device: IntArray, facts: dict[str, Any]
    ) -> tuple[Work, pd.DataFrame]:
        correlation, where = self._event(rows).correlation, (device, self._streams(rows))
        return add_work(self._builder, rows, name, category, correlation, where, self._rank, facts)

    def _add_allocations(self) -> None:
        kinds: dict[str, Kind] = {
            **dict.fromkeys(("start", "agent_id", "address", "size"), INTS),
            "type": TEXTS,
        }
        rows = self._rows("memory_allocate", kinds)
        if not len(rows):
            return
        kind = texts_in(rows.texts("type")) or [""] * len(rows)
        table = pd.DataFrame({name: rows.ints(name, 0) for name in ("start", "address", "size")})
        device = np.array([self._gpus.get(agent, -1) for agent in rows.ints("agent_id").tolist()], np.int64)
        frees = np.array([text.upper().startswith(("FREE", "RELEASE")) for text in kind], bool)
        add_allocations(self._builder, table, device, frees)


def suffixes(names: set[str]) -> list[str]:
    """Return the suffixes of the tables of each process.

    >>> suffixes({"rocpd_metadata_a", "rocpd_string_a", "rocpd_metadata_b"})
    ['_a', '_b']
    """
    endings = {name.removeprefix(prefix) for prefix in _PREFIXES for name in names if name.startswith(prefix)}
    return sorted(suffix for suffix in endings if suffix == "" or suffix.startswith("_"))
