"""Figures of MegEngine's own profiler and of ``profile_analyze``, from what the reader gives."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof.analysis import device, memory, memory_peak, operators
from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace
from notebook_prof.trace.intervals import length, union

UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "byte": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


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


def cells(text: str) -> list[list[list[str]]]:
    """Rows of a table drawn with lines; each cell is a list of its lines that are not empty."""
    rows: list[list[list[str]]] = []
    fresh = True
    for line in text.splitlines():
        if line.startswith("│"):
            parts = [part.strip() for part in line.strip("│").split("│")]
            if fresh:
                rows.append([[] for _ in parts])
                fresh = False
            for cell, part in zip(rows[-1], parts, strict=True):
                cell += [part] if part else []
        else:
            fresh = True
    return rows[1:]


def quantity(cell: list[str], suffix: str) -> float | None:
    """``["12.46", "MFLO"]`` as a number; None for N/A."""
    if cell[0] == "N/A":
        return None
    unit = cell[1].removesuffix(suffix).removesuffix("/s")
    return float(cell[0]) * UNITS[unit]


def shape_cells(shapes: str, layouts: str | None) -> list[str]:
    """Shapes in profile_analyze's spelling: ``{8,3}``, then ``-[1,0]`` where the strides are unusual."""
    strides = json.loads(layouts) if layouts else []
    texts = []
    for shape, stride in itertools.zip_longest(json.loads(shapes), strides):
        texts.append("{" + ",".join(map(str, shape)) + "}")
        if stride:
            texts.append("-" + json.dumps(stride, separators=(",", ":")))
    return texts


def check_row(row: Any, ours: Any, kern: bool = False) -> None:
    seconds = ours["device_kern_ns" if kern else "device_ns"] / 1e9
    assert f"{seconds:.3g}" == f"{float(row[0][1]):.3g}"
    for name, cell, suffix in (("flop_count", 3, "FLO"), ("memory_bytes", 5, "")):
        reported = quantity(row[cell], suffix)
        if reported is None:
            assert pd.isna(ours[name])
        else:
            # two decimals after scaling
            scale = reported / float(row[cell][0]) if float(row[cell][0]) else 1.0
            assert abs(ours[name] - reported) <= 0.0051 * scale, (name, row)
    if not pd.isna(ours["flop_count"]) and seconds:
        assert ours["flop_count"] / seconds == pytest.approx(quantity(row[4], "FLOPS"), rel=6e-3)
    if ours["memory_bytes"] and seconds:
        assert ours["memory_bytes"] / seconds == pytest.approx(quantity(row[6], ""), rel=6e-3, abs=0.01)


def test_totals(table: pd.DataFrame, static: Trace) -> None:
    assert table["device_ns"].sum() == 18_813_000
    assert table["host_ns"].sum() == 4_038_000
    slices = static.slices
    assert slices.loc[slices["device"].notna(), "dur"].sum() == 18_813_000
    assert (len(table), int(table["device_ns"].notna().sum()), len(static.flows)) == (210, 207, 207)


def test_every_operator_of_profile_analyze(folder: Path, table: pd.DataFrame) -> None:
    rows = cells(gzip.decompress((folder / "analyze_all.txt.gz").read_bytes()).decode())
    assert len(rows) == 207
    by_id = table.set_index("id")
    cumulative = 0
    for row in rows:
        info = [line.removeprefix("-  ") for line in row[2]]
        operator = by_id.loc[info[-1]]
        assert operator["name"] + operator["type"] == "".join(info[:-1])
        check_row(row, operator)
        cumulative += operator["device_ns"]
        assert cumulative / 1e9 == pytest.approx(float(row[1][0]), rel=6e-3)
        assert abs(100 * operator["device_ns"] / 18_813_000 - float(row[0][2].rstrip("%"))) <= 0.051
        assert row[7] == shape_cells(operator["in_shapes"], operator["in_layouts"]), info
        assert row[8] == shape_cells(operator["out_shapes"], None), info


def test_by_type(folder: Path, table: pd.DataFrame) -> None:
    text = gzip.decompress((folder / "analyze_by_type.txt.gz").read_bytes()).decode()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    groups = table[table["device_ns"].notna()].groupby("type")
    by_type = groups[["device_ns", "flop_count", "memory_bytes"]].sum().assign(count=groups.size())
    compared = 0
    for row in rows:
        if len(row) < 15 or not row[0].isdecimal():
            continue
        ours = by_type.loc[row[6]]
        assert ours["count"] == int(row[7])
        assert f"{ours['device_ns'] / 1e9:.3g}" == f"{float(row[1]):.3g}"
        if row[9] != "N/A":
            assert abs(ours["flop_count"] / 1e6 - float(row[9])) < 0.06
        assert abs(ours["memory_bytes"] / 2**20 - float(row[12])) < 0.06
        compared += 1
    assert compared == 5


def oracle(shared_traces: Path, name: str) -> list[list[list[str]]]:
    return cells((shared_traces / "megengine/analyze_oracle" / f"{name}.txt").read_text())


def ids(rows: list[list[list[str]]]) -> list[str]:
    return [row[2][-1] for row in rows]


def test_kernel_time_and_host_time(shared_traces: Path, table: pd.DataFrame) -> None:
    rows = oracle(shared_traces, "train_kern")
    by_id = table.set_index("id")
    for row in rows:
        check_row(row, by_id.loc[row[2][-1]], kern=True)
    top = table.nlargest(5, "device_kern_ns")["id"].tolist()
    assert set(ids(rows)) == set(top)
    for row in oracle(shared_traces, "train_only_host"):
        assert f"{by_id.loc[row[2][-1], 'host_ns'] / 1e9:.3g}" == f"{float(row[0][1]):.3g}"


@pytest.mark.parametrize(
    ("name", "order"), [("train_t5_orderby_plus_time", "device_ns"), ("train_orderby_bandwidth", "bandwidth")]
)
def test_orders(shared_traces: Path, table: pd.DataFrame, name: str, order: str) -> None:
    ran = table[table["device_ns"].notna()]
    size, took = (ran[column].to_numpy(np.float64) for column in ("memory_bytes", "device_ns"))
    with np.errstate(divide="ignore", invalid="ignore"):
        ran = ran.assign(bandwidth=size / (took / 1e9))
    rows = oracle(shared_traces, name)
    ranked = ran.sort_values(order, ascending=order == "device_ns")[order].head(len(rows)).tolist()
    by_id = ran.set_index("id")
    assert [by_id.loc[key, order] for key in ids(rows)] == pytest.approx(ranked)


def test_filters(shared_traces: Path, table: pd.DataFrame) -> None:
    ran = table[table["device_ns"].notna()]
    forward = ran[(ran["type"] == "ConvolutionForward") & (ran["device_ns"] >= 100_000)]
    ranked = forward.sort_values("memory_bytes", ascending=False)["id"].tolist()
    assert ids(oracle(shared_traces, "train_t5_memory_min1e4_conv")) == ranked
    for row in oracle(shared_traces, "train_oprname"):
        assert row[2][-1] in set(ran["id"])
    assert set(table.loc[table["id"] == "2059", "in_dtypes"].iloc[0]) <= {"Float32", "Int32", None}


def test_mean_of_everything(shared_traces: Path, table: pd.DataFrame) -> None:
    row = oracle(shared_traces, "train_agg_mean_all")[0]
    ran = table[table["device_ns"].notna()]
    mean = {name: ran[name].fillna(0).mean() for name in ("device_ns", "flop_count", "memory_bytes")}
    assert row[2][:2] == ["all", str(len(ran))]
    check_row(row, mean)


@pytest.mark.parametrize(("name", "how"), [("train_agg_mean_type", "mean"), ("train_t5_type_sum", "sum")])
def test_aggregates_by_type(shared_traces: Path, table: pd.DataFrame, name: str, how: str) -> None:
    ran = table[table["device_ns"].notna()].fillna({"flop_count": 0, "memory_bytes": 0})
    groups = ran.groupby("type")
    totals = groups[["device_ns", "flop_count", "memory_bytes"]].agg(how).assign(count=groups.size())
    rows = oracle(shared_traces, name)
    assert rows
    for row in rows:
        kind = "".join(line.removeprefix("-  ") for line in row[2][:-2])
        assert totals.loc[kind, "count"] == int(row[2][-2])
        ours = totals.loc[kind].to_dict()
        if quantity(row[3], "FLO") is None:
            assert ours.pop("flop_count") == 0
            ours["flop_count"] = None
        check_row(row, ours)


@pytest.mark.parametrize("name", ["train_t5", "train_maxtime", "train_types2", "train_oprname", "train_host"])
def test_rows_of_filtered_tables(shared_traces: Path, table: pd.DataFrame, name: str) -> None:
    by_id = table.set_index("id")
    text = (shared_traces / "megengine/analyze_oracle" / f"{name}.txt").read_text()
    tables = re.split(r"(?=╒)", text)[1:]
    assert tables
    for part in tables:
        host = "host self time" in part
        for row in cells(part):
            operator = by_id.loc[row[2][-1]]
            if host:
                assert f"{operator['host_ns'] / 1e9:.3g}" == f"{float(row[0][1]):.3g}"
            else:
                check_row(row, operator)


def test_static_phases_and_modules(static: Trace) -> None:
    slices = static.slices
    top = slices[slices["device"].notna()].nlargest(1, "dur").iloc[0]
    assert (top["name"], top["phase"], top["correlation"]) == (
        "backward.ConvolutionBackwardFilterV2",
        "backward",
        2053,
    )
    assert top["shapes"] == "[[8, 16, 15, 15], [8, 32, 13, 13], [32, 16, 3, 3]]"
    conv = slices[slices["name"] == "conv1.Convolution"].iloc[0]
    assert (conv["module"], conv["phase"]) == ("conv1", "forward")


@pytest.mark.parametrize(
    ("name", "share", "busy"),
    [("dyn_sampled", 52.48890148295079, 93.03), ("cli", 85.99577762139339, 90.17)],
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
    assert sampled.metadata["tables"]["counter_aliases"]["gpu_usgae_ratio"] == "gpu_usage_ratio"
    names = set(sampled.tracks["name"])
    assert {"nr_redundant_tensor", "train_time_ratio", "cpu0:0_alloc_mem"} <= names
    track = sampled.tracks.set_index("name").loc["cpu0:0_alloc_mem"]
    values = sampled.counters.loc[sampled.counters["track"] == track["track"], "value"]
    assert len(values) == len(sampled.allocations) == 600
    assert memory_peak(sampled)["peak_bytes"].tolist() == [int(values.max())]
    assert sampled.steps["step"].tolist() == [0, 1]


def test_analyses_work_on_it(sampled: Trace, static: Trace) -> None:
    for trace in (sampled, static):
        assert device(trace)["busy_ns"].iloc[0] > 0
    table = operators(sampled).set_index("name")
    assert table.loc["Convolution", "count"] == 4
    assert table.loc["Convolution", "device_ns"] > 0


def test_memory_flow(folder: Path) -> None:
    trace = read_trace(folder / "memory_flow.svg.gz")
    tensors = trace.metadata["tables"]["tensors"]
    assert len(tensors) == 174
    first = tensors[tensors["name"] == "iter3[24].step[40].ADD:0"].iloc[0]
    assert first[["addr", "bytes", "born_ns", "freed_ns", "group"]].tolist() == [
        0x7F81E42891C0,
        2560,
        26_260_308,
        49_062_059,
        10484,
    ]
    assert (first["operator"], first["module"], first["dtype"], first["shape"]) == (
        "ADD",
        "iter3[24].step[40]",
        "Float32",
        "[10, 64]",
    )
    assert len(trace.allocations) == 348
    assert trace.allocations["bytes"].sum() == 0
    curve = memory(trace)["allocated_bytes"]
    born, freed, size = (tensors[name].to_numpy() for name in ("born_ns", "freed_ns", "bytes"))
    at = np.sort(np.concatenate([born, freed]))
    alive = ((born <= at[:, None]) & (freed > at[:, None])) @ size
    assert curve.max() >= alive.max()
    assert (curve >= 0).all()
