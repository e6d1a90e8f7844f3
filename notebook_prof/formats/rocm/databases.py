"""AMD's databases: rocpd, which rocprofv3 and rocprof-sys write, and ROCm Profiler Data (RPD)."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...readers.codec.columns import (
    INTS,
    TEXTS,
    Kind,
    Strings,
    TableRows,
    TableSource,
    marked,
    per_group,
    read_rows,
    sizes,
    texts_in,
)
from ...readers.codec.sqlite import Database
from ...readers.events import stream_tracks
from ...trace.arrays import BoolArray, IntArray, optional, positions
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from .work import (
    BLOCK,
    GRID,
    OPERATOR,
    LaunchedWork,
    add_allocations,
    add_calls,
    add_events,
    add_work,
    copy_name,
    joined_work,
    kernel_facts,
    kernel_kinds,
    kind_of_region,
    thread_tracks,
    times,
)

_COPIES: Final = {
    "CopyHostToDevice": "Memcpy HtoD",
    "CopyDeviceToHost": "Memcpy DtoH",
    "CopyDeviceToDevice": "Memcpy DtoD",
    "CopyHostToHost": "Memcpy HtoH",
}
_KERNEL, _FILL = "KernelExecution", "FillBuffer"
_MARKER: Final = "UserMarker"
_OPERATOR, _ANNOTATION, _OVERHEAD = 3, 4, 0


def read_rpd(source: TableSource, builder: TraceBuilder) -> None:
    """Put a database of RPD into `builder`: ops on streams, calls on threads, monitors as counters."""
    rows = read_rows(source, "rocpd_string", {"id": INTS, "string": TEXTS})
    strings = Strings(rows.ints("id"), rows.texts("string"))
    apis = read_rows(
        source,
        "rocpd_api",
        dict.fromkeys(("id", "pid", "tid", "start", "end", "apiName_id", "args_id"), INTS),
    )
    links = read_rows(source, "rocpd_api_ops", {"api_id": INTS, "op_id": INTS})
    work = _add_ops(source, strings, apis.ints("id"), links, builder)
    names = strings.names(apis.ints("apiName_id"))
    marker = marked(names, _MARKER.__eq__)
    messages = strings.names(apis.ints("args_id"))
    shift = len(names.values)
    whole = Coded(np.where(marker, messages.codes + shift, names.codes), [*names.values, *messages.values])
    operator, shapes = _operators(source, apis.ints("id"))
    other = np.where(operator, _OPERATOR, np.where(marker, _ANNOTATION, _OVERHEAD))
    track = thread_tracks(builder, apis)
    add_calls(builder, apis, track, whole, other, work["api"], work["handle"], shapes=shapes)
    _add_monitors(source, builder)


def _add_ops(
    source: TableSource, strings: Strings, api_ids: IntArray, links: TableRows, builder: TraceBuilder
) -> dict[str, IntArray]:
    """Put ops into the builder; barriers, which have no name, are left out and counted."""
    columns = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
    ops = read_rows(source, "rocpd_op", dict.fromkeys(columns, INTS))
    kinds = strings.names(ops.ints("opType_id"))
    names = strings.names(ops.ints("description_id"))
    # kernels of a graph are ops of type `Task` with the name of the kernel
    typed = [kind in _COPIES or kind in (_KERNEL, _FILL) for kind in kinds.values]
    keep = np.array([*typed, False])[kinds.codes] | marked(names, bool)
    effect = "barriers and tasks without a name are not kernels: left out"
    builder.report.add("barrier-not-used", "info", int((~keep).sum()), effect=effect)
    ops, kinds = ops.where(keep), Coded(kinds.codes[keep], kinds.values)
    names = Coded(names.codes[keep], names.values)
    by_kind = [_COPIES.get(kind, "Memset" if kind == _FILL else "unknown kernel") for kind in kinds.values]
    moves = [kind in _COPIES or kind == _FILL for kind in kinds.values]
    is_kernel = ~np.array([*moves, False])[kinds.codes]
    own = is_kernel & marked(names, bool)
    name = Coded(np.where(own, names.codes, kinds.codes + len(names.values)), [*names.values, *by_kind])
    words = np.array([3 if kind == _FILL else 2 for kind in kinds.values] + [0])[kinds.codes]
    kernel = kernel_kinds(name)
    category = Coded(np.where(is_kernel, kernel.codes, words), kernel.values)
    ts, dur = times(ops)
    device, stream = np.clip(ops.ints("gpuId", 0), 0, 32_767), np.maximum(ops.ints("queueId", 0), 0)
    track = stream_tracks(builder, device, stream)
    handle = builder.slices(
        ts=ts, dur=dur, track=track, name=name, category=category, device=device, stream=stream
    )
    api_of_link = positions(api_ids, links.ints("api_id"))
    at = positions(links.ints("op_id"), ops.ints("id"))
    api = np.where(at >= 0, np.append(api_of_link, -1)[at], -1)
    api_id = np.where(api >= 0, np.append(api_ids, -1)[api], -1)
    launch = ("gridX", "gridY", "gridZ", "workgroupX", "workgroupY", "workgroupZ", "groupSegmentSize")
    kernels = read_rows(source, "rocpd_kernelapi", dict.fromkeys(("api_ptr_id", *launch), INTS))
    copies = read_rows(source, "rocpd_copyapi", {"api_ptr_id": INTS, "size": INTS})
    of_kernel = np.where(is_kernel, positions(kernels.ints("api_ptr_id"), api_id), -1)
    of_copy = np.where(is_kernel, -1, positions(copies.ints("api_ptr_id"), api_id))
    grid, block = sizes(kernels, launch[:3]), sizes(kernels, launch[3:6])
    table = {
        "device": device,
        "stream": stream,
        "start_unix_ns": ts,
        "correlation": api_id,
        "name": np.array([*name.values, ""], dtype=object)[name.codes],
        "kind": np.where(is_kernel, "kernel", np.where(words == 3, "gpu_memset", "gpu_memcpy")),
    }
    if len(ops):
        facts = {
            "grid": grid.take(of_kernel, allow_fill=True),
            "block": block.take(of_kernel, allow_fill=True),
            "shared_memory_bytes": optional(np.append(kernels.ints("groupSegmentSize"), -1)[of_kernel]),
            "bytes": optional(np.append(copies.ints("size"), -1)[of_copy]),
        }
        add_events(builder, [pd.DataFrame({**table, **facts})])
    return {"api": api, "handle": handle}


def _operators(source: TableSource, api_ids: IntArray) -> tuple[BoolArray, Coded | None]:
    """Return which calls are PyTorch's operators, and the shapes of their inputs."""
    rows = read_rows(source, "ext_autogradapi", {"api_ptr_id": INTS, "sizes": TEXTS})
    at = positions(rows.ints("api_ptr_id"), api_ids)
    text = rows.texts("sizes")
    if text is None or not len(rows):
        return at >= 0, None
    shapes = text.coded()
    empty = np.array([*(not value for value in shapes.values), True])
    codes = np.append(shapes.codes, -1)[at]
    codes = np.where(empty[codes], -1, codes)
    return at >= 0, Coded(codes, shapes.values) if (codes >= 0).any() else None


def _add_monitors(source: TableSource, builder: TraceBuilder) -> None:
    """Put clocks and similar values into the builder as counters."""
    kinds: dict[str, Kind] = {"deviceId": INTS, "start": INTS}
    kinds |= dict.fromkeys(("deviceType", "monitorType", "value"), TEXTS)
    rows = read_rows(source, "rocpd_monitor", kinds)
    if not len(rows):
        return
    what, device_type = texts_in(rows.texts("monitorType")), texts_in(rows.texts("deviceType"))
    whole = read_rows(source, "rocpd_monitor", {"value": INTS}).ints("value").astype(np.float64)
    numbers = pd.to_numeric(pd.Series(texts_in(rows.texts("value"))), errors="coerce").to_numpy(np.float64)
    value = np.where(np.isnan(numbers), np.where(whole < 0, np.nan, whole), numbers)
    device, ts = np.clip(rows.ints("deviceId", 0), 0, 32_767), rows.ints("start", 0)
    table = pd.DataFrame({"kind": device_type, "device": device, "what": what, "ts": ts, "value": value})
    for (kind, number, name), part in table.dropna().groupby(["kind", "device", "what"]):
        label = f"{'GPU' if str(kind).lower() == 'gpu' else kind} {number} {name}"
        unit = "MHz" if str(name).endswith("clk") else ""
        track = builder.track(label, "counter", device=int(str(number)), unit=unit)
        builder.counter(track, part["ts"].to_numpy(), part["value"].to_numpy())


_NOT_SHOWN = ("rocpd_pmc_event", "rocpd_sample", "rocpd_barrierop", "ext_callstack")


def read_database(database: Database, builder: TraceBuilder) -> None:
    if "rocpd_op" in database.tables or "rocpd_api" in database.tables:
        read_rpd(database, builder)
    else:
        names = set(database.tables)
        endings = {name.removeprefix(p) for p in _PREFIXES for name in names if name.startswith(p)}
        processes = sorted(suffix for suffix in endings if suffix == "" or suffix.startswith("_"))
        with_gpu = [suffix for suffix in processes if database.count(f"rocpd_kernel_dispatch{suffix}")]
        for suffix in sorted(processes, key=lambda suffix: _pid(database, suffix)):
            rank = with_gpu.index(suffix) if suffix in with_gpu and len(with_gpu) > 1 else None
            Rocpd(database, suffix, builder, rank).read()
    _report(database, builder)
    if builder.is_empty:
        raise FormatError(
            "the database of ROCm's profiler has no kernels, calls or counters; record with "
            "rocprofv3 --runtime-trace"
        )


def _report(database: Database, builder: TraceBuilder) -> None:
    counts = {
        name: count
        for name in sorted(database.tables)
        if name.startswith(_NOT_SHOWN) and (count := database.count(name))
    }
    example = ", ".join(f"{name} ({count:,} rows)" for name, count in list(counts.items())[:3])
    effect = "the data in these tables is not shown"
    builder.report.add("table-not-used", "info", sum(counts.values()), example, effect)


def _pid(source: TableSource, suffix: str) -> int:
    rows = read_rows(source, f"rocpd_info_process{suffix}", {"pid": INTS})
    return int(rows.ints("pid").min(initial=1 << 31))


_PREFIXES: Final = ("rocpd_metadata", "rocpd_string", "rocpd_kernel_dispatch", "rocpd_region")
_NUMBER: Final = re.compile(r"(\d{1,9})\s*$")


class _Events(NamedTuple):
    """Each row's event category, and the number that a call and its work share."""

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
        work = joined_work(self._builder, self._add_kernels(), self._add_copies())
        words = [kind_of_region(word) for word in of_calls.category.values]
        other = np.array([*words, OPERATOR], np.int64)[of_calls.category.codes]
        source = positions(of_calls.correlation, work.correlation)
        track, numbers = self._threads(calls), of_calls.correlation
        add_calls(self._builder, calls, track, names, other, source, work.handle, correlation=numbers)
        self._add_allocations()

    def _rows(self, table: str, kinds: dict[str, Kind]) -> TableRows:
        return read_rows(self._source, f"rocpd_{table}{self._suffix}", kinds)

    def _event(self, rows: TableRows) -> _Events:
        at = positions(self._events.ints("id"), rows.ints("event_id"))
        correlation = self._events.ints("correlation_id")
        correlation = np.where(correlation > 0, correlation, self._events.ints("stack_id"))
        category = self._names(self._events.ints("category_id"))
        return _Events(
            Coded(np.append(category.codes, -1)[at], category.values),
            np.where(at >= 0, np.append(np.where(correlation > 0, correlation, -1), -1)[at], -1),
        )

    def _threads(self, rows: TableRows) -> IntArray:
        """Return the tracks of threads; rows name them by the number of a row of another table."""
        threads = self._rows("info_thread", {"id": INTS, "tid": INTS, "name": TEXTS})
        processes = self._rows("info_process", {"id": INTS, "pid": INTS})
        process_of = dict(zip(processes.ints("id").tolist(), processes.ints("pid").tolist(), strict=True))
        names = texts_in(threads.texts("name")) or [""] * len(threads)
        named = zip(names, threads.ints("tid").tolist(), strict=True)
        thread_of = dict(zip(threads.ints("id").tolist(), named, strict=True))

        def track(pid: int, tid: int) -> int:
            name, thread = thread_of.get(tid, ("", max(tid, 0)))
            name, process = name or f"thread {thread}", process_of.get(pid, 0)
            return self._builder.track(name, pid=process, tid=thread, rank=self._rank)

        return per_group(track, rows.ints("pid"), rows.ints("tid"))

    def _streams(self, rows: TableRows) -> IntArray:
        """Return numbers of streams, or else of queues: those at the end of their names."""
        result = np.full(len(rows), -1, np.int64)
        for column, table in (("stream_id", "info_stream"), ("queue_id", "info_queue")):
            lanes = self._rows(table, {"id": INTS, "name": TEXTS})
            names = texts_in(lanes.texts("name"))
            numbers = [int(m[1]) if (m := _NUMBER.search(name)) else i for i, name in enumerate(names)]
            at = positions(lanes.ints("id"), rows.ints(column))
            result = np.where(result < 0, np.append(np.array(numbers, np.int64), -1)[at], result)
        return np.maximum(result, 0)

    def _add_kernels(self) -> tuple[LaunchedWork, pd.DataFrame]:
        columns = ("agent_id", "kernel_id", "queue_id", "stream_id", "start", "end", "event_id")
        every = (*columns, "group_segment_size", *GRID, *BLOCK)
        rows = self._rows("kernel_dispatch", dict.fromkeys(every, INTS))
        kinds: dict[str, Kind] = {"id": INTS, "arch_vgpr_count": INTS}
        kinds |= {"kernel_name": TEXTS, "display_name": TEXTS}
        symbols = self._rows("info_kernel_symbol", kinds)
        shown = texts_in(symbols.texts("display_name")) or [""] * len(symbols)
        mangled = texts_in(symbols.texts("kernel_name")) or [""] * len(symbols)
        at = positions(symbols.ints("id"), rows.ints("kernel_id"))
        values = [one or other.removesuffix(".kd") for one, other in zip(shown, mangled, strict=True)]
        name = Coded(at, values).named("unknown kernel")
        device = np.array([self._gpus.get(agent, 0) for agent in rows.ints("agent_id").tolist()], np.int64)
        registers = np.append(symbols.ints("arch_vgpr_count"), -1)[at]
        facts = kernel_facts(rows, registers, rows.ints("group_segment_size"))
        return self._add(rows, name, kernel_kinds(name), device, facts)

    def _add_copies(self) -> tuple[LaunchedWork, pd.DataFrame]:
        columns = ("start", "end", "name_id", "dst_agent_id", "src_agent_id", "size", "queue_id", "stream_id")
        rows = self._rows("memory_copy", dict.fromkeys((*columns, "event_id"), INTS))
        names = self._names(rows.ints("name_id"))
        name = Coded(names.codes, [copy_name(text) for text in names.values]).named("Memcpy")
        ends = (rows.ints(column).tolist() for column in ("dst_agent_id", "src_agent_id"))
        device = [self._gpus.get(to, self._gpus.get(of, 0)) for to, of in zip(*ends, strict=True)]
        facts = {"kind": "gpu_memcpy", "bytes": optional(rows.ints("size"))}
        return self._add(rows, name, "memcpy", np.array(device, np.int64), facts)

    def _add(
        self, rows: TableRows, name: Coded, category: Any, device: IntArray, facts: dict[str, Any]
    ) -> tuple[LaunchedWork, pd.DataFrame]:
        correlation, where = self._event(rows).correlation, (device, self._streams(rows))
        return add_work(self._builder, rows, name, category, correlation, where, self._rank, facts)

    def _add_allocations(self) -> None:
        kinds: dict[str, Kind] = dict.fromkeys(("start", "agent_id", "address", "size"), INTS)
        rows = self._rows("memory_allocate", kinds | {"type": TEXTS})
        if not len(rows):
            return
        kind = texts_in(rows.texts("type")) or [""] * len(rows)
        table = pd.DataFrame({name: rows.ints(name, 0) for name in ("start", "address", "size")})
        device = np.array([self._gpus.get(agent, -1) for agent in rows.ints("agent_id").tolist()], np.int64)
        frees = np.array([text.upper().startswith(("FREE", "RELEASE")) for text in kind], bool)
        add_allocations(self._builder, table, device, frees)
