"""Chrome trace JSON: what is written, and that it comes back."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof.errors import NotebookProfError
from notebook_prof.readers import read_trace
from notebook_prof.testing import strategies
from notebook_prof.trace import TABLES, Trace, TraceBuilder
from notebook_prof.writers import write_chrome
from notebook_prof.writers.chrome_ranks import Shifted, write_chrome_ranks
from tests.frames import differences
from tests.round_trip import changes

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
    assert file["notebook_prof"] == {
        "source": "recording", "odd": 3, "nan": None, "path": "a", "start_unix_ns": START,
    }  # fmt: skip


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


def same(trace: Trace, again: Trace, but: tuple[str, ...] = ()) -> None:
    for table in TABLES:
        if table.name not in but:
            ours, theirs = getattr(trace, table.name), getattr(again, table.name)
            assert len(ours) == len(theirs), table.name
            assert differences(ours, theirs).empty, table.name


def test_it_comes_back(trace, tmp_path):
    write_chrome(trace, tmp_path / "t.json.gz")
    again = read_trace(tmp_path / "t.json.gz")
    same(trace, again)
    assert again.counters["value"].tolist() == [1e9, np.inf]
    assert again.metadata["start_unix_ns"] == START
    assert again.metadata["source"] == "recording"
    assert not again.report


@given(strategies.traces())
def test_any_trace_comes_back(tmp_path_factory, trace):
    path = tmp_path_factory.mktemp("t") / "t.json"
    write_chrome(trace, path)
    assert changes(trace, read_trace(path)) == []


@pytest.mark.parametrize("name", ["cnn_sgd", "threads", "odd_names"])
def test_a_recording_comes_back(data, tmp_path, name):
    trace = read_trace(data / "torch213_cpu" / f"{name}.pt.trace.json.gz")
    write_chrome(trace, tmp_path / "t.json")
    again = read_trace(tmp_path / "t.json")
    assert changes(trace, again) == []
    assert len(again.flows) == len(trace.flows)


def test_a_trace_with_a_device_comes_back(shared_traces, tmp_path):
    for name in ("kineto_2021/gpu_metrics_expected.json", "hta/triton_example/triton_example.json.gz"):
        trace = read_trace(shared_traces / name)
        write_chrome(trace, tmp_path / "t.json")
        assert changes(trace, read_trace(tmp_path / "t.json")) == []


def test_tables_of_every_kind_come_back(tmp_path):
    words = pd.Categorical(["b", None, "a"], categories=["a", "b", "never"])
    table = pd.DataFrame(
        {
            "words": words, "int": np.array([1, -2, 3], np.int16), "big": np.array([2**63, 0, 1], np.uint64),
            "float": [1.5, np.nan, -np.inf], "flag": [True, False, True], "text": ["x", None, "é"],
            "maybe": pd.array([1, None, 3], dtype="Int64"), "any": [[1, 2], {"a": (3,)}, None],
            "when": pd.to_datetime(["2026-01-01", None, "2026-01-02"]),
        }
    )  # fmt: skip
    tables = {
        "odd": table,
        "none": table[:0],
        "aliases": {"a": "b", "shape": (2, 3)},
        "later": table[["int"]],
    }
    b = TraceBuilder(metadata={"tables": tables})
    b.report.add("row-not-used", "loss", 7, "the first", "left out", "nothing")
    trace = b.seal()
    write_chrome(trace, tmp_path / "t.json")
    again = read_trace(tmp_path / "t.json")
    read = again.metadata["tables"]
    assert changes(trace, again) == []
    assert read["aliases"] == tables["aliases"]
    assert read["odd"]["any"].tolist() == [[1, 2], {"a": (3,)}, None]
    assert again.report["row-not-used"].count == 7
    assert read["odd"]["words"].cat.categories.tolist() == ["a", "b", "never"]


def test_a_table_that_is_damaged_is_reported(trace, tmp_path):
    tables = {"a": pd.DataFrame({"n": [1]}), "b": pd.DataFrame({"n": [2]})}
    part = TraceBuilder(metadata={"tables": tables}).seal()
    text = json.dumps(written(part, tmp_path / "t.json"))
    for right, wrong in (('"int64"', '"evil"'), ("[1]", '["x"]'), ("[1]", "[null]")):
        assert right in text
        (tmp_path / "b.json").write_text(text.replace(right, wrong, 1))
        again = read_trace(tmp_path / "b.json")
        assert list(again.metadata["tables"]) == ["b"], wrong
        assert again.report["broken-table"].count == 1


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
    assert changes(trace, read_trace(tmp_path / "t.json")) == []
    # also for those who do not know our tables
    other = read_trace(tmp_path / "t.json", format="trace_event")
    assert other.stacks["name"].tolist() == ["run", "<lambda>"]
    assert other.slices["stack"].fillna(-1).tolist() == [0, 1, -1]


def test_damage_costs_rows_and_links_not_the_file(trace, tmp_path):
    write_chrome(trace, tmp_path / "t.json")
    text = (tmp_path / "t.json").read_text()
    (tmp_path / "t.json").write_text(text.replace('"ph":"X","name":"gemm"', '"ph":"X","name":3', 1))
    again = read_trace(tmp_path / "t.json")
    assert len(again.slices) == len(trace.slices) - 1
    assert {issue.code: issue.count for issue in again.report if issue.severity == "loss"} == {
        "broken-row": 1, "arrow-without-slice": 2,
    }  # fmt: skip
    (tmp_path / "t.json").write_text(text[: text.index('"ph":"C"')])
    again = read_trace(tmp_path / "t.json")
    assert len(again.slices) == len(trace.slices)
    assert "truncated-file" in again.report


@given(st.data())
def test_mutated_files_are_read_or_refused(tmp_path_factory, trace, data):
    path = tmp_path_factory.mktemp("t") / "t.json"
    write_chrome(trace, path)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 9))] = data.draw(
            st.sampled_from([b"", b"9" * 25, b"-", b'"', b"}", b"null", b"1e400", b"\x00", b"[]"])
        )
    path.write_bytes(raw)
    with contextlib.suppress(NotebookProfError):
        assert isinstance(read_trace(path, format="chrome"), Trace)


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


def test_the_same_trace_gives_the_same_bytes(trace, tmp_path):
    for name in ("a.json.gz", "b.json.gz"):
        write_chrome(trace, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_empty_and_placeless_tracks(tmp_path):
    assert written(TraceBuilder().seal(), tmp_path / "e.json")["traceEvents"] == []
    b = TraceBuilder()
    for name in ("one", "two"):
        b.slices(ts=0, dur=5, name="mm", track=b.track(name))
    rows = [r for r in written(b.seal(), tmp_path / "p.json")["traceEvents"] if r["ph"] == "X"]
    assert len({(r["pid"], r["tid"]) for r in rows}) == 2


def test_many_rows_are_written_in_chunks(tmp_path):
    n = 150_000
    b = TraceBuilder()
    b.slices(ts=np.arange(n) * 10 + START, dur=np.full(n, 7), name="mm", track=b.track("main", pid=1, tid=1))
    rows = written(b.seal(), tmp_path / "m.json")["traceEvents"]
    assert sum(row["ph"] == "X" for row in rows) == n


def test_ranks_have_no_list_of_stacks_and_do_not_point_into_one(tmp_path):
    b = TraceBuilder()
    leaf = b.stack([("run", "run.py", 3)])
    b.slices(ts=0, dur=9, name="f", track=b.track("main", pid=1, tid=1), stack=leaf)
    write_chrome_ranks([Shifted(0, b.seal(), 0)], tmp_path / "all.json", base_unix_ns=0)
    file = json.loads((tmp_path / "all.json").read_text())
    assert "stackFrames" not in file
    assert not any("sf" in row for row in file["traceEvents"])
