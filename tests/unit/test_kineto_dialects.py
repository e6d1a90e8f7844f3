"""What the eras and vendors of PyTorch's files tell, each in its own spelling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace
from tests.unit.test_kineto_reader import names, op, write

KERNEL = {"device": 1, "stream": 7, "correlation": 3, "grid": [40, 1, 1], "block": [128, 1, 1]}
KERNEL |= {"registers per thread": 32, "shared memory": 1024, "est. achieved occupancy %": 12}
KERNEL |= {"blocks per SM": 0.5, "warps per SM": 2.0}


def row(phase: str, name: str, ts: Any, **more: Any) -> str:
    return json.dumps({"ph": phase, "name": name, "pid": 5, "tid": 7, "ts": ts, **more})


def table(trace: Trace, name: str) -> pd.DataFrame:
    frame = trace.metadata["tables"][name]
    assert isinstance(frame, pd.DataFrame)
    return frame


def test_launch_attributes_are_kept_beside_the_slices(tmp_path: Path) -> None:
    rows = (
        op("cudaLaunchKernel", "1", "1", cat="cuda_runtime", correlation=3),
        op("gemm", "10", "5", tid=7, cat="kernel", **KERNEL),
        op("Memcpy HtoD", "20", "5", tid=7, cat="gpu_memcpy", correlation=4, device=1, stream=7, bytes=4096),
        op("gemm", "30", "5", tid=7, cat="kernel", **{**KERNEL, "correlation": 5}),
    )
    trace = read_trace(write(tmp_path, *rows))
    events = table(trace, "device_events")
    kernels = trace.slices[trace.slices["device"].notna()]
    assert (events["start_unix_ns"] - trace.metadata["start_unix_ns"]).tolist() == kernels["ts"].tolist()
    assert events["grid"].astype(object).tolist()[::2] == ["[40, 1, 1]"] * 2
    assert events["occupancy"].tolist()[::2] == [0.12] * 2
    assert events["registers_per_thread"].tolist()[::2] == [32] * 2
    assert events["bytes"].tolist()[1] == 4096
    assert events[["device", "stream"]].values.tolist() == [[1, 7]] * 3


def test_collectives_tell_what_they_exchange_on_both_sides(tmp_path: Path) -> None:
    group = {"Group size": 2, "Process Group Name": "0", "Process Group Ranks": [0, 1]}
    sizes = {"In msg nelems": 100, "Out msg nelems": 100, "dtype": "Float"}
    exchanged = {"Collective name": "allreduce", **sizes, **group}
    rows = (
        op("record_param_comms", "1", "5", **exchanged),
        op("cudaLaunchKernel", "2", "1", cat="cuda_runtime", correlation=3),
        op("ncclDevKernel_AllReduce", "10", "5", cat="kernel", **{**KERNEL, **exchanged}),
    )
    collectives = table(read_trace(write(tmp_path, *rows)), "collectives")
    assert collectives["device"].tolist() == [-1, 1]
    assert collectives["operation"].astype(object).tolist() == ["allreduce"] * 2
    assert collectives["group_ranks"].astype(object).tolist() == ["[0, 1]"] * 2
    assert collectives[["in_elements", "out_elements", "group_size"]].values.tolist() == [[100, 100, 2]] * 2


def test_stacks_and_modules_of_old_files(tmp_path: Path) -> None:
    stack = "nn/linear.py(7): forward;train.py(3): main"
    old = {
        "Call stack": stack,
        "Module Hierarchy": "TOP(Net)::forward.fc(Linear)::forward",
        "Input dims": [[2, 3]],
    }
    rows = (op("aten::mm", "1", "5", cat="Operator", **old), op("aten::add", "10", "5", cat="Operator"))
    trace = read_trace(write(tmp_path, *rows))
    assert trace.stacks[["name", "file", "line"]].values.tolist() == [
        ["main", "train.py", 3],
        ["forward", "nn/linear.py", 7],
    ]
    assert trace.slices["stack"].tolist()[0] == 1
    assert trace.slices["stack"].isna().tolist() == [False, True]
    assert trace.slices["module"].astype(object).tolist()[0] == "fc"
    assert trace.slices["shapes"].astype(object).tolist()[0] == "[[2, 3]]"


def test_rewritten_files_have_beginnings_ends_and_marks(tmp_path: Path) -> None:
    rows = (
        row("B", "outer", 1, cat="cpu_op"),
        row("B", "inner", 2, cat="cpu_op"),
        row("E", "", 3),
        row("E", "", 6.5),
        row("E", "", 7),
        row("B", "open", 8, cat="user_annotation"),
        row("i", "a mark", 9, s="t"),
        row("i", "Iteration Start: PyTorch Profiler", 0),
        op("last", "10", "2"),
    )
    trace = read_trace(write(tmp_path, *rows))
    slices = trace.slices.set_index(trace.slices["name"].astype(str))[["ts", "dur", "depth"]]
    assert slices.loc[["outer", "inner", "open", "a mark", "last"]].values.tolist() == [
        [0, 5500, 0],
        [1000, 1000, 1],
        [7000, 4000, 0],
        [8000, 0, 1],
        [9000, 2000, 1],
    ]
    codes = {issue.code: issue.count for issue in trace.report}
    assert codes == {"unclosed-begin": 1, "end-without-begin": 1}


def test_counters_of_devices(tmp_path: Path) -> None:
    rows = [
        json.dumps(
            {"ph": "C", "name": "GPU Utilization", "pid": 1, "ts": ts, "args": {"GPU Utilization": value}}
        )
        for ts, value in ((1, 0.5), (2, 1.0))
    ]
    rows.append(row("C", "memory", 3, args={"used": 10, "free": 20, "text": "x"}))
    trace = read_trace(write(tmp_path, *rows))
    tracks = trace.tracks.set_index("track")
    assert sorted(tracks["name"]) == ["GPU Utilization", "memory free", "memory used"]
    use = tracks.index[tracks["name"] == "GPU Utilization"][0]
    assert tracks.loc[use, ["device", "unit"]].tolist() == [1, "1"]
    assert trace.counters.loc[trace.counters["track"] == use, "value"].tolist() == [0.5, 1.0]


def test_mtia_and_other_new_devices(tmp_path: Path) -> None:
    rows = (
        op("mtia launch", "1", "1", cat="mtia_runtime", correlation=3, device=0),
        op("matmul", "10", "5", cat="mtia_ccp_events", correlation=3, device=0, stream=4),
        op("copy", "12", "5", cat="mtia_ccp_events", correlation=3, device=0, stream=5),
        op("something", "20", "5", cat="dream_kernel", correlation=9, device=2, stream=5),
    )
    trace = read_trace(write(tmp_path, *rows))
    assert len(trace.flows) == 2
    assert trace.slices["category"].astype(object).tolist() == ["launch", "kernel", "kernel", "kernel"]
    assert trace.tracks["name"].tolist()[1:] == ["GPU 0 stream 4", "GPU 0 stream 5", "GPU 2 stream 5"]
    assert "dream_kernel" in trace.report["unknown-category"].example


def test_an_external_id_that_repeats_the_correlation_names_no_operator(tmp_path: Path) -> None:
    rows = (
        op("aten::wrong", "1", "5", **{"External id": 3}),
        op("aten::right", "10", "5", **{"External id": 1}),
        op("cudaLaunchKernel", "11", "1", cat="cuda_runtime", correlation=3, **{"External id": 3}),
        op("gemm", "30", "5", cat="kernel", **{**KERNEL, "External id": 3}),
    )
    trace = read_trace(write(tmp_path, *rows))
    launch = trace.flows["src"].iloc[0]
    assert trace.slices["name"][trace.slices["parent"][launch]] == "aten::right"


@pytest.mark.parametrize(
    ("info", "file", "rank"),
    [
        ({"rank": 3, "world_size": 8, "backend": "nccl"}, "x.json", 3),
        ({"backend": "nccl"}, "worker5_step_12.json", 5),
        ({"backend": "nccl"}, "rank-34.Jul.json", 34),
        ({"rank": 1 << 40}, "x.json", None),
        ({"rank": "two"}, "x.json", None),
        (None, "rank-1.json", None),
    ],
)
def test_the_rank_is_reported_or_named(tmp_path: Path, info: Any, file: str, rank: int | None) -> None:
    path = write(
        tmp_path, op("a", "1", "1"), head=f'"schemaVersion": 1, "distributedInfo": {json.dumps(info)}'
    )
    trace = read_trace(path.rename(tmp_path / file))
    assert trace.metadata.get("rank") == rank
    assert trace.tracks["rank"].dropna().tolist() == ([] if rank is None else [rank])


def test_numbers_out_of_all_bounds(tmp_path: Path) -> None:
    rows = (
        op("a", "1", "1", tid=2**64 - 1, **{"Sequence number": 2**63}),
        op("b", "2", "1", cat="kernel", tid=10**30, device=10**9, stream=2**64 - 5, correlation=2**64 - 1),
        row("i", "[memory]", 3, args={"Addr": 2**64 - 1, "Bytes": 8, "Device Id": 10**6}),
        row("C", "c", 4, args={"x": 1}).replace('"pid": 5', '"pid": 999999'),
    )
    trace = read_trace(write(tmp_path, *rows))
    assert sorted(names(trace)) == ["a", "b"]
    assert len(trace.allocations) == len(trace.counters) == 1


def test_a_wait_tells_what_it_waits_for(shared_traces: Path) -> None:
    path = shared_traces / "hta" / "critical_path" / "event_sync_multi_stream" / "event_sync_trace.json.gz"
    table = read_trace(path).metadata["tables"]["device_events"]
    waits = table[table["sync_kind"].notna()]
    assert sorted(waits["wait_on_event"].dropna().tolist()) == [9, 9, 9, 19]
    assert sorted(waits["wait_on_correlation"].dropna().tolist()) == [-1, 32, 62, 1385]
    assert sorted(waits["wait_on_stream"].dropna().tolist()) == [-1, 20, 20, 28]
