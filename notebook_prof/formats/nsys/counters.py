"""Values over time: GPU metrics, threads on processors, memory of devices; and the profiler's warnings."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...readers.codec.columns import FLOATS, INTS, MISSING, TEXTS, Kind
from ...readers.codec.rows import groups, texts_in
from ...trace.arrays import IntArray
from .session import Session, pid_of

_ON_DEVICE: Final = (2, 3, 4, 5, 6)
"""Kinds of memory: of a device, its arrays, managed and static; 0 and 1 are the host's."""
_WARNING: Final = 2


def add_gpu_metrics(session: Session) -> None:
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
    kind, metric = rows.ints("typeId"), rows.ints("metricId")
    value, ts = rows.floats("value"), rows.ints("timestamp", 0) + session.base
    code, first = groups(kind, metric)
    for number, i in enumerate(first.tolist()):
        key = (int(kind[i]), int(metric[i]))
        name = names.get(key) or f"metric {key[1]}"
        device = key[0] & 0xFF
        share = "%" in name
        track = session.builder.track(
            f"GPU {device} {name.split(' [')[0]}", "counter", device=device, unit="1" if share else ""
        )
        own = (code == number) & ~np.isnan(value)
        session.builder.counter(track, ts[own], value[own] / (100 if share else 1))


def add_network(session: Session) -> None:
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
    code, first = groups(*(rows.ints(column) for column in columns[1:]))
    value, ts = rows.floats("value"), rows.ints("start", 0) + session.base
    many_ports = len(np.unique(rows.ints("portId"))) > 1
    for number, i in enumerate(first.tolist()):
        card, port, group, index = (int(rows.ints(column)[i]) for column in columns[1:])
        name, unit = metrics.get((group, index)) or (f"metric {index}", "")
        where = card_names.get(card_of.get(card, -1)) or f"NIC {card_of.get(card, card)}"
        where = f"{where} port {port}" if many_ports else where
        track = session.builder.track(f"{where} {name}", "counter", unit=unit)
        own = (code == number) & ~np.isnan(value)
        session.builder.counter(track, ts[own], value[own])


def add_page_faults(session: Session) -> None:
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


def _count(session: Session, track: int, start: IntArray, number: IntArray) -> None:
    order = np.argsort(start, kind="stable")
    session.builder.counter(track, start[order] + session.base, np.cumsum(number[order]))


def add_scheduling(session: Session) -> None:
    """Put into the builder how many threads of each process were on a processor."""
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


def add_memory(session: Session) -> None:
    """Put what was allocated and freed with CUDA into the builder."""
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
    session.builder.allocations(
        ts=ts[order],
        addr=rows.ints("address", 0)[order].view(np.uint64),
        bytes=size[order],
        device=device[order],
        allocated=total,
        reserved=total,
    )


def _totals(device: IntArray, size: IntArray) -> IntArray:
    """Return the running total of each device; what was there before makes up for what is missing."""
    total = np.empty(len(size), np.int64)
    for number in np.unique(device):
        own = device == number
        running = np.cumsum(size[own])
        total[own] = running + max(0, -int(running.min()))
    return total


def report_diagnostics(session: Session) -> None:
    """Tell what the profiler itself warned of, the gravest first."""
    rows = session.rows("DIAGNOSTIC_EVENT", {"severity": INTS, "text": TEXTS})
    text = rows.texts("text")
    if text is None:
        return
    table = pd.DataFrame({"severity": rows.ints("severity", MISSING), "text": texts_in(text)})
    grave = table[table["severity"] >= _WARNING].sort_values("severity", ascending=False, kind="stable")
    session.builder.report.add(
        "nsight-warning",
        "info",
        len(grave),
        example=" ".join(str(grave["text"].iloc[0]).split())[:160] if len(grave) else "",
        effect="Nsight Systems warned while it recorded: what it names may be missing",
        advice="look at Diagnostics in Nsight Systems",
    )
