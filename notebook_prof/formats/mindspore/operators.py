"""Executions of operators from the files that are exact: host times and device times."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace.report import ImportReport
from ...trace.strings import Coded
from .shapes import distinct_parts, executed_shapes, is_collective
from .staging import Staging, ns_of
from .texts import csv_frame

_MS: Final = 1e6


def host_executions(data: bytes, report: ImportReport) -> pd.DataFrame:
    """Read executions on the host, by line and time, from ``cpu_op_execute_timestamp_<id>.txt``."""
    # A line is `<full name>;HostCpuOps;<start ns>,<ms>,<thread> <start ns>,<ms>,<thread> …`.
    lines = pd.Series(data.decode(errors="replace").splitlines(), dtype="object")
    lines = lines[lines.str.strip() != ""]
    parts = lines.str.split(";", n=2, expand=True).reindex(columns=range(3))
    report.add_where(
        "broken-row",
        "loss",
        parts[2].isna().to_numpy(),
        lambda i: lines.iloc[i],
        "these lines are left out",
    )
    parts = parts[parts[2].notna()]
    runs = parts[2].str.split().explode().dropna()
    fields = runs.str.split(",", n=3, expand=True).reindex(columns=range(3))
    table = pd.DataFrame({"full": parts[0].reindex(runs.index).to_numpy()})
    return _timed(table, fields, 1.0, report)


def device_executions(data: bytes, report: ImportReport) -> pd.DataFrame:
    """Read executions on the device, from ``output_timeline_data_<id>.txt``: as `host_executions`."""
    frame = csv_frame(data, report)
    if frame.shape[1] < 4:
        return pd.DataFrame({"full": [], "ts": [], "dur": [], "lane": []}).astype({"full": "object"})
    fields = frame.iloc[:, [2, 3, 1]]
    fields.columns = range(3)
    return _timed(pd.DataFrame({"full": frame.iloc[:, 0].to_numpy(dtype=object)}), fields, _MS, report)


def _timed(
    table: pd.DataFrame, fields: pd.DataFrame, start_unit: float, report: ImportReport
) -> pd.DataFrame:
    ts, timed = ns_of(fields[0], start_unit)
    dur, lasting = ns_of(fields[1], _MS)
    lane, _ = ns_of(fields[2], 1.0)
    good = timed & lasting & (dur >= 0)
    report.add_where(
        "broken-row", "loss", ~good, lambda i: fields.iloc[i].tolist(), "these executions are left out"
    )
    return table.assign(ts=ts, dur=dur, lane=lane)[good].reset_index(drop=True)


def stage_host(runs: pd.DataFrame, framework: bytes, staging: Staging, rank: int) -> None:
    """Put host executions into `staging`: operators on threads, with shapes, modules and phases."""
    name, phase, module = described(runs["full"])
    short = [name.values[code] for code in name.codes]
    shapes = executed_shapes(framework, short, runs["ts"].to_numpy(), staging.builder.report)
    ts, dur, lane = (runs[column].to_numpy() for column in ("ts", "dur", "lane"))
    clock = clock_of(ts)

    def emit(shift: int) -> None:
        builder = staging.builder
        codes, tids = pd.factorize(lane)
        keys = [
            builder.track(f"host operators {t}", pid=rank, tid=int(t), rank=staging.tag(rank)) for t in tids
        ]
        builder.slices(
            ts=ts + shift,
            dur=dur,
            track=np.array(keys)[codes],
            name=name,
            phase=phase,
            module=module,
            shapes=shapes,
        )

    staging.at(clock, ts, ts + dur, emit)


def stage_device(runs: pd.DataFrame, shapes: dict[str, str], staging: Staging, rank: int) -> None:
    """Put device executions into `staging`: kernels and collectives on streams."""
    name, phase, module = described(runs["full"])
    kinds = [("collective" if is_collective(text) else "kernel") for text in name.values]
    ts, dur, lane = (runs[column].to_numpy() for column in ("ts", "dur", "lane"))

    def emit(shift: int) -> None:
        codes, streams = pd.factorize(lane)
        keys = [stream_track(staging, rank, int(stream)) for stream in streams]
        staging.builder.slices(
            ts=ts + shift,
            dur=dur,
            track=np.array(keys)[codes],
            name=name,
            category=Coded(name.codes, kinds),
            phase=phase,
            module=module,
            shapes=runs["full"].map(shapes) if shapes else None,
            device=rank,
            stream=lane,
        )

    staging.at("device", ts, ts + dur, emit)


def stream_track(staging: Staging, rank: int, stream: int) -> int:
    """Return the track of a stream of the device with the number of the rank."""
    name = f"NPU {rank} stream {stream}"
    return staging.builder.track(name, "stream", device=rank, stream=stream, rank=staging.tag(rank))


def described(fulls: pd.Series) -> tuple[Coded, Coded, Coded]:
    """Return the short name, phase and module of a column of full names."""
    codes, distinct = pd.factorize(fulls)
    parts = distinct_parts([str(full) for full in distinct])
    return (
        Coded(codes, [part.name for part in parts]),
        _optional(codes, [part.phase or "" for part in parts]),
        _optional(codes, [part.module for part in parts]),
    )


def clock_of(ts: npt.NDArray[np.int64]) -> str:
    """Return ``unix`` for times after 2001, else ``host``: MindSpore 2.0 writes a monotonic clock."""
    return "unix" if len(ts) and int(ts.min()) > 10**18 else "host"


def _optional(codes: npt.NDArray[np.int64], values: list[str]) -> Coded:
    kept = {value: i for i, value in enumerate(dict.fromkeys(value for value in values if value))}
    lookup = np.array([kept.get(value, -1) for value in values] + [-1], np.int64)
    return Coded(lookup[codes], list(kept))
