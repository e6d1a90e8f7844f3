"""TraceLens' and HTA's tables for NVIDIA's and AMD's recordings, from our slices and flows."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Trace, read_trace
from notebook_prof.trace import DEVICE_CATEGORIES, Intervals, length, overlap, subtract, union

MODELS = ("Falconsai_nsfw_image_detection__1016002", "gaunernst_bert-small-uncased__1016001")
TRACELENS = [f"{card}/{model}" for card in ("h100", "mi300") for model in MODELS]
TRACELENS.append("h100/Qwen_Qwen1.5-0.5B-Chat__1016005")
HTA = [
    *(("trace_filter_2rank", rank, f"hta/trace_filter_2rank/sampled_rank-{rank}.json.gz") for rank in (0, 1)),
    ("trace_diff_control_rank3", 3, "hta/trace_diff/control.json.gz"),
    ("trace_diff_test_rank3", 3, "hta/trace_diff/test.json.gz"),
]


def launches(trace: Trace) -> pd.DataFrame:
    return trace.flows[trace.flows["kind"] == "launch"]


def covered(work: pd.DataFrame, *categories: str) -> Intervals:
    work = work[work["category"].isin(categories)]
    return union(work["ts"], work["ts"] + work["dur"])


def busy_in_doubles(work: pd.DataFrame, trace: Trace) -> float:
    """Length of the union in µs, in the file's own numbers as doubles."""
    base = trace.metadata["start_unix_ns"] - trace.metadata["kineto"]["baseTimeNanoseconds"]
    work = work.sort_values("ts")
    starts = (work["ts"].to_numpy() + base) / 1e3
    ends = np.maximum.accumulate(starts + work["dur"].to_numpy() / 1e3)
    first = np.append(True, starts[1:] > ends[:-1])
    last = np.append(first[1:], True)
    return float(sum(ends[last] - starts[first]))


def operator_around(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """Row of the innermost operator around each slice; -1 for none."""
    up = trace.slices["parent"].to_numpy(dtype=np.int64, na_value=-1)
    operator = (trace.slices["category"] == "operator").to_numpy()
    operator_rows = rows.copy()
    todo = np.flatnonzero(~operator[operator_rows])
    while len(todo):
        operator_rows[todo] = up[operator_rows[todo]]
        todo = todo[operator_rows[todo] >= 0]
        todo = todo[~operator[operator_rows[todo]]]
    return operator_rows


@pytest.mark.parametrize(
    ("name", "table"),
    [
        *((name, f"{name}_oracle/gpu_timeline.csv") for name in TRACELENS),
        ("mi210_gpu_only/gpu_only_trace", "mi210_gpu_only/gpu_timeline.csv"),
        ("vllm_decode_graph/graph_execution", "vllm_decode_graph/gpu_timeline.csv"),
    ],
)
def test_tracelens_timeline_of_the_device(shared_traces: Path, name: str, table: str) -> None:
    folder = shared_traces / "tracelens"
    trace = read_trace(folder / f"{name}.json.gz")
    want = pd.read_csv(folder / table).set_index("type")["time ms"] * 1e3
    work = trace.slices.loc[launches(trace)["dst"]]
    computation, copies = covered(work, "kernel", "memset"), covered(work, "memcpy")
    communication, busy = covered(work, "collective"), covered(work, *DEVICE_CATEGORIES)
    total = int((work["ts"] + work["dur"]).max() - work["ts"].min())
    others = covered(work, "kernel", "memset", "collective")
    got = {
        "computation_time": length(computation),
        "exposed_comm_time": length(subtract(communication, computation)),
        "exposed_memcpy_time": length(subtract(copies, others)),
        "busy_time": length(busy),
        "idle_time": total - length(busy),
        "total_time": total,
        "total_comm_time": length(communication),
        "total_memcpy_time": length(copies),
    }
    # TraceLens adds doubles at 1e12 µs, whose last digit is 0.00024 µs: so done, the sum is equal
    doubles = busy_in_doubles(work, trace)
    assert doubles == pytest.approx(want["busy_time"], abs=1e-6)
    tolerance = 0.01 + abs(doubles - length(busy) / 1e3)
    for key, value in want.items():
        assert got[str(key)] / 1e3 == pytest.approx(value, abs=tolerance), key


@pytest.mark.parametrize(("oracle", "rank", "file"), HTA, ids=lambda value: str(value)[:24])
def test_hta_breakdown_on_whole_microseconds(shared_traces: Path, oracle: str, rank: int, file: str) -> None:
    reported = json.loads((shared_traces / "oracle" / "hta_0.5.0" / f"{oracle}.json").read_text())
    want = next(row for row in reported["temporal_breakdown"] if row["rank"] == rank)
    share = next(row for row in reported["comm_comp_overlap"] if row["rank"] == rank)
    trace = read_trace(next(shared_traces.glob(file)))
    slices, flows = trace.slices, launches(trace)
    if len(trace.steps) > 1:
        # HTA leaves out the last step, and with it what was not launched before it
        before = slices["ts"].to_numpy()[flows["src"]] < trace.steps["ts"].max()
        work = slices.loc[flows["dst"][before]]
    else:
        work = slices[slices["category"].isin(DEVICE_CATEGORIES) & slices["device"].notna()]
    busy, computation = covered(work, *DEVICE_CATEGORIES), covered(work, "kernel")
    communication = covered(work, "collective")
    total = int((work["ts"] + work["dur"]).max() - work["ts"].min())
    assert total == want["kernel_time(us)"] * 1000
    assert total - length(busy) == want["idle_time(us)"] * 1000
    assert length(computation) == want["compute_time(us)"] * 1000
    assert length(busy) - length(computation) == want["non_compute_time(us)"] * 1000
    both = length(overlap(computation, communication)) / length(communication)
    assert round(100 * both, 2) == share["comp_comm_overlap_pctg"]


def test_hta_collective_arguments(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "hta" / "nccl_data.json.gz")
    collectives = trace.metadata["tables"]["collectives"]
    kernels = collectives[collectives["device"] >= 0]
    work = trace.slices[(trace.slices["category"] == "collective") & trace.slices["device"].notna()]
    assert len(kernels) == len(work) == 21
    start = kernels["start_ns"].to_numpy() - trace.metadata["start_unix_ns"]
    longest = kernels.iloc[int(work.set_index("ts")["dur"].loc[start].to_numpy().argmax())]
    assert longest["operation"] == "allreduce"
    assert longest["in_elements"] == longest["out_elements"] == 2_049_000
    assert (longest["group"], longest["group_description"]) == ("0", "default_pg")
    assert longest["group_ranks"] == "[0, 1]"


def test_gpu_metrics_of_the_tensorboard_plugin(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "kineto_2021" / "gpu_metrics_expected.json")
    counters = trace.counters.merge(trace.tracks[["track", "name", "device"]], on="track")
    found = counters.groupby("name").size().to_dict()
    assert found == {"GPU 0 Est. SM Efficiency": 62, "GPU 0 Utilization": 16}
    assert set(counters["device"]) == {0}
    assert counters["value"].between(0, 1).all()
