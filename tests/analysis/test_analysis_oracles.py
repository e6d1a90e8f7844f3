"""Figures of the analyses that other tools and independent code give for the same files."""

import json
from pathlib import Path

import pandas as pd
import pytest

from notebook_prof import analysis, read_trace
from notebook_prof.trace import DEVICE_CATEGORIES

KEY_AVERAGES = ("cnn_adam", "cnn_sgd", "lm_adamw", "mini_noschedule")
FOLDERS = {
    "HTA/tests/data/amd_trace": "hta/amd_trace",
    "HTA/tests/data/execution_trace": "hta/execution_trace",
    "HTA/tests/data/nccl_parser_config": "hta",
    "HTA/tests/data/ns_resolution_trace": "hta",
    "HTA/tests/data/trace_file_list": "hta/trace_file_list",
    "HTA/tests/data/trace_filter": "hta/trace_filter_2rank",
    "HTA/tests/data/triton_example": "hta/triton_example",
    "TraceLens/tests/traces/h100": "tracelens/h100",
    "TraceLens/tests/traces/mi300": "tracelens/mi300",
    "TraceLens/tests/traces/inference/vllm_decode_full": "tracelens/vllm_decode_graph",
    "kineto/tb_plugin_samples": "kineto_2021",
    "param/et_replay/tests/inputs/dlrm_kineto_x/dlrm_kineto": "param_dlrm_8rank",
}


@pytest.mark.parametrize("name", KEY_AVERAGES)
def test_operators_agree_with_key_averages(data: Path, name: str) -> None:
    """Calls are equal; self times differ only where slices overlap in part, where torch's go negative."""
    folder = data / "torch213_cpu"
    reported = pd.read_csv(folder / f"{name}.key_averages.csv.gz")
    reported["name"] = reported["name"].str.replace(r" at 0x[0-9a-f]+>", ">", regex=True)
    reported = reported[reported["name"] != "[memory]"].groupby("name").sum(numeric_only=True)
    ours = analysis.operators(read_trace(folder / f"{name}.pt.trace.json.gz"))
    ours = ours.set_index("name").reindex(reported.index)
    assert (ours["count"] == reported["count"]).mean() > 0.99
    assert ((ours["self_ns"] / 1e3 - reported["self_cpu_time_total_us"]).abs() <= 1).mean() > 0.95
    # recursion: torch adds nested calls of one name to its total, we do not
    excess = ours["total_ns"] / 1e3 - reported["cpu_time_total_us"]
    assert (excess.abs() <= 1).mean() > 0.95
    assert excess.max() <= 1


def test_device_agrees_with_independent_intervals(shared_traces: Path) -> None:
    reported = json.loads((shared_traces / "oracle" / "own_gpu_intervals.json").read_text())
    wrong, checked = {}, 0
    for key, scopes in reported.items():
        folder, _, name = key.rpartition("/")
        path = shared_traces / FOLDERS[folder] / f"{name.removesuffix('.gz')}.gz"
        if not path.exists():
            continue
        columns = ("span", "busy", "idle", "comp", "comm", "mem", "comm_exposed_vs_comp")
        want = [scopes["all"][f"{column}_ns"] for column in columns]
        trace = read_trace(path)
        figures = analysis.device(trace).iloc[0].tolist()[1:]
        checked += 1
        work = trace.slices["category"].isin(DEVICE_CATEGORIES) & trace.slices["device"].notna()
        linked = trace.flows.loc[trace.flows["kind"] == "launch", "dst"]
        counts = [int(work.sum()), len(linked), linked.nunique()]
        reported_counts = [scopes["all"]["n"], *[scopes["linked_to_runtime"]["n"]] * 2]
        if figures != want or counts != reported_counts:
            wrong[key] = (figures, want, counts, reported_counts)
        whole = analysis.distributed(trace, by="trace")
        if len(whole) == 1:  # the figures join all devices of a file
            parts = ["communication_ns", "overlap_ns", "computation_ns", "busy_ns"]
            same = [scopes["all"][f"{name}_ns"] for name in ("comm", "comp_comm_overlap", "comp", "busy")]
            assert whole[parts].iloc[0].tolist() == same, key
    assert not wrong
    assert checked >= 20


def test_peak_of_a_cpu_trace_is_that_of_its_own_events(data: Path) -> None:
    trace = read_trace(data / "torch213_cpu" / "cnn_sgd.pt.trace.json.gz")
    peak = analysis.memory_peak(trace).iloc[0]
    running = trace.allocations["bytes"].cumsum()
    lift = max(0, -int(running.min()))
    assert peak["peak_bytes"] == int(running.max()) + lift
    live = analysis.memory_live(trace)
    assert live["bytes"].sum() == pytest.approx(peak["peak_bytes"], rel=0.05)


def test_phases_of_a_cnn(data: Path) -> None:
    """The script that made the recording wrapped its own parts in ranges; phases must agree with them."""
    trace = read_trace(data / "torch213_cpu" / "cnn_sgd.pt.trace.json.gz")
    table = analysis.phases(trace).groupby("phase", observed=True)["host_ns"].sum()
    slices = trace.slices
    for phase in ("data", "forward", "backward", "optimizer"):
        range_ns = slices.loc[slices["name"] == f"## {phase} ##", "dur"].sum()
        assert range_ns > 0
        assert table[phase] == pytest.approx(range_ns, rel=0.15), phase
