"""Paddle's recordings: both of its formats, what they keep, and kernels by VisualDL."""

import gzip
import json
from pathlib import Path

import pytest

from notebook_prof import read_trace
from notebook_prof.analysis import kernels, memory_peak, operators
from notebook_prof.formats.paddle.chrome import read_json
from notebook_prof.formats.paddle.protobuf import read_protobuf
from notebook_prof.trace.nesting import nest
from notebook_prof.trace.report import ImportReport

from .paddle_tables import typed

RUNS = ("v262_full", "v331_full", "v262_static", "v331_static", "synthetic_rank0")
KINDS = ("json", "pb")


@pytest.fixture(scope="module")
def folder(data: Path) -> Path:
    return data / "paddle"


def test_nothing_is_lost(folder: Path) -> None:
    """What Paddle's own summary says of them is in test_paddle_summary, to the character."""
    for name in (f"{run}.{kind}.gz" for run in RUNS for kind in KINDS):
        trace = read_trace(folder / name)
        assert trace.metadata["source"] == "paddle"
        assert not [issue for issue in trace.report if issue.severity != "info"], name
        assert typed(trace)["type"].notna().all(), name


def test_the_json_gives_what_the_protobuf_gives(folder: Path) -> None:
    for run in RUNS[:4]:
        ours, exact = (read_trace(folder / f"{run}.{kind}.gz") for kind in KINDS)
        a, b = ours.slices, exact.slices
        assert a["name"].astype(str).tolist() == b["name"].astype(str).tolist()
        for column in ("depth", "step", "phase", "module", "category"):
            assert a[column].astype(str).tolist() == b[column].astype(str).tolist(), column
        parents = [
            names.to_numpy()[frame["parent"].dropna().astype(int)]
            for frame, names in ((a, a["name"].astype(str)), (b, b["name"].astype(str)))
        ]
        assert (parents[0] == parents[1]).all()
        assert (a["self_ns"] - b["self_ns"]).abs().max() <= 5  # durations are float32 in the file
        assert (a["ts"] - b["ts"]).abs().max() < 250
        homes = [t.allocations["slice"].fillna(-1).tolist() for t in (ours, exact)]
        assert homes[0] == homes[1]


def test_whole_microseconds_alone_nest_almost_as_well(folder: Path) -> None:
    text = gzip.decompress((folder / "v262_full.json.gz").read_bytes()).replace(
        b'"start_time"', b'"was_start"'
    )
    exact = read_protobuf(gzip.decompress((folder / "v262_full.pb.gz").read_bytes()), ImportReport()).rows
    rows = read_json(text, ImportReport()).rows
    parents, *others = (
        nest(frame["tid"], frame["ts"], frame["dur"]).parent
        for frame in (exact, rows, rows.assign(ts=exact["ts"] // 1000 * 1000))
    )
    wrong = [int((other != parents).sum()) for other in others]
    assert wrong[1] > 400  # what the cut alone does
    assert wrong[0] < 10


def test_launches_of_paddle_3_are_read(folder: Path) -> None:
    # the values 15 and 16 are not in the schema that Paddle embeds: Paddle 3.3 cannot read this file back
    types = read_trace(folder / "v331_full.pb.gz").metadata["tables"]["event_types"]
    counts = types.groupby("type")["count"].sum()
    assert counts["DygraphKernelLaunch"] == 660
    assert counts["Operator"] == 759
    assert counts["OperatorInner"] == 1144
    static = read_trace(folder / "v331_static.pb.gz").metadata["tables"]["event_types"]
    assert static.groupby("type")["count"].sum()["StaticKernelLaunch"] == 90


def test_shapes_are_given_to_the_operator(folder: Path) -> None:
    trace = read_trace(folder / "v262_static.pb.gz")
    slices = trace.slices
    conv = slices[(slices["name"] == "conv2d") & slices["shapes"].notna()]
    assert set(conv["shapes"].astype(str)) >= {
        "[[16, 3, 3, 3], [8, 3, 32, 32]]"
    }  # Filter, Input: the file's order
    inputs = trace.metadata["tables"]["operator_inputs"]
    first = json.loads(inputs.loc[inputs["name"] == "conv2d", "inputs"].iloc[0])
    assert first["Input"] == [[8, 3, 32, 32]]
    assert trace.stacks["line"].gt(0).all()
    assert len(trace.stacks) > 50


def test_analyses_work_on_it(folder: Path) -> None:
    trace = read_trace(folder / "synthetic_rank0.pb.gz")
    table = operators(trace).set_index("name")
    assert table.loc["Conv2dGradNodeFinal", "count"] == 12
    named = kernels(trace).set_index("name")
    assert named.loc["volta_sgemm_64x64_nt", "total_ns"] == 2_261_000
    assert trace.metadata["devices"] == ["Tesla V100-SXM2-32GB"] * 2
    peak = memory_peak(read_trace(folder / "v262_full.json.gz"))
    assert peak["peak_bytes"].max() <= 13_539_320
    assert set(trace.slices["module"].dropna().astype(str)) == {"ResNet"}
    paths = set(read_trace(folder / "v262_full.pb.gz").slices["module"].dropna().astype(str))
    assert {"MyNet", "MyNet.Conv2D", "MyNet.Linear"} <= paths


def test_visualdl_kernels_by_attributes_without_its_double_count(folder: Path, shared_traces: Path) -> None:
    oracle = shared_traces / "paddle/visualdl_oracle/synthetic_gpu2/synthetic_rank0_span0"
    reported = json.loads((oracle / "kernel_table_kernel_name_attributes.json").read_text())["events"]
    trace = read_trace(folder / "synthetic_rank0.pb.gz")
    events = trace.metadata["tables"]["device_events"]
    device = trace.slices[trace.slices["device"].notna()]
    joined = events[events["type"] == "Kernel"].merge(device[["correlation", "dur"]], on="correlation")
    keys = ["name", "grid", "block", "registers_per_thread", "shared_memory_bytes"]
    groups = joined.groupby(keys)["dur"].agg(["size", "sum"]).reset_index()
    for row in reported:
        same = (
            (groups["name"] == row["name"])
            & (groups["grid"].str.replace(" ", "") == row["grid"])
            & (groups["block"].str.replace(" ", "") == row["block"])
            & (groups["registers_per_thread"].astype(str) == row["register per thread"])
            & (groups["shared_memory_bytes"].astype(str) == row["shared memory"])
        )
        ours = groups[same].iloc[0]
        # VisualDL counts kernels that an operator launches itself twice
        twice = 2 if "Adam" in row["name"] else 1
        assert (twice * ours["size"], twice * ours["sum"] / 1000) == (row["calls"], row["total_time"]), row


def test_several_spans(shared_traces: Path) -> None:
    files = sorted((shared_traces / "paddle/v262_sched").glob("*.json"))
    traces = [read_trace(file) for file in files]
    assert [trace.metadata["span"] for trace in traces] == [0, 1]
    assert [trace.steps["step"].tolist() for trace in traces] == [[3, 4, 5], [8, 9, 10]]
    assert {trace.metadata["worker"] for trace in traces} == {"worker_s"}
