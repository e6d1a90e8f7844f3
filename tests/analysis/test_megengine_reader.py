"""Figures of MegEngine's own profiler and of ``profile_analyze``, from what the reader gives."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Trace, read_trace
from notebook_prof.analysis import memory, memory_peak
from notebook_prof.trace.intervals import length, union


@pytest.fixture(scope="module")
def folder(data: Path) -> Path:
    return data / "megengine"


@pytest.fixture(scope="module")
def static(folder: Path) -> Trace:
    return read_trace(folder / "profiling_train.json.gz")


@pytest.fixture(scope="module")
def table(static: Trace) -> pd.DataFrame:
    return static.metadata["tables"]["operators"]


@pytest.fixture(scope="module")
def sampled(folder: Path) -> Trace:
    return read_trace(folder / "dyn_sampled.chrome_timeline.json.gz")


def test_totals_phases_and_modules_of_a_static_graph(table: pd.DataFrame, static: Trace) -> None:
    assert table["device_ns"].sum() == 18_813_000
    assert table["host_ns"].sum() == 4_038_000
    slices = static.slices
    assert slices.loc[slices["device"].notna(), "dur"].sum() == 18_813_000
    assert (len(table), int(table["device_ns"].notna().sum()), len(static.flows)) == (210, 207, 207)
    slices = static.slices
    top = slices[slices["device"].notna()].nlargest(1, "dur").iloc[0]
    assert top["name"] == "backward.ConvolutionBackwardFilterV2"
    assert (top["phase"], top["correlation"]) == ("backward", 2053)
    assert top["shapes"] == "[[8, 16, 15, 15], [8, 32, 13, 13], [32, 16, 3, 3]]"
    conv = slices[slices["name"] == "conv1.Convolution"].iloc[0]
    assert (conv["module"], conv["phase"]) == ("conv1", "forward")


@pytest.mark.parametrize(
    ("name", "share", "busy"), [("dyn_sampled", 52.48890148295079, 93.03), ("cli", 85.99577762139339, 90.17)]
)
def test_device_usage(folder: Path, name: str, share: float, busy: float) -> None:
    # MegEngine's ratio is kept as the file has it; it is not what the kernels of the file amount to
    trace = read_trace(folder / f"{name}.chrome_timeline.json.gz")
    track = trace.tracks.set_index("name").loc["gpu_usage_ratio"]
    values = trace.counters.loc[trace.counters["track"] == track["track"], "value"]
    assert (set(values), track["unit"]) == ({share}, "%")
    kernels = trace.slices[trace.slices["category"] == "kernel"]
    ends = kernels["ts"] + kernels["dur"]
    busy_share = length(union(kernels["ts"], ends)) / (ends.max() - kernels["ts"].min())
    assert round(100 * busy_share, 2) == busy


def test_dynamic_operators(sampled: Trace) -> None:
    slices = sampled.slices
    counts = slices["category"].value_counts()
    assert (counts["operator"], counts["kernel"]) == (218, 218)
    assert sampled.flows["kind"].value_counts()[["launch", "link"]].tolist() == [218, 218]
    names = sampled.tracks.set_index("track")["name"]
    assert set(names[slices.loc[slices["category"] == "operator", "track"]]) == {"worker"}
    conv = slices[(slices["category"] == "kernel") & (slices["name"] == "Convolution")]
    assert conv["module"].tolist() == ["conv1", "conv2"] * 2
    assert set(conv["phase"]) == {"forward"}
    host = slices[(slices["category"] == "operator") & (slices["name"] == "Convolution")]
    assert host["shapes"].iloc[0] == "[[8, 3, 32, 32], [16, 3, 3, 3]]"
    tables = sampled.metadata["tables"]
    assert len(tables["operators"]) == 218
    assert json.loads(tables["operators"]["params"].iloc[0])["stride_h"] == "1"
    assert tables["tensors"]["tensor"].is_unique
    assert set(tables["tensors"]["dtype"]) <= {"Float32", "Int32", "Byte"}
    assert sampled.metadata["start_unix_ns"] > 1_700_000_000 * 10**9


def test_dynamic_counters_and_steps(sampled: Trace) -> None:
    names = set(sampled.tracks["name"])
    assert {"nr_redundant_tensor", "gpu_usage_ratio", "train_time_ratio", "cpu0:0_alloc_mem"} <= names
    track = sampled.tracks.set_index("name").loc["cpu0:0_alloc_mem"]
    values = sampled.counters.loc[sampled.counters["track"] == track["track"], "value"]
    assert len(values) == len(sampled.allocations) == 600
    assert memory_peak(sampled)["peak_bytes"].tolist() == [int(values.max())]
    assert sampled.steps["step"].tolist() == [0, 1]


def test_memory_flow(folder: Path) -> None:
    trace = read_trace(folder / "memory_flow.svg.gz")
    tensors = trace.metadata["tables"]["tensors"]
    assert len(tensors) == 174
    first = tensors[tensors["name"] == "iter3[24].step[40].ADD:0"].iloc[0]
    numbers = [0x7F81E42891C0, 2560, 26_260_308, 49_062_059, 10484]
    assert first[["addr", "bytes", "born_ns", "freed_ns", "group"]].tolist() == numbers
    words = ["ADD", "iter3[24].step[40]", "Float32", "[10, 64]"]
    assert first[["operator", "module", "dtype", "shape"]].tolist() == words
    assert len(trace.allocations) == 348
    assert trace.allocations["bytes"].sum() == 0
    curve = memory(trace)["allocated_bytes"]
    born, freed, size = (tensors[name].to_numpy() for name in ("born_ns", "freed_ns", "bytes"))
    at = np.sort(np.concatenate([born, freed]))
    alive = ((born <= at[:, None]) & (freed > at[:, None])) @ size
    assert curve.max() >= alive.max()
    assert (curve >= 0).all()
