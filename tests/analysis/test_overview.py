"""The overview and launch attributes, against VisualDL's answers for the same file."""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from notebook_prof import Trace, TraceBuilder, read_trace
from notebook_prof.analysis import distributed, kernels, operators, overview
from notebook_prof.errors import OptionError
from notebook_prof.testing import draw
from notebook_prof.trace import PHASES
from tests.strategies import traces


@pytest.fixture(scope="module")
def two_gpus(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Rank 0 of two V100s, as Paddle writes it."""
    path = tmp_path_factory.mktemp("paddle") / "synthetic_rank0_time_2026.paddle_trace.json"
    with gzip.open(data / "paddle" / "synthetic_rank0.json.gz") as packed, path.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    return read_trace(path)


def test_visualdl_tells_the_same_of_the_device(two_gpus: Trace):
    devices = overview(two_gpus).devices.set_index("device")
    gpu = devices.loc[0]
    assert gpu["name"] == "Tesla V100-SXM2-32GB"
    assert gpu["capability"] == "7.0"
    assert round(gpu["memory_bytes"] / 2**30, 2) == 31.75
    shares = gpu[["utilization", "sm_efficiency", "occupancy", "tensor_core_share"]].to_numpy(dtype=float)
    assert (shares * 100).round(2).tolist() == [65.13, 61.21, 34.27, 10.34]
    assert devices.loc[-1, "utilization"] == 1.02


def test_visualdl_tells_the_same_of_phases(two_gpus: Trace):
    table = overview(two_gpus).phases.set_index("phase")
    assert table.loc["step", "host_ns"] == 6_102_000
    reported = {"data": (1.74, 28.52), "forward": (1.14, 18.68), "optimizer": (0.56, 9.18)}
    # VisualDL leaves with the optimizer, once 4 µs, what its kernels wait behind the all-reduce
    added_ns = {"optimizer": 4_000}
    for phase, (total, share) in reported.items():
        spent = table.loc[phase, "host_ns"] + added_ns.get(phase, 0)
        assert round(spent / 1e6, 2) == total
        assert round(100 * spent / table.loc["step", "host_ns"], 2) == share
        assert table.loc[phase, "calls"] == 4
    # VisualDL's backward holds the gradient exchange
    both = table.loc["backward", "host_ns"] + table.loc["communication", "host_ns"] - added_ns["optimizer"]
    assert round(both / 1e6, 2) == 1.64
    assert round(table.loc["forward", "device_ns"] / 1e6, 2) == 1.55


def test_visualdl_tells_the_same_of_kernels(two_gpus: Trace, shared_traces: Path):
    oracle = shared_traces / "paddle/visualdl_oracle/synthetic_gpu2/synthetic_rank0_span0"
    reported = json.loads((oracle / "kernel_table_kernel_name.json").read_text())["events"]
    table = kernels(two_gpus, category=("kernel", "collective")).set_index("name")
    assert len(reported) == len(table)
    for row in reported:
        own = table.loc[row["name"]]
        assert own["count"] == row["calls"]
        assert own["total_ns"] == row["total_time"] * 1000
        assert (own["min_ns"], own["max_ns"]) == (row["min_time"] * 1000, row["max_time"] * 1000)
        assert bool(own["tensor_cores"]) == row["tensor core used"]
        assert round(100 * own["share"], 2) == row["ratio"]
        # ours are weighted by duration
        assert own["blocks_per_sm"] == pytest.approx(row["mean blocks per sm"], abs=0.01)
        assert 100 * own["occupancy"] == pytest.approx(row["mean est achieved occupancy"], abs=0.2)
    by = kernels(two_gpus, by=["name", "grid", "registers_per_thread"], category="kernel")
    volta = by[by["name"].str.startswith("volta_scudnn")]
    assert set(volta["grid"]) == {"[80, 1, 1]", "[120, 1, 1]"}
    assert by["count"].sum() == table.loc[~table.index.str.startswith("nccl"), "count"].sum()
    whole = distributed(two_gpus, by="trace").iloc[0]
    assert round(whole["computation_ns"] / 1e6, 2) == 3.97


def test_what_was_not_recorded():
    trace = draw("stream 7: [gemm]")
    assert "occupancy" not in kernels(trace)
    with pytest.raises(OptionError, match="was not recorded"):
        kernels(trace, by=["name", "grid"])
    result = overview(TraceBuilder().seal())
    assert result.phases.empty
    assert result.devices.empty
    assert result.events.empty
    assert result.annotations.empty
    assert "configuration" in repr(result)


def test_the_parts_of_a_drawing():
    result = overview(
        draw(
            """
            steps:    [0                ][1                ]
            main:     [next/data][mm/forward]  [augment   ]
            stream 7:       [gemm    ]
            """,
            categories={"augment": "annotation"},
            launches=[("mm", "gemm")],
        )
    )
    assert result.annotations[["name", "count", "total_ns"]].values.tolist() == [["augment", 1, 12]]
    assert result.devices["device"].tolist() == [0]
    events = result.events.set_index(["side", "category", "phase"])
    assert events.loc[("device", "kernel", "forward"), "total_ns"] == 10
    assert events.loc[("host", "operator", "data"), "count"] == 1
    items = result.configuration.set_index("item")["value"]
    assert (items["steps"], items["threads"], items["streams"]) == ("2", "1", "1")
    assert "augment" in repr(result)


@given(traces())
def test_the_parts_add_up(trace):
    result = overview(trace)
    host = result.events[result.events["side"] == "host"]
    assert host["self_ns"].sum() == operators(trace)["self_ns"].sum()
    assert host["count"].sum() + (result.events["side"] == "device").dot(result.events["count"]) == len(
        trace.slices
    )
    assert (result.events["total_ns"] >= 0).all()
    if len(result.phases):
        table = result.phases.set_index("phase")
        for side in ("host", "device"):
            assert table.loc[list(PHASES), f"{side}_ns"].sum() == table.loc["step", f"{side}_ns"]
            assert (table[f"{side}_min_ns"] <= table[f"{side}_max_ns"]).all()
        assert np.isclose(
            table.loc[list(PHASES), "host_share"].sum(), float(table.loc["step", "host_ns"] > 0)
        )


def test_the_tensorboard_plugin_tells_the_same_of_kernels(shared_traces: Path):
    folder = shared_traces / "kineto_2021"
    reported = json.loads((folder / "tb_plugin_resnet50_num_workers_4.json").read_text())["kernel_table"][
        "data"
    ]
    trace = read_trace(folder / "resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz")
    table = kernels(trace, category="kernel").set_index("name")
    assert len(reported["rows"]) == len(table) > 30
    for name, tensor_cores, calls, total, mean, most, least, blocks, occupancy in reported["rows"]:
        own = table.loc[name]
        assert (own["count"], own["total_ns"]) == (calls, total * 1000)
        assert (own["max_ns"], own["min_ns"]) == (most * 1000, least * 1000)
        assert own["mean_ns"] == pytest.approx(mean * 1000, abs=1000)
        assert bool(own["tensor_cores"]) == (tensor_cores == "Yes")
        assert own["blocks_per_sm"] == pytest.approx(blocks, abs=0.006)
        assert 100 * own["occupancy"] == pytest.approx(occupancy, abs=0.006)
