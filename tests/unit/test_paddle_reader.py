"""The reader of Paddle's files, piece by piece."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from notebook_prof.formats.paddle.chrome import settle
from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace

T0 = 1_795_248_387_603_457


def event(name: str, cat: str, ts: int, dur: float, tid: Any = "9(C++)", **args: Any) -> dict[str, Any]:
    return {"name": f"{name}[{dur:.3f} us]", "pid": 9, "tid": tid, "ts": T0 + ts, "dur": dur, "ph": "X",
            "cat": cat, "args": args}  # fmt: skip


def write(folder: Path, *events: dict[str, Any], **head: Any) -> Path:
    path = folder / "w_time_2026.paddle_trace.json"
    path.write_text(json.dumps({"schemaVersion": "1.0.1", **head, "traceEvents": [*events, {}]}))
    return path


def test_threads_of_both_languages_are_one_track(tmp_path: Path) -> None:
    trace = read_trace(write(
        tmp_path,
        event("ProfileStep#7", "ProfileStep", 0, 100.0, "9(Python)"),
        event("relu dygraph", "Operator", 10, 20.5),
        ExtraInfo={"9": "MainThread", "Process Cpu Utilization": "1.5"},
        span_index="2",
    ))  # fmt: skip
    assert trace.tracks["name"].tolist() == ["MainThread"]
    assert trace.slices["name"].astype(str).tolist() == ["ProfileStep#7", "relu dygraph"]
    assert trace.slices["step"].tolist() == [7, 7]
    assert (trace.metadata["span"], trace.metadata["process_cpu_utilization"]) == (2, 1.5)


def test_neighbours_within_a_microsecond_do_not_nest(tmp_path: Path) -> None:
    trace = read_trace(write(
        tmp_path,
        event("op", "Operator", 10, 8.9),
        event("a", "OperatorInner", 10, 5.5),  # truly 10.2 to 15.7
        event("b", "OperatorInner", 15, 3.0),  # truly 15.8 to 18.8
    ))  # fmt: skip
    assert trace.slices["depth"].tolist() == [0, 1, 1]
    assert trace.slices["dur"].tolist() == [8900, 5500, 3000]


def test_settled_starts_stay_in_their_microsecond() -> None:
    rng = np.random.default_rng(3)
    ts = np.sort(rng.integers(0, 200, 400)) * 1000
    rows = pd.DataFrame({"ts": ts, "dur": rng.integers(0, 4000, 400), "tid": rng.integers(0, 2, 400)})
    rows = rows.assign(device=-1, type="Operator")
    settle(rows, np.full(400, -1))
    moved = rows["ts"].to_numpy() - ts
    assert moved.min() >= 0
    assert moved.max() < 1000


def test_devices_memory_and_copies(tmp_path: Path) -> None:
    device = {"device": 1, "stream": 7, "correlation id": 5}
    trace = read_trace(write(
        tmp_path,
        event("Gradient Backward", "Backward", 0, 90.0, "9(Python)"),
        event("cudaLaunchKernel", "CudaRuntime", 10, 2.0, **{"correlation id": 5}),
        {**event("ncclKernel", "Kernel", 40, 30.0, 7, grid=[4, 1, 1], **device,
                 **{"theoretical achieved occupancy %": 25.0}), "pid": 1},
        {"name": "[memory]", "pid": 9, "tid": "9(C++)", "ts": T0 + 20, "ph": "i", "cat": "Allocate",
         "args": {"place": "Place(gpu:1)", "addr": "18446744073709551615", "increase_bytes": 64,
                  "current_allocated": 64, "current_reserved": 128}},
        {"name": "[memory]", "pid": 9, "tid": "9(C++)", "ts": T0 + 20, "ph": "i", "cat": "ReservedAllocate",
         "args": {"place": "Place(gpu:1)", "addr": "4", "increase_bytes": 128}},
    ))  # fmt: skip
    kernel = trace.slices[trace.slices["device"].notna()].iloc[0]
    assert (kernel["category"], kernel["phase"], kernel["device"]) == ("collective", "backward", 1)
    assert len(trace.flows) == 1
    assert trace.allocations["addr"].tolist() == [2**64 - 1]
    assert trace.allocations[["bytes", "reserved"]].values.tolist() == [[64, 128]]
    tables = trace.metadata["tables"]
    assert tables["reserved_events"]["bytes"].tolist() == [128]
    assert tables["device_events"][["grid", "occupancy"]].values.tolist() == [["[4, 1, 1]", 0.25]]


def test_what_cannot_be_used_is_counted(tmp_path: Path) -> None:
    good = event("relu", "Operator", 0, 1.0)
    trace = read_trace(
        write(tmp_path, good, {**good, "ts": "soon"}, {**good, "cat": "New"}, {**good, "ph": "b"})
    )
    codes = {issue.code: issue.count for issue in trace.report}
    assert codes == {"broken-row": 1, "unknown-category": 1, "row-not-used": 1}
    assert len(trace.slices) == 2


def test_cut_files_give_what_is_there(data: Path, tmp_path: Path) -> None:
    for name in ("v331_static.json", "v331_static.pb"):
        raw = gzip.decompress((data / "paddle" / f"{name}.gz").read_bytes())
        (tmp_path / name).write_bytes(raw[: len(raw) * 3 // 4])
        trace: Trace = read_trace(tmp_path / name)
        assert "truncated-file" in trace.report
        assert len(trace.slices) > 100
