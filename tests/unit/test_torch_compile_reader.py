"""Folders of TORCH_TRACE: what was compiled, as in a live recording, and a lane of what the compiler did."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.errors import FormatError
from notebook_prof.formats.torch import TorchCompileReader
from notebook_prof.trace import TraceBuilder

from ..new_process import run_python

NAME = "dedicated_log_torch_trace_sample.log"


@pytest.fixture(scope="module")
def log(data: Path) -> bytes:
    return gzip.decompress((data / "torch_compile" / f"{NAME}.gz").read_bytes())


def opened(folder: Path, content: bytes, name: str = NAME) -> nbp.Profile:
    (folder / name).write_bytes(content)
    return nbp.open_profile(folder / name)


def metrics_of(log: bytes) -> list[dict[str, object]]:
    """The records of compilations, read without the reader."""
    lines = [line for line in log.decode().splitlines() if 'compilation_metrics": {' in line]
    records = [json.loads(line[line.index("] {") + 2 :]) for line in lines]
    return [record.get("compilation_metrics") or record["bwd_compilation_metrics"] for record in records]


def test_a_log_tells_what_was_compiled_and_why_again(log: bytes, data: Path) -> None:
    p = nbp.open_profile(data / "torch_compile" / f"{NAME}.gz")
    table, metrics = p.compilations(), metrics_of(log)
    assert len(table) == len(metrics) == 9
    assert table["dur"].tolist() == [1000 * one["duration_us"] for one in metrics]  # type: ignore[operator]
    assert table["id"].tolist() == [one["compile_id"] for one in metrics]
    mismatch = "tensor 'x' size mismatch at index 0. expected 4, actual 5"
    assert table["guard"].unique().tolist() == ["", "k == 1", mismatch]
    assert table.loc[table["guard"] == "k == 1", "guard_place"].tolist() == ["train.py:3"]
    assert table["backward"].sum() == 2
    parts = table[["dynamo_ns", "aot_ns", "inductor_ns", "codegen_ns"]]
    assert (parts.sum(axis=1) == table["dur"]).all()
    assert p.compilations.graph_breaks()["place"].tolist() == ["train.py:4", "train.py:10"]
    assert "9 compilations, with 2 recompilations: `k == 1` no longer held (train.py:3)" in str(p.verdict)


def test_what_the_compiler_did_is_a_lane(log: bytes, tmp_path: Path) -> None:
    p = opened(tmp_path, log)
    slices, table = p.trace.slices, p.compilations()
    assert p.trace.tracks["name"].tolist() == ["compile"]
    frames = slices[slices["name"] == "entire_frame_compile (dynamo_timed)"]
    forward = table[~table["backward"]]
    assert len(frames) == len(forward)
    for column in ("ts", "dur"):  # two clocks' readings of the same ranges
        assert np.abs(np.sort(frames[column]) - np.sort(forward[column])).max() < 50_000_000
    assert slices["self_ns"].sum() == slices[slices["depth"] == 0]["dur"].sum()
    inside = slices[slices["name"] == "compile_file (dynamo_timed)"]
    assert len(inside)
    assert (inside["depth"] > 3).all()
    once = p.steps.one_time().iloc[0]
    assert (once["kind"], once["share"] > 0.9) == ("compilation", True)
    assert [(issue.code, issue.count) for issue in p.trace.report] == [("row-not-used", 17)]


def test_the_same_whatever_the_pieces(log: bytes, tmp_path: Path) -> None:
    whole = opened(tmp_path, log)
    for size in (997, 65_536):
        builder = TraceBuilder()
        TorchCompileReader().read_pieces((log[at : at + size] for at in range(0, len(log), size)), builder)
        trace = builder.seal()
        pd.testing.assert_frame_equal(trace.slices, whole.trace.slices)
        pd.testing.assert_frame_equal(nbp.Profile(trace).compilations(), whole.compilations())


def test_a_folder_is_a_process_a_log(log: bytes, tmp_path: Path) -> None:
    first, second = (
        log.replace(b'"frame_id"', b'"rank": %d, "frame_id"' % rank).replace(b" 16142 ", b" %d " % pid)
        for rank, pid in ((0, 70), (1, 71))
    )
    (tmp_path / "dedicated_log_torch_trace_rank_0_x.log").write_bytes(first)
    (tmp_path / "dedicated_log_torch_trace_rank_1_y.log").write_bytes(second)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "other.log").write_text("not of torch")
    p = nbp.open_profile(tmp_path)
    assert p.trace.metadata["source"] == "torch_compile"
    assert p.trace.tracks[["pid", "rank"]].values.tolist() == [[70, 0], [71, 1]]
    assert len(p.compilations()) == 18


def test_a_log_that_ends_in_the_middle_is_read_as_far_as_it_goes(log: bytes, tmp_path: Path) -> None:
    p = opened(tmp_path, log[: len(log) // 2])
    whole = opened(tmp_path, log, "whole.log")
    assert 0 < len(p.compilations()) < 9
    assert len(p.trace.slices) < len(whole.trace.slices)
    codes = {issue.code: issue.count for issue in p.trace.report}
    assert codes["unclosed-slice"] > 0
    broken = log.replace(b'"compilation_metrics": {', b'"compilation_metrics": {{', 1)
    report = opened(tmp_path, broken, "broken.log").trace.report
    assert [issue.count for issue in report if issue.code == "broken-row"] == [1]


def test_a_log_before_there_were_events_has_a_slice_a_compilation(tmp_path: Path) -> None:
    metrics = {
        "compile_id": "0/0", "co_name": "f", "co_filename": "a.py", "co_firstlineno": 3, "start_time": 100.5,
        "entire_frame_compile_time_s": 2.0, "backend_compile_time_s": 1.5, "inductor_compile_time_s": 1.0,
        "code_gen_time_s": 0.25,
    }  # fmt: skip
    head, record = "V0401 10:00:00.123000 4711 torch/_dynamo/utils.py:1]", {"compilation_metrics": metrics}
    p = opened(tmp_path, f"{head} {json.dumps(record)}\n".encode())
    row = p.compilations().iloc[0]
    assert row[["dynamo_ns", "aot_ns", "inductor_ns", "codegen_ns"]].tolist() == [
        500_000_000, 500_000_000, 750_000_000, 250_000_000,
    ]  # fmt: skip
    assert row["place"] == "a.py:3"
    slices = p.trace.slices[["name", "dur"]].values.tolist()
    assert slices == [["_compile.compile_inner f 0/0", 2_000_000_000]]


def test_a_log_in_which_nothing_was_compiled(tmp_path: Path) -> None:
    line = b'V0401 10:00:00.123000 4711 torch/_logging/structured.py:28] {"str": ["a.py", 0]}\n'
    with pytest.raises(FormatError, match="nothing was compiled"):
        opened(tmp_path, line)


SCRIPT = """
import json, sys, torch, notebook_prof as nbp
graphs = []
def backend(graph, inputs):
    graphs.append(graph)
    return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
def scaled(x, k):
    y = net(x) * k
    print("break", file=sys.stderr)
    return y.sum()
x, known = torch.ones(4, requires_grad=True), "torch._dynamo" in sys.modules
with nbp.profile("torch", memory=False) as p:
    f = torch.compile(scaled, backend=backend)
    for k in (1, 1, 2):
        f(x, k).backward()
first = len(graphs)
f(x, 2)
with nbp.profile("torch", memory=False) as again:
    f(x, 2), net(x)
left = "run_start_callbacks" in vars(torch._dynamo.callback.callback_handler)
modules = again.trace.slices.query("category == 'module'")["name"].astype(str).tolist()
print(json.dumps([known, len(graphs) - first, left, modules[-3:]]))
p.compilations().drop(columns="step").to_json(sys.argv[1], orient="records")
"""


def test_a_live_recording_and_the_log_of_the_same_process_agree(tmp_path: Path) -> None:
    """A function is compiled once, even if TorchDynamo is first imported during the recording."""
    pytest.importorskip("torch")
    rows = tmp_path / "rows.json"
    done = run_python(SCRIPT, rows, env={**os.environ, "TORCH_TRACE": str(tmp_path / "logs")})
    assert json.loads(done.stdout) == [False, 0, False, ["Sequential", "0", "1"]]
    live, read = json.loads(rows.read_text()), nbp.open_profile(tmp_path / "logs").compilations()
    logged = json.loads(read.drop(columns="step").to_json(orient="records"))
    assert len(live) >= 3
    shift = {a["ts"] - b["ts"] for a, b in zip(live, logged, strict=True)}
    assert len(shift) == 1, "each begins with its own trace"
    assert [{**row, "ts": 0} for row in live] == [{**row, "ts": 0} for row in logged]
