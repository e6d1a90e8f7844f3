"""TraceLens' tables of kernels by operator and of operators by their arguments, and HTA's own figures."""

import ast
import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Trace, analysis, read_trace

from .test_kineto_figures import TRACELENS, launches, operator_around

HTA_CRITICAL_PATH = "hta/critical_path/benchmark_result_493459_1694039959_trace.json.gz"
HTA_MEMORY = "hta/memory_analysis/memory_timeline.raw.gz"
US = 1e3


def linked(trace: Trace) -> pd.DataFrame:
    """Device work that was launched in the window, with the name and shapes of its operator."""
    flows, slices = launches(trace), trace.slices
    work = slices.loc[flows["dst"]]
    around = operator_around(trace, flows["src"].to_numpy())
    names = np.array([*slices["name"].astype(str), "none"], dtype=object)
    shapes = np.array([*slices["shapes"].astype(object).where(slices["shapes"].notna(), "[]"), "[]"])
    return pd.DataFrame(
        {
            "operator": names[around],
            "call": around,
            "shapes": shapes[around],
            "name": work["name"].astype(str).to_numpy(),
            "stream": work["stream"].to_numpy(np.int64),
            "us": work["dur"].to_numpy() / US,
            "category": work["category"].astype(str).to_numpy(),
        }
    )


def leftover(trace: Trace) -> pd.DataFrame:
    """Kernels that were launched before the window."""
    slices = trace.slices
    kernels = slices[(slices["category"] == "kernel") & slices["device"].notna()]
    kernels = kernels.drop(index=launches(trace)["dst"], errors="ignore")
    stream = kernels["stream"].to_numpy(np.int64)
    times = {"us": kernels["dur"].to_numpy() / US, "stream": stream, "operator": "none"}
    return pd.DataFrame({"name": kernels["name"].astype(str).to_numpy(), **times})


@pytest.mark.parametrize("name", TRACELENS)
def test_kernel_summary(shared_traces: Path, name: str) -> None:
    folder = shared_traces / "tracelens"
    reported = pd.read_csv(folder / f"{name}_oracle" / "kernel_summary.csv")
    keys = ["operator", "name", "stream"]
    columns = {"Parent cpu_op": "operator", "Kernel name": "name", "Kernel stream": "stream"}
    reported = reported.rename(columns=columns).fillna({"operator": "none"}).set_index(keys)
    reported.columns = reported.columns.str.removeprefix("Kernel duration (µs)_")
    trace = read_trace(folder / f"{name}.json.gz")
    ours = linked(trace)
    if "none" in reported.index.get_level_values("operator"):
        ours = pd.concat([ours, leftover(trace)])
    ours = ours.groupby(keys)["us"].agg(["count", "sum", "mean", "min", "max"])
    matched = ours.reindex(reported.index)
    assert matched["count"].tolist() == reported["count"].tolist()
    for column in ("sum", "mean", "min", "max"):
        assert (matched[column] - reported[column]).abs().max() < 0.01, column
    share = 100 * matched["sum"] / matched["sum"].sum()
    assert (share - reported["Percent of kernels time (%)"]).abs().max() < 1e-3
    # it is a table of kernels
    others = set(ours.index.difference(reported.index).get_level_values("name"))
    assert all(kernel.startswith(("Memcpy", "Memset", "Copy")) for kernel in others), others


def dims(text: object) -> str:
    """TraceLens' tuples as our lists."""
    if not isinstance(text, str):
        return "[]"
    return json.dumps(ast.literal_eval(text))


@pytest.mark.parametrize("name", TRACELENS)
def test_operators_by_arguments(shared_traces: Path, name: str) -> None:
    folder = shared_traces / "tracelens"
    reported = pd.read_csv(folder / f"{name}_oracle" / "ops_unique_args.csv")
    reported["shapes"] = reported["Input Dims"].map(dims)
    keys = ["name", "shapes"]
    columns = {
        "operation_count": "count",
        "total_direct_kernel_time_sum": "direct",
        "total_subtree_kernel_time_sum": "subtree",
    }
    reported = reported.rename(columns=columns).groupby(keys)[["count", "direct", "subtree"]].sum()
    trace = read_trace(folder / f"{name}.json.gz")
    work = linked(trace).rename(columns={"name": "kernel", "operator": "name"})
    calls = work.groupby(keys)["call"].nunique()
    assert calls.reindex(reported.index).tolist() == reported["count"].tolist()
    table = analysis.operators(trace, by=keys, category="operator")
    table["shapes"] = table["shapes"].astype(object).where(table["shapes"].notna(), "[]")
    ours = table.set_index(keys)[["device_self_ns", "device_ns"]] / US
    matched = ours.reindex(reported.index)
    assert (matched["device_self_ns"] - reported["direct"]).abs().max() < 0.02
    assert (matched["device_ns"] - reported["subtree"]).abs().max() < 0.02
    assert len(reported) >= 10


def test_delays_on_htas_critical_path(shared_traces: Path) -> None:
    """Weights of its edges: from a launch to its kernel, and from a kernel to the next of the stream."""
    trace = read_trace(shared_traces / HTA_CRITICAL_PATH)
    slices, flows = trace.slices, launches(trace)
    ts, dur = slices["ts"].to_numpy(), slices["dur"].to_numpy()
    of = slices["correlation"].iloc[flows["dst"]].to_numpy(np.int64)
    (fft,) = flows["dst"].to_numpy()[of == 5597].tolist()
    (launch,) = flows["src"].to_numpy()[of == 5597].tolist()
    assert str(slices["name"][fft]).startswith("void fft2d_r2c_32x32")
    assert ts[fft] - ts[launch] == 27_000
    (gemm,) = flows["dst"].to_numpy()[of == 5604].tolist()
    assert str(slices["name"][gemm]) == "ampere_gcgemm_64x64_nt"
    assert slices["stream"][gemm] == slices["stream"][fft]
    assert ts[gemm] - ts[fft] - dur[fft] == 7_000


def test_htas_memory_timeline(shared_traces: Path) -> None:
    raw = json.loads(gzip.decompress((shared_traces / HTA_MEMORY).read_bytes()))
    moments = list(dict.fromkeys(row[0] for row in raw))
    trace = read_trace(shared_traces / HTA_MEMORY)
    levels = trace.counters.pivot_table(index="ts", columns="track", values="value", aggfunc="last")
    levels = levels.ffill().fillna(0)
    expected = [102440608, 102228128, 19395584, 0, 2618160128, 58417152, 41811968, 25494440]
    matching_ns = levels.index[(levels.to_numpy() == expected).all(axis=1)]
    # once in each of the five steps; HTA's test has the first
    assert len(matching_ns) == 5
    assert matching_ns[0] + trace.metadata["start_unix_ns"] == moments[744]
    assert levels.loc[matching_ns[0]].sum() == sum(expected)


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", 2_250),
        ("tracelens/h100/Falconsai_nsfw_image_detection__1016002.json.gz", 572),
        ("tracelens/mi300/Falconsai_nsfw_image_detection__1016002.json.gz", 620),
    ],
)
def test_totals_of_a_gpu_are_the_running_sums_of_its_file(
    shared_traces: Path, name: str, events: int
) -> None:
    rows = json.loads(gzip.decompress((shared_traces / name).read_bytes()))["traceEvents"]
    reported = [row for row in rows if row.get("name") == "[memory]" and row["args"]["Device Id"] == 0]
    reported.sort(key=lambda row: row["ts"])
    ours = read_trace(shared_traces / name).allocations.query("device == 0")
    assert len(ours) == len(reported) == events
    assert ours["allocated"].tolist() == [row["args"]["Total Allocated"] for row in reported]
    change = ours["allocated"].diff().iloc[1:].astype("int64")
    assert change.tolist() == ours["bytes"].iloc[1:].tolist()


def test_totals_of_the_host_are_mended(data: Path) -> None:
    """Shared-memory tensors reset torch's total: 24 of 1,238 changes of it are not what was allocated."""
    path = data / "torch213_cpu" / "cnn_sgd.pt.trace.json.gz"
    rows = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    reported = pd.DataFrame(
        [(float(row["ts"]), row["args"]["Bytes"], row["args"]["Total Allocated"]) for row in rows
         if row.get("name") == "[memory]"], columns=["ts", "bytes", "total"],
    ).sort_values("ts", kind="stable")  # fmt: skip
    right = reported["total"].diff().iloc[1:] == reported["bytes"].iloc[1:]
    assert (int(right.sum()), len(right)) == (1_214, 1_238)
    ours = read_trace(path).allocations
    assert (ours["allocated"].diff().iloc[1:] == ours["bytes"].iloc[1:]).all()
    assert ours["bytes"].tolist() == reported["bytes"].tolist()
    assert ours["allocated"].min() == 0
