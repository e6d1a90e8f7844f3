"""Chrome trace JSON in Kineto's dialect, for Perfetto and TensorBoard."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..atomic_files import Sink, atomic_gzip
from ..trace import Trace
from ..trace.arrays import optional
from ..trace.schema import TABLES
from .rows import counter_rows, flow_rows, ints, memory_rows, slice_rows, stack_frames, step_rows, track_rows


def write_chrome(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a Trace as Chrome trace JSON, compressed if the path ends in ``.gz``."""
    # Slices become complete events with Kineto's category names; times are microseconds with three decimals
    # relative to ``baseTimeNanoseconds``, so no nanosecond is lost. Streams, launches, counters, allocations
    # and collectives are written as Kineto writes them. Attributes that Kineto lacks (phase, step, module,
    # line) are in ``args``; call stacks are Chrome's ``stackFrames``. Steps that are not slices become
    # ``ProfilerStep#N`` on their own thread. `read_trace` reads the file as one of Kineto's; only ``.nbprof``
    # keeps everything.
    with atomic_gzip(path) as file:
        _write(trace, file)


def _write(trace: Trace, file: Sink) -> None:
    # other programs cannot read half a surrogate
    head = json.dumps(_head(trace), ensure_ascii=False)[:-1] + ', "traceEvents": [\n'
    file.write(head.encode(errors="replace"))
    parts = (track_rows, slice_rows, step_rows, flow_rows, counter_rows, memory_rows)
    before = ""
    for text in chain.from_iterable(rows(trace) for rows in parts):
        if text:
            file.write((before + text).encode())
            before = ",\n"
    file.write(b"\n]}\n")


def _head(trace: Trace) -> dict[str, Any]:
    top: dict[str, Any] = {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": int(trace.metadata.get("start_unix_ns", 0)),
        "deviceProperties": _devices(trace),
    }
    rank = trace.metadata.get("rank")
    if isinstance(rank, int):
        facts = {key: trace.metadata.get(key) for key in ("rank", "world_size", "backend")}
        top["distributedInfo"] = {key: value for key, value in facts.items() if value is not None}
    if len(trace.stacks):
        top["stackFrames"] = stack_frames(trace)
    return top


def _devices(trace: Trace) -> list[dict[str, Any]]:
    names = trace.metadata.get("devices") or ()
    numbers = trace.tracks["device"].dropna().unique()
    name_of = {i: str(name) for i, name in enumerate(names)} if isinstance(names, list | tuple) else {}
    return [
        {"id": int(n), "name": name_of.get(int(n), f"device {n}")} for n in np.sort(numbers) if int(n) >= 0
    ]


# The recordings of several ranks in one Chrome trace, on one clock.

_FIRST_PROCESS: Final = 1_000_000
_PROCESSES: Final = 1_000
_NO_PROCESS: Final = '"pid":999999'
_CORRELATIONS: Final = 32


def write_chrome_ranks(
    ranks: Iterable[tuple[int, Trace]], path: str | os.PathLike[str], *, base_unix_ns: int
) -> None:
    """Write several ranks, each with its number and on the common clock, as one Chrome trace."""
    # Each rank has its own processes, named ``rank 3 · process 812`` and ``rank 3 · GPU 0`` and sorted by
    # rank. Devices are renumbered; flows and correlations of different ranks never coincide. Call stacks and
    # the tables of the metadata are not written.
    devices = flows = 0
    with atomic_gzip(Path(path)) as file:
        top = {"schemaVersion": 1, "displayTimeUnit": "ns", "baseTimeNanoseconds": base_unix_ns}
        file.write((json.dumps(top)[:-1] + ', "traceEvents": [\n').encode())
        for rank, trace in ranks:
            placed, names = _placed(trace, rank, devices)
            own = f'"pid":{_FIRST_PROCESS + rank * _PROCESSES + _PROCESSES - 1}'
            rows = (slice_rows(placed), step_rows(placed), flow_rows(placed, flows))
            for text in chain([names], *rows, counter_rows(placed), memory_rows(placed)):
                if text:
                    file.write((text.replace(_NO_PROCESS, own) + ",\n").encode())
            devices = max([devices, *(ints(placed.tracks["device"]) + 1).tolist()])
            flows += len(trace.flows)
        # a last event, since every other one is followed by a comma
        file.write(b'{"ph":"M","name":"process_name","pid":"","tid":0,"args":{"name":""}}\n]}\n')


def _placed(trace: Trace, rank: int, first_device: int) -> tuple[Trace, str]:
    """Return the trace with processes and devices unique to this rank, and the rows that name them."""
    tables = {table.name: getattr(trace, table.name) for table in TABLES}
    tracks, slices = tables["tracks"], tables["slices"]
    on_device = (tracks["kind"] == "stream").to_numpy()
    device, pid = ints(tracks["device"]), ints(tracks["pid"])
    devices, processes = np.unique(device[on_device]), np.unique(pid[~on_device])
    first = _FIRST_PROCESS + rank * _PROCESSES
    pid[~on_device] = first + np.minimum(np.searchsorted(processes, pid[~on_device]), _PROCESSES - 2)
    pid[on_device] = first_device + np.searchsorted(devices, device[on_device])
    tables["tracks"] = tracks.assign(
        pid=optional(pid), device=optional(np.where(on_device, pid, -1), "Int16")
    )
    own, correlation = ints(slices["device"]), ints(slices["correlation"])
    at = np.searchsorted(devices, own)
    there = (own >= 0) & (at < len(devices))
    tables["slices"] = slices.assign(
        device=optional(np.where(there, first_device + at, -1), "Int16"),
        correlation=optional(np.where(correlation >= 0, correlation + (rank << _CORRELATIONS), -1)),
        stack=optional(np.full(len(own), -1)),  # all ranks would need a common list of call stacks
    )
    named = [(first + i, f"rank {rank} · process {pid}") for i, pid in enumerate(processes.tolist())]
    named += [(first_device + i, f"rank {rank} · GPU {d}") for i, d in enumerate(devices.tolist())]
    rows: list[dict[str, Any]] = []
    for process, name in named:
        head = {"ph": "M", "pid": process, "tid": 0}
        rows.append({**head, "name": "process_name", "args": {"name": name}})
        rows.append({**head, "name": "process_sort_index", "args": {"sort_index": rank}})
    chosen = tracks["kind"].isin(["thread", "process", "stream"])
    tid = np.where(on_device, ints(tracks["stream"]), ints(tracks["tid"]))
    for process, number, name in zip(pid[chosen], tid[chosen], tracks["name"][chosen], strict=True):
        head = {"ph": "M", "pid": int(process), "tid": int(number)}
        rows.append({**head, "name": "thread_name", "args": {"name": str(name)}})
    placed = Trace(tables, metadata=trace.metadata, report=trace.report, span=trace.span)
    return placed, ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
