"""Figures of Paddle's own ``summary()`` and of VisualDL, from what the reader gives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof.analysis import kernels, memory_peak, operators
from notebook_prof.formats.paddle.chrome import read_json
from notebook_prof.formats.paddle.protobuf import read_protobuf
from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace
from notebook_prof.trace.intervals import length
from notebook_prof.trace.nesting import nest
from notebook_prof.trace.report import ImportReport

from .paddle_tables import PHASES, busy, close, distribution, numbers, outermost, sections, spread, typed

RUNS = ("v262_full", "v331_full", "v262_static", "v331_static", "synthetic_rank0")
KINDS = ("json", "pb")


@pytest.fixture(scope="module")
def folder(data: Path) -> Path:
    return data / "paddle"


@pytest.fixture(scope="module", params=[(run, kind) for run in RUNS for kind in KINDS], ids="-".join)
def run(request: pytest.FixtureRequest, folder: Path) -> tuple[str, Trace, pd.DataFrame, Any]:
    name, kind = request.param
    trace = read_trace(folder / f"{name}.{kind}.gz")
    text = gzip.decompress((folder / f"{name}_summary.txt.gz").read_bytes()).decode()
    return name, trace, typed(trace), sections(text)


def test_nothing_is_lost(run: Any) -> None:
    _, trace, table, _ = run
    assert trace.metadata["source"] == "paddle"
    assert not [issue for issue in trace.report if issue.severity != "info"]
    assert table["type"].notna().all()


def test_device_summary(run: Any) -> None:
    _, trace, table, summary = run
    rows = dict(row for row in summary["Device Summary"] if row[0] != "Device")
    assert close([100 * trace.metadata["process_cpu_utilization"]], numbers(rows["CPU(Process)"]))
    assert close([100 * trace.metadata["system_cpu_utilization"]], numbers(rows["CPU(System)"]))
    steps = trace.steps["dur"].sum()
    for name, cell in rows.items():
        if name.startswith("GPU"):
            on_device = table[(table["type"] == "Kernel") & (table["device"] == int(name[3:]))]
            assert close([100 * length(busy(on_device)) / steps], numbers(cell))


def test_overview_summary(run: Any) -> None:
    _, trace, table, summary = run
    steps = int(trace.steps["dur"].sum())
    compared = 0
    for row in summary["Overview Summary"]:
        if len(row) != 4 or not row[1].isdecimal():
            continue
        name, calls, ms, ratio = row[0], int(row[1]), float(row[2]), float(row[3])
        events = table[table["type"] == name]
        if name in PHASES or name == "ProfileStep":
            events = outermost(table, PHASES)
            events = table[table["type"] == name] if name == "ProfileStep" else events[events["type"] == name]
            time = int(events["dur"].sum())
        elif name == "Communication" and ms > 1:  # the block of the device
            events = table[table["category"].eq("collective") & table["device"].notna()]
            time = length(busy(events))
        else:
            time = length(busy(events))
        assert len(events) == calls, name
        assert close([time / 1e6, 100 * time / steps], [ms, ratio]), name
        compared += 1
    assert compared >= 5


def test_model_summary(run: Any) -> None:
    name, _, table, summary = run
    steps = table[table["type"] == "ProfileStep"]
    phases = outermost(table, PHASES)
    total, gpu = float(steps["dur"].sum()), float(steps["kernel_ns"].sum())
    rows = [row for row in summary.get("Model Summary", []) if len(row) == 4 and row[0] != "Name"]
    for label, calls, cpu, device in rows:
        if label == "Others":
            other_ns = total - float(phases["dur"].sum())
            assert close([other_ns / 1e6, 100 * other_ns / total], numbers(cpu))
            continue
        events = steps if label == "ProfileStep" else phases[phases["type"] == label]
        assert len(events) == int(calls)
        if int(calls):
            assert close(spread(events["dur"], total), numbers(cpu)), label
            assert close(spread(events["kernel_ns"], gpu), numbers(device)), label
    assert len(rows) == (0 if "static" in name else 6)  # a program has no phases


def test_operator_summary(run: Any) -> None:
    name, _, table, summary = run
    own = table[table["type"] == "Operator"]
    cpu, gpu = float(own["dur"].sum()), float(own["gpu_ns"].sum())
    inner = table[(table["type"] != "Operator") & table["up"].isin(own.index) & table["device"].isna()]
    inner = inner.assign(of=table["name"].to_numpy()[inner["up"]])
    rows = [row for row in summary["Operator Summary"] if len(row) == 5 and row[0] != "Name"]
    compared, operator = 0, ""
    for label, calls, host, device, _ in rows:
        if host.startswith("-"):
            continue  # rows of kernels are in the kernel summary
        group = own[own["name"] == label]
        whole = cpu
        if len(group):
            operator = label
        else:
            group = inner[(inner["name"] == label) & (inner["of"] == operator)]
            whole = float(own.loc[own["name"] == operator, "dur"].sum())
            gpu_whole = float(own.loc[own["name"] == operator, "gpu_ns"].sum())
            assert close(spread(group["gpu_ns"], gpu_whole), numbers(device)), label
        assert len(group) == int(calls), label
        assert close(spread(group["dur"], whole), numbers(host)), label
        if operator == label:
            assert close(spread(group["gpu_ns"], gpu), numbers(device)), label
        compared += 1
    assert compared >= 5, name


def test_userdefined_summary(run: Any) -> None:
    _, trace, table, summary = run
    whole = float(trace.steps["dur"].sum())
    rows = [row for row in summary.get("UserDefined Summary", []) if len(row) == 4 and row[0] != "Name"]
    assert rows
    for label, calls, cpu, _ in rows:
        ranges = table[(table["type"] == "PythonUserDefined") & (table["name"] == label)]
        assert len(ranges) == int(calls)
        assert close(spread(ranges["dur"], whole), numbers(cpu)), label


def test_memory_summary(run: Any) -> None:
    _, trace, table, summary = run
    title, rows = next((title, rows) for title, rows in summary.items() if title.startswith("Memory Summary"))
    peak = trace.metadata["tables"]["memory_places"].set_index("place").iloc[0]
    heads = dict(row[0].split(": ") for row in rows[:2])
    assert peak["peak_allocated_bytes"] == int(heads["Peak Allocated Memory"]), title
    assert peak["peak_reserved_bytes"] == int(heads["Peak Reserved Memory"])
    events = trace.allocations
    home = events["slice"].to_numpy(dtype=np.int64, na_value=-1)
    # inner events count for their operator; 3.3.1 lists kernel launches as well, and so counts them twice
    operator = _nearest_operator(table, home)
    label = np.append(table["name"].to_numpy(), "")[np.where(operator >= 0, operator, home)]
    inner = np.append(table["name"].to_numpy(), "")[home]
    compared = 0
    for row in rows:
        if len(row) != 7 or row[0] == "Name":
            continue
        at = inner == row[0] if row[0].endswith(" kernel launch") else label == row[0]
        size = events["bytes"].to_numpy()[at]
        figures = [
            (size > 0).sum(),
            (size < 0).sum(),
            size[size > 0].sum(),
            -size[size < 0].sum(),
            size.sum(),
        ]
        assert [int(value) for value in figures] == [int(cell) for cell in row[2:]], row[0]
        compared += 1
    assert compared >= 2


def _nearest_operator(table: pd.DataFrame, home: np.ndarray) -> np.ndarray:
    """The operator right around an inner event; -1 where there is none."""
    kind = np.append(table["type"].to_numpy(), "")
    up = np.append(table["up"].to_numpy(), -1)
    inside = np.isin(kind[home], ["OperatorInner", "DygraphKernelLaunch", "StaticKernelLaunch"])
    above = np.where(inside, up[home], -1)
    return np.where(kind[above] == "Operator", above, -1)


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
    wrong = [
        int(
            (
                nest(frame["tid"], frame["ts"], frame["dur"]).parent
                != nest(exact["tid"], exact["ts"], exact["dur"]).parent
            ).sum()
        )
        for frame in (rows, rows.assign(ts=exact["ts"] // 1000 * 1000))
    ]
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


def test_distribution_summary(folder: Path) -> None:
    trace = read_trace(folder / "synthetic_rank0.json.gz")
    parts = distribution(typed(trace))
    assert {name: round(ns / 1e6, 2) for name, ns in parts.items()} == {
        "Communication": 1.11,
        "Computation": 3.97,
        "Overlap": 1.11,
    }


def test_visualdl_device_figures(folder: Path) -> None:
    trace = read_trace(folder / "synthetic_rank0.json.gz")
    steps = trace.steps["dur"].sum()
    events = trace.metadata["tables"]["device_events"]
    joined = events[events["type"] == "Kernel"].merge(
        trace.slices.loc[trace.slices["device"].notna(), ["correlation", "dur"]], on="correlation"
    )
    assert len(joined) == 32
    time = joined["dur"].to_numpy()
    efficiency = (np.minimum(joined["blocks_per_sm"], 1) * time).sum() / steps
    occupancy = (joined["occupancy"] * time).sum() / time.sum()
    tensor_core = time[joined["name"].str.contains("h884").to_numpy()].sum() / time.sum()
    assert [round(100 * value, 2) for value in (efficiency, occupancy, tensor_core)] == [61.21, 34.27, 10.34]


def test_visualdl_kernels_by_attributes_without_its_double_count(folder: Path, shared_traces: Path) -> None:
    reported = json.loads(
        (
            shared_traces
            / "paddle/visualdl_oracle/synthetic_gpu2/synthetic_rank0_span0"
            / "kernel_table_kernel_name_attributes.json"
        ).read_text()
    )["events"]
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


def test_visualdl_model_perspective(folder: Path, shared_traces: Path) -> None:
    oracle = shared_traces / "paddle/visualdl_oracle"
    for run, oracle_folder in (
        ("v262_full", "v262_full/worker_f_span0"),
        ("synthetic_rank0", "synthetic_gpu2/synthetic_rank0_span0"),
    ):
        reported = json.loads((oracle / oracle_folder / "overview_model_perspective_us.json").read_text())[
            "cpu"
        ]
        table = typed(read_trace(folder / f"{run}.json.gz"))
        phases = outermost(table, PHASES)
        steps = table[table["type"] == "ProfileStep"]["dur"]
        for row in reported:
            if row["name"] == "Other":
                assert abs((steps.sum() - phases["dur"].sum()) / 1e3 - row["total_time"]) < 1
                continue
            durations = (
                steps if row["name"] == "ProfileStep" else phases.loc[phases["type"] == row["name"], "dur"]
            )
            figures = [len(durations), durations.sum() / 1e3, durations.max() / 1e3, durations.min() / 1e3]
            want = [row[key] for key in ("calls", "total_time", "max_time", "min_time")]
            # VisualDL takes durations from the float32 start_time and end_time
            assert np.allclose(figures, want, rtol=1e-6, atol=0.2), row["name"]


def _events_by_name(trace: Trace) -> pd.DataFrame:
    """Allocations and frees by the event in which they happened, inner ones in their operator."""
    table = typed(trace)
    home = trace.allocations["slice"].to_numpy(dtype=np.int64, na_value=-1)
    operator = _nearest_operator(table, home)
    label = np.append(table["name"].to_numpy(), "")[np.where(operator >= 0, operator, home)]
    size = trace.allocations["bytes"].to_numpy()
    counts = pd.DataFrame({"label": label, "made": size > 0, "freed": size < 0})
    counts["kb"] = size / 1024
    return counts.groupby("label").sum()


def test_visualdl_memory_by_event(folder: Path, shared_traces: Path) -> None:
    oracle = shared_traces / "paddle/visualdl_oracle/synthetic_gpu2/synthetic_rank0_span0"
    ours_by_name = _events_by_name(read_trace(folder / "synthetic_rank0.json.gz"))
    for row in json.loads((oracle / "op_memory_events_Place_gpu0.json").read_text())["data"]:
        ours = ours_by_name.loc[row["EventName"]]
        assert ours.tolist() == [row["AllocationCount"], row["FreeCount"], row["IncreasedSize"]]


def test_visualdl_puts_memory_events_into_the_neighbour(folder: Path, shared_traces: Path) -> None:
    # where times are not whole microseconds, it places events by the cut time between float32 times;
    # Paddle's own summary is the reference (test_memory_summary), VisualDL agrees on the large events
    oracle = shared_traces / "paddle/visualdl_oracle/v262_full/worker_f_span0/op_memory_events_Place_cpu.json"
    reported = {row["EventName"]: row for row in json.loads(oracle.read_text())["data"]}
    by_name = _events_by_name(read_trace(folder / "v262_full.json.gz"))
    for name in ("add dygraph", "relu dygraph", "conv2d dygraph", "pool2d dygraph", "matmul dygraph"):
        assert by_name.loc[name, ["made", "freed"]].tolist() == [
            reported[name]["AllocationCount"],
            reported[name]["FreeCount"],
        ]
    assert (reported["Pool2dGradNode"]["FreeCount"], by_name.loc["Pool2dGradNode", "freed"]) == (43, 44)
    assert (reported["cast dygraph"]["AllocationCount"], by_name.loc["cast dygraph", "made"]) == (25, 33)


def test_several_spans(shared_traces: Path) -> None:
    files = sorted((shared_traces / "paddle/v262_sched").glob("*.json"))
    traces = [read_trace(file) for file in files]
    assert [trace.metadata["span"] for trace in traces] == [0, 1]
    assert [trace.steps["step"].tolist() for trace in traces] == [[3, 4, 5], [8, 9, 10]]
    assert {trace.metadata["worker"] for trace in traces} == {"worker_s"}
