"""Samples of a report: values over time, call stacks of threads; and the profiler's warnings."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd

from ...readers.call_tree import CallFrame, Sampled, add_samples, count_samples, sample_durations
from ...readers.codec.columns import (
    FLOATS,
    INTS,
    MISSING,
    TEXTS,
    Kind,
    TableRows,
    groups,
    marked,
    per_group,
    texts,
    texts_in,
)
from ...trace.arrays import BoolArray, IntArray, consecutive, positions
from ...trace.strings import Coded
from .session import NsysSession, NsysWork, pid_of

_ON_DEVICE: Final = (2, 3, 4, 5, 6)
"""Kinds of memory: of a device, its arrays, managed and static; 0 and 1 are the host's."""
_WARNING: Final = 2


def add_gpu_metrics(session: NsysSession) -> None:
    """Put sampled metrics of GPUs into the builder as counters; shares where they are percentages."""
    kinds: dict[str, Kind] = {"timestamp": INTS, "typeId": INTS, "metricId": INTS, "value": FLOATS}
    rows = session.rows("GPU_METRICS", kinds)
    if not len(rows):
        return
    catalogue = session.rows(
        "TARGET_INFO_GPU_METRICS", {"typeId": INTS, "metricId": INTS, "metricName": TEXTS}
    )
    text = catalogue.texts("metricName")
    keys = zip(catalogue.ints("typeId").tolist(), catalogue.ints("metricId").tolist(), strict=True)
    names = dict(zip(keys, texts_in(text), strict=False))
    value, ts = rows.floats("value"), rows.ints("timestamp", 0) + session.base
    percent = {key for key, name in names.items() if "%" in name}

    def track(kind: int, metric: int) -> int:
        device, name = kind & 0xFF, (names.get((kind, metric)) or f"metric {metric}").split(" [")[0]
        unit = "1" if (kind, metric) in percent else ""
        return session.builder.track(f"GPU {device} {name}", "counter", device=device, unit=unit)

    key, own = (rows.ints("typeId"), rows.ints("metricId")), ~np.isnan(value)
    tracks, whole = per_group(track, *key), per_group(lambda *key: 100 if key in percent else 1, *key)
    session.builder.counter(tracks[own], ts[own], (value / whole)[own])


def add_network(session: NsysSession) -> None:
    """Put metrics of network cards into the builder as counters, a value at the start of its interval."""
    columns = ("start", "globalId", "portId", "metricsListId", "metricsIdx")
    rows = session.rows("NET_NIC_METRIC", {**dict.fromkeys(columns, INTS), "value": FLOATS})
    if not len(rows):
        return
    kinds: dict[str, Kind] = {"metricsListId": INTS, "metricsIdx": INTS, "name": TEXTS, "unit": TEXTS}
    catalogue = session.rows("TARGET_INFO_NETWORK_METRICS", kinds)
    keys = zip(*(catalogue.ints(column).tolist() for column in ("metricsListId", "metricsIdx")), strict=True)
    texts = [texts_in(catalogue.texts(column)) or [""] * len(catalogue) for column in ("name", "unit")]
    metrics = dict(zip(keys, zip(*texts, strict=True), strict=True))
    cards = session.rows("TARGET_INFO_NIC_INFO", {"nicId": INTS, "name": TEXTS})
    card_names = dict(zip(cards.ints("nicId").tolist(), texts_in(cards.texts("name")), strict=False))
    ids = session.rows("NIC_ID_MAP", {"nicId": INTS, "globalId": INTS})
    card_of = dict(zip(ids.ints("globalId").tolist(), ids.ints("nicId").tolist(), strict=True))
    value, ts = rows.floats("value"), rows.ints("start", 0) + session.base
    many_ports = len(np.unique(rows.ints("portId"))) > 1

    def track(card: int, port: int, group: int, index: int) -> int:
        name, unit = metrics.get((group, index)) or (f"metric {index}", "")
        where = card_names.get(card_of.get(card, -1)) or f"NIC {card_of.get(card, card)}"
        where = f"{where} port {port}" if many_ports else where
        return session.builder.track(f"{where} {name}", "counter", unit=unit)

    tracks, own = per_group(track, *(rows.ints(column) for column in columns[1:])), ~np.isnan(value)
    session.builder.counter(tracks[own], ts[own], value[own])


def add_page_faults(session: NsysSession) -> None:
    """Put page faults of managed memory into the builder: how many so far, by GPU and by process."""
    columns = ("start", "globalPid", "deviceId", "numberOfPageFaults")
    rows = session.rows("CUDA_UM_GPU_PAGE_FAULT_EVENTS", dict.fromkeys(columns, INTS))
    pid = pid_of(rows.ints("globalPid"))
    device = session.devices(pid, rows.ints("deviceId", 0)) if len(rows) else pid
    faults = np.maximum(rows.ints("numberOfPageFaults", 1), 0)
    for number in np.unique(device).tolist():
        track = session.builder.track(f"GPU {number} page faults", "counter", device=number)
        own = np.flatnonzero(device == number)
        _count(session, track, rows.ints("start", 0)[own], faults[own])
    rows = session.rows("CUDA_UM_CPU_PAGE_FAULT_EVENTS", dict.fromkeys(columns[:2], INTS))
    pid = pid_of(rows.ints("globalPid"))
    for process in np.unique(pid).tolist():
        own = np.flatnonzero(pid == process)
        rank = session.ranks.get(process)
        track = session.builder.track("page faults of managed memory", "counter", pid=process, rank=rank)
        _count(session, track, rows.ints("start", 0)[own], np.ones(len(own), np.int64))


def _count(session: NsysSession, track: int, start: IntArray, number: IntArray) -> None:
    order = np.argsort(start, kind="stable")
    session.builder.counter(track, start[order] + session.base, np.cumsum(number[order]))


def add_scheduling(session: NsysSession) -> None:
    """Put the number of running threads of each process into the builder."""
    rows = session.rows("SCHED_EVENTS", dict.fromkeys(("start", "isSchedIn", "globalTid"), INTS))
    if not len(rows):
        return
    thread, ts = rows.ints("globalTid"), rows.ints("start", 0) + session.base
    order = np.lexsort((ts, thread))
    thread, ts, state = thread[order], ts[order], rows.ints("isSchedIn", 0)[order]
    same = np.append(False, thread[1:] == thread[:-1])
    # a thread whose first event takes it off was on a processor before
    before = np.where(same, np.append(0, state[:-1]), 1 - state)
    pid = pid_of(thread)
    for process in np.unique(pid).tolist():
        own = pid == process
        at = np.argsort(ts[own], kind="stable")
        running = int((before[own] * ~same[own]).sum()) + np.cumsum((state - before)[own][at])
        track = session.builder.track(
            "threads on processors", "counter", pid=process, rank=session.ranks.get(process)
        )
        session.builder.counter(track, ts[own][at], running)


def add_memory(session: NsysSession) -> None:
    """Put CUDA's allocations and frees into the builder."""
    columns = ("start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType")
    rows = session.rows("CUDA_GPU_MEMORY_USAGE_EVENTS", dict.fromkeys(columns, INTS))
    if not len(rows):
        return
    ts = rows.ints("start", 0) + session.base
    pid = pid_of(rows.ints("globalPid"))
    device = session.devices(pid, rows.ints("deviceId", 0))
    device = np.where(np.isin(rows.ints("memKind", 2), _ON_DEVICE), device, -1)
    size = np.where(rows.ints("memoryOperationType", 0) == 1, -1, 1) * np.maximum(rows.ints("bytes", 0), 0)
    order = np.argsort(ts, kind="stable")
    total = _totals(device[order], size[order])
    ts, size, device = ts[order], size[order], device[order]
    addr = rows.ints("address", 0)[order].view(np.uint64)
    session.builder.allocations(ts=ts, addr=addr, bytes=size, device=device, allocated=total, reserved=total)


def _totals(device: IntArray, size: IntArray) -> IntArray:
    """Return the running total of each device, raised so that it never falls below 0."""
    total = np.empty(len(size), np.int64)
    for number in np.unique(device):
        own = device == number
        running = np.cumsum(size[own])
        total[own] = running + max(0, -int(running.min()))
    return total


def report_diagnostics(session: NsysSession) -> None:
    """Report the profiler's own warnings, most severe first."""
    rows = session.rows("DIAGNOSTIC_EVENT", {"severity": INTS, "text": TEXTS})
    text = rows.texts("text")
    if text is None:
        return
    table = pd.DataFrame({"severity": rows.ints("severity", MISSING), "text": texts_in(text)})
    grave = table[table["severity"] >= _WARNING].sort_values("severity", ascending=False, kind="stable")
    example = " ".join(str(grave["text"].iloc[0]).split())[:160] if len(grave) else ""
    effect = "Nsight Systems warned during the recording: the data it names may be missing"
    advice = "see Diagnostics in Nsight Systems"
    session.builder.report.add("nsight-warning", "info", len(grave), example, effect, advice)


_SAMPLES: Final = "COMPOSITE_EVENTS"
_CHAINS: Final = "SAMPLING_CALLCHAINS"
_MARKERS: Final = ("[Broken backtraces]", "[Max depth]")
"""Symbols where the stack could not be followed. They are not functions."""


class Chains:
    """The stacks of one table: frames one behind another, root first."""

    def __init__(self, session: NsysSession, table: str) -> None:
        # depth 0 is the innermost frame
        rows = session.rows(table, dict.fromkeys(("id", "symbol", "module", "stackDepth"), INTS))
        code, first = groups(rows.ints("symbol"), rows.ints("module"))
        symbols = texts(session.names(rows.ints("symbol")[first]))
        modules = texts(session.names(rows.ints("module")[first]))
        self.functions = [
            CallFrame(symbol or "[unknown]", module, 0)
            for symbol, module in zip(symbols, modules, strict=True)
        ]
        real = np.array([*(symbol not in _MARKERS for symbol in symbols), False])[code]
        code, number = code[real], rows.ints("id")[real]
        order = np.lexsort((-rows.ints("stackDepth")[real], number))
        # positions in `functions`
        self.frames = code[order]
        # in ascending order; where the frames of each stack lie in `frames`
        self.ids, self.begin, self.length = np.unique(number[order], return_index=True, return_counts=True)


def chain_stacks(session: NsysSession, table: str, ids: IntArray) -> IntArray | None:
    """Return the key of the stack of each call; None where the report has none of these stacks."""
    if table not in session.source.tables or not (ids > 0).any():
        return None
    chains = Chains(session, table)
    keys = [
        session.builder.stack([chains.functions[i] for i in frames])  # noqa: PD013
        for frames in np.split(chains.frames, chains.begin[1:])
    ]
    return np.asarray(np.array([*keys, -1], np.int64)[positions(chains.ids, ids)])


def add_stack_samples(session: NsysSession) -> None:
    """Put samples of threads into the builder, beside them."""
    # `sample_durations` decides how much time a sample represents: it is time on a processor.
    rows = session.rows(_SAMPLES, dict.fromkeys(("id", "start", "globalTid"), INTS))
    if not len(rows):
        return
    chains = Chains(session, _CHAINS)
    at = positions(chains.ids, rows.ints("id"))
    effect = "these samples have no stack, so they are left out"
    advice = "record with --sample and a --backtrace that this machine supports"
    missing = int((at < 0).sum())
    session.builder.report.add("sample-without-stack", "info", missing, effect=effect, advice=advice)
    thread, ts = rows.ints("globalTid")[at >= 0], rows.ints("start", 0)[at >= 0] + session.base
    at = at[at >= 0]
    tracks = session.threads(thread, "samples")
    for track in pd.unique(tracks).tolist():
        own = np.flatnonzero(tracks == track)
        own = own[np.argsort(ts[own], kind="stable")]
        begin, stack = ts[own], at[own]
        length = chains.length[stack]
        frames = chains.frames[consecutive(chains.begin[stack], length)]
        count_samples(session.builder, track, len(own))
        add_samples(
            session.builder, track, Sampled(begin, sample_durations(begin), frames, length), chains.functions
        )


# Calls of CUDA and its libraries, of the operating system, and of the profiler itself.

RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_BACKTRACE: Final = 67
"""Rows of this class hold the stack of a call. They are not calls."""
_LIBRARIES: Final = (28, 29)
"""Classes of events of cuDNN and cuBLAS."""
_OTHER_CALLS: Final = (
    ("OSRT_API", "OSRT_CALLCHAINS", "io", "system call"),
    ("PROFILER_OVERHEAD", "", "overhead", "profiler overhead"),
    ("CUPTI_ACTIVITY_KIND_OVERHEAD", "", "overhead", "profiler overhead"),
)
_STARTS_WORK: Final = re.compile(r"_*(?:cuda|cu|hip)\w*(?:Launch|Memcpy|Memset)")


def add_calls(session: NsysSession, work: NsysWork) -> None:
    """Put calls of CUDA into the builder, and arrows to what they launched."""
    # Of several calls with one number, as of a runtime call and the driver call inside it, the innermost has
    # the arrow. A call that launched no recorded work, and is not named like a launch, is overhead.
    columns = ("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "callchainId")
    rows = session.rows(RUNTIME, dict.fromkeys(columns, INTS))
    backtrace = rows.ints("eventClass") == _BACKTRACE
    chain = _chains(rows, backtrace)[~backtrace]
    rows = rows.where(~backtrace)
    names = session.names(rows.ints("nameId"))
    pid = pid_of(rows.ints("globalTid")) if (work.pid > 0).any() else np.zeros(len(rows), np.int64)
    owner, launches = launching_calls(rows, pid, work)
    category = np.where(launches | marked(names, _STARTS_WORK.match), 1, 0)
    category[np.isin(rows.ints("eventClass"), _LIBRARIES)] = 2
    category[marked(names, lambda name: "Synchronize" in name)] = 3
    stack = chain_stacks(session, "CUDA_CALLCHAINS", chain)
    words = ["overhead", "launch", "operator", "sync"]
    handle = _add(session, rows, names, Coded(category, words), "unknown call", stack)
    linked = owner >= 0
    if len(handle):
        session.builder.flows("launch", handle[owner[linked]], work.handle[linked])
    session.builder.report.unlaunched(int((~linked).sum()))


def add_other_calls(session: NsysSession) -> None:
    """Put calls of the operating system into the builder, and the overhead of the profiler and CUPTI."""
    for table, chains, category, default in _OTHER_CALLS:
        columns = ("start", "end", "globalTid", "nameId", "callchainId")
        rows = session.rows(table, dict.fromkeys(columns, INTS))
        if len(rows):
            stack = chain_stacks(session, chains, rows.ints("callchainId"))
            _add(session, rows, session.names(rows.ints("nameId")), category, default, stack)


def _add(
    session: NsysSession, rows: TableRows, names: Coded, category: Any, default: str, stack: IntArray | None
) -> IntArray:
    ts, dur = session.times(rows)
    is_open, until = rows.ints("end", MISSING) == MISSING, "kept until the end of the session"
    session.builder.report.add_where("unclosed-begin", "loss", is_open, lambda i: default, until)
    return session.builder.slices(
        ts=ts,
        dur=dur,
        track=session.threads(rows.ints("globalTid")),
        name=names.named(default),
        category=category,
        correlation=np.maximum(rows.ints("correlationId"), -1),
        stack=stack,
    )


def _chains(rows: TableRows, backtrace: BoolArray) -> IntArray:
    """Return the number of each call's stack, including those in separate rows."""
    chain = rows.ints("callchainId")
    if not backtrace.any():
        return chain
    key, _ = groups(rows.ints("globalTid"), rows.ints("correlationId"))
    of_key = np.full(int(key.max()) + 1, -1, np.int64)
    of_key[key[backtrace]] = chain[backtrace]
    return np.where(chain >= 0, chain, of_key[key])


def launching_calls(rows: TableRows, pid: IntArray, work: NsysWork) -> tuple[IntArray, BoolArray]:
    """Return the call that launched each piece of work, -1 for none, and which calls have any."""
    number = rows.ints("correlationId")
    key, _ = groups(np.concatenate([pid, work.pid]), np.concatenate([number, work.correlation]))
    of_call, of_work = key[: len(rows)], key[len(rows) :]
    # the innermost of several calls began last
    order = np.argsort(rows.ints("start", 0), kind="stable")
    at = positions(of_call[order], np.where(work.correlation >= 0, of_work, -1))
    return np.append(order, -1)[at], np.isin(of_call, of_work)
