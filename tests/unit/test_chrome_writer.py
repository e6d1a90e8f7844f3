"""Chrome trace JSON: what is written, and what of it opens again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from notebook_prof.analysis import phases, steps
from notebook_prof.readers import read_trace
from notebook_prof.trace import TraceBuilder
from notebook_prof.writers import write_chrome
from notebook_prof.writers.chrome import write_chrome_ranks

START = 1_795_000_000_123_456_789


@pytest.fixture
def trace():
    b = TraceBuilder(
        metadata={"source": "recording", "odd": np.int64(3), "nan": float("nan"), "path": Path("a")}
    )
    main = b.track("MainThread", pid=41, tid=42)
    stream = b.track("GPU 0 stream 7", "stream", device=0, stream=7)
    memory = b.track("process memory (RSS)", "counter", pid=41, unit="bytes")
    host = b.slices(
        ts=[START, START + 1, START + 5, START + 2_000_001], dur=[3_000_003, 100_000, 7, 0], track=main,
        name=["train", 'a "quoted" \\ näme\n', "cudaLaunchKernel", "mark"],
        category=["annotation", "operator", "launch", "annotation"], phase=["forward", None, None, None],
        shapes=[None, "[[2, 3], [3]]", None, None], correlation=[-1, -1, 9, -1],
    )  # fmt: skip
    net = b.slices(ts=START + 10, dur=3, track=main, name="net.0", category="module", module="net.0")
    kernel = b.slices(ts=START + 50_000, dur=12_345, track=stream, name="gemm", category="kernel",
                      correlation=9, device=0, stream=7)  # fmt: skip
    b.flows("launch", host[2], kernel)
    b.flows("fwdbwd", host[1], net)
    b.steps([3, 4], [START, START + 1_000_000], [900_000, 900_001], "loop")
    b.counter(memory, [START, START + 500], [1e9, np.inf])
    b.allocations(ts=[START + 20, START + 30], addr=[2**63, 7], bytes=[64, -64], device=[0, -1],
                  allocated=[64, 0], reserved=[128, 0], track=main)  # fmt: skip
    return b.seal()


def written(trace, path: Path) -> dict:
    write_chrome(trace, path)
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)


def test_it_is_json_with_exact_times(trace, tmp_path):
    file = written(trace, tmp_path / "t.json")
    assert file["baseTimeNanoseconds"] == START
    rows = {row["name"]: row for row in file["traceEvents"] if row["ph"] == "X"}
    assert (rows["train"]["ts"], rows["train"]["dur"]) == (0.0, 3000.003)
    assert rows["gemm"] | {"args": None} == {
        "ph": "X", "name": "gemm", "cat": "kernel", "pid": 0, "tid": 7, "ts": 50.0, "dur": 12.345,
        "args": None,
    }  # fmt: skip
    assert rows["gemm"]["args"] == {
        "category": "kernel", "step": 3, "correlation": 9, "device": 0, "stream": 7, "phase": "forward",
    }  # fmt: skip
    assert rows['a "quoted" \\ näme\n']["args"]["Input Dims"] == [[2, 3], [3]]
    assert rows["nn.Module#net.0"]["args"]["module"] == "net.0"
    assert rows["ProfilerStep#4"]["dur"] == 900.001
    assert not any("notebook_prof" in key for key in file)


def test_arrows_counters_memory_and_names(trace, tmp_path):
    rows = written(trace, tmp_path / "t.json")["traceEvents"]
    arrows = [(r["ph"], r["cat"], r["id"], r["ts"]) for r in rows if r["ph"] in "sf"]
    assert set(arrows) == {
        ("s", "ac2g", 0, 0.005), ("f", "ac2g", 0, 50.0), ("s", "fwdbwd", 1, 0.001), ("f", "fwdbwd", 1, 0.01),
    }  # fmt: skip
    assert [r["args"] for r in rows if r["ph"] == "C"] == [{"value": 1e9}]  # JSON has no infinity
    memory = [r["args"] for r in rows if r["name"] == "[memory]"]
    assert [m["Addr"] for m in memory] == [2**63, 7]
    assert [m["Device Type"] for m in memory] == [1, 0]
    names = {(r["pid"], r["tid"]): r["args"]["name"] for r in rows if r["name"] == "thread_name"}
    assert names[41, 42] == "MainThread"


def check_opened(trace, again):
    """What another program could tell of the fixture is there."""
    assert not again.report
    steps = again.slices["name"].astype(str).str.startswith("ProfilerStep#")
    for column in ("name", "ts", "dur", "category", "module", "correlation", "device", "stream"):
        own, opened = (part[column].astype(str).tolist() for part in (trace.slices, again.slices[~steps]))
        assert opened == own, column
    for table, columns in (("steps", "step ts dur"), ("allocations", "ts bytes device allocated reserved")):
        own, opened = (getattr(one, table)[columns.split()].values.tolist() for one in (trace, again))
        assert opened == own, table
    ends = again.flows.loc[again.flows["kind"] == "launch", ["src", "dst"]].to_numpy()[0]
    assert again.slices["name"].iloc[ends].tolist() == ["cudaLaunchKernel", "gemm"]


def test_it_opens_as_a_file_of_kineto(trace, tmp_path):
    write_chrome(trace, tmp_path / "t.json.gz")
    again = read_trace(tmp_path / "t.json.gz")
    check_opened(trace, again)
    assert again.metadata["source"] == "kineto"
    assert again.counters["value"].tolist() == [1e9]
    assert again.allocations["addr"].tolist() == [2**63, 7]


@pytest.mark.parametrize("name", ["cnn_sgd", "threads", "odd_names"])
def test_a_recording_has_the_same_times_when_it_is_opened_again(data, tmp_path, name):
    trace = read_trace(data / "torch213_cpu" / f"{name}.pt.trace.json.gz")
    write_chrome(trace, tmp_path / "t.json")
    again = read_trace(tmp_path / "t.json")
    for column in ("name", "category", "shapes", "ts", "dur", "self_ns", "step"):
        assert again.slices[column].astype(str).tolist() == trace.slices[column].astype(str).tolist(), column
    assert len(again.allocations) == len(trace.allocations)


def test_stacks_are_chromes_own(tmp_path):
    b = TraceBuilder()
    main = b.track("main", pid=1, tid=1)
    outer = b.stack([("run", "run.py", 3)])
    inner = b.stack([("<lambda>", "", -1)], above=outer)
    b.slices(ts=[0, 1, 2], dur=[9, 3, 1], name="f", track=main, stack=[outer, inner, -1])
    trace = b.seal()
    file = written(trace, tmp_path / "t.json")
    assert file["stackFrames"] == {
        "0": {"name": "run", "category": "run.py", "line": 3},
        "1": {"name": "<lambda>", "category": "", "parent": "0"},
    }
    assert [row.get("sf") for row in file["traceEvents"] if row["ph"] == "X"] == [0, 1, None]
    other = read_trace(tmp_path / "t.json", format="trace_event")
    assert other.stacks["name"].tolist() == ["run", "<lambda>"]
    assert other.slices["stack"].fillna(-1).tolist() == [0, 1, -1]


def test_a_step_that_ends_inside_a_slice_does_not_change_its_neighbours(tmp_path):
    """As optimizer hooks make them: the step is over before the optimizer's own slice is."""
    b = TraceBuilder()
    main = b.track("main", pid=1, tid=1)
    b.slices(ts=[0, 80, 130], dur=[60, 30, 20], track=main,
             name=["aten::mm", "Optimizer.step#SGD.step", "aten::mm"])  # fmt: skip
    b.steps([0, 1], [0, 100], [100, 100], "hook")
    write_chrome(b.seal(), tmp_path / "t.json")
    again = read_trace(tmp_path / "t.json")
    assert again.steps["ts"].tolist() == [0, 100]
    mm = again.slices[again.slices["name"] == "aten::mm"]
    assert mm["depth"].tolist() == [0, 0]
    assert mm["phase"].isna().all()


def test_empty_and_placeless_tracks(tmp_path):
    assert written(TraceBuilder().seal(), tmp_path / "e.json")["traceEvents"] == []
    b = TraceBuilder()
    for name in ("one", "two"):
        b.slices(ts=0, dur=5, name="mm", track=b.track(name))
    rows = [r for r in written(b.seal(), tmp_path / "p.json")["traceEvents"] if r["ph"] == "X"]
    assert len({(r["pid"], r["tid"]) for r in rows}) == 2


def test_ranks_have_no_list_of_stacks_and_do_not_point_into_one(tmp_path):
    b = TraceBuilder()
    leaf = b.stack([("run", "run.py", 3)])
    b.slices(ts=0, dur=9, name="f", track=b.track("main", pid=1, tid=1), stack=leaf)
    write_chrome_ranks([(0, b.seal())], tmp_path / "all.json", base_unix_ns=0)
    file = json.loads((tmp_path / "all.json").read_text())
    assert "stackFrames" not in file
    assert not any("sf" in row for row in file["traceEvents"])


@pytest.mark.parametrize("name", ["cnn_adam", "lm_adamw", "threads"])
def test_phases_and_arrows_come_back(data: Path, tmp_path: Path, name: str) -> None:
    """The exported sequence numbers pair forward and backward operators, as in PyTorch's files."""
    trace = read_trace(data / f"torch213_cpu/{name}.pt.trace.json.gz")
    write_chrome(trace, tmp_path / "t.json")
    again = read_trace(tmp_path / "t.json")
    assert phases(trace)["host_ns"].sum() > 0
    pd.testing.assert_frame_equal(phases(again), phases(trace))
    assert again.flows["kind"].value_counts().to_dict() == trace.flows["kind"].value_counts().to_dict()


def test_what_megengine_recorded_is_no_file_of_megengine_then(data: Path, tmp_path: Path) -> None:
    trace = read_trace(data / "megengine/dyn_sampled.chrome_timeline.json.gz")
    write_chrome(trace, tmp_path / "t.json")
    again = read_trace(tmp_path / "t.json")
    assert again.metadata["source"] == "kineto"
    pd.testing.assert_frame_equal(steps(again)[["step", "dur"]], steps(trace)[["step", "dur"]])


def test_slices_of_ranks_lie_in_named_threads(tmp_path):
    b = TraceBuilder()
    for track in (b.track("worker"), b.track("main", pid=4, tid=5)):
        b.slices(ts=[0], dur=[5], name=["mm"], category=["operator"], track=track)
    trace = b.seal()
    write_chrome_ranks([(0, trace), (1, trace)], tmp_path / "all.json", base_unix_ns=0)
    rows = json.loads((tmp_path / "all.json").read_text())["traceEvents"]
    names = {(r["pid"], r["tid"]): r["args"]["name"] for r in rows if r["name"] == "thread_name"}
    assert [names[r["pid"], r["tid"]] for r in rows if r["ph"] == "X"] == ["worker", "main"] * 2
