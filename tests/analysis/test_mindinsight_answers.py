"""MindInsight's answers about steps, queues, operators and timelines that no other test compares."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Trace, read_trace
from notebook_prof.analysis import input_operators

RESOURCE = Path("fetched", "mindinsight", "tests", "utils", "resource")
ORACLE = Path("fetched", "mindinsight_oracle")
FOLDERS = {run: RESOURCE / run for run in ("run_1", "run_2")}
FOLDERS |= dict.fromkeys(("profiler_0", "profiler_1"), RESOURCE / "profiler")
FOLDERS["v200_minddata"] = Path("mindspore", "v200_minddata")
MS, US = 1e6, 1e3


@cache
def opened(path: Path) -> Trace:
    return read_trace(path)


class Run:
    """A folder, its rank that MindInsight was asked for, and the answers."""

    def __init__(self, shared: Path, name: str) -> None:
        self._folder = shared / FOLDERS[name]
        self.trace = opened(self._folder)
        own = Path("mindspore", "mindinsight_oracle") if name.startswith("v200") else ORACLE
        self._answers = shared / own / name
        self.rank = 1 if name in ("run_1", "run_2", "profiler_1") else 0

    def read(self, name: str) -> Any:
        return json.loads((self._answers / f"{name}.json").read_text())

    def listed(self, name: str) -> pd.DataFrame:
        answer = self.read(name)
        return pd.DataFrame(answer["object"], columns=answer["col_name"])

    def pipeline(self) -> Trace:
        """Of the file that MindInsight answers from."""
        # It is derived from the profiler's own, ``pipeline_profiling``, which we prefer in a folder; in these
        # samples the two disagree, and operators without a queue are in the profiler's own only.
        name = f"minddata_pipeline_raw_{self.rank}.csv"
        return opened(next(path for path in sorted(self._folder.rglob(name))))

    def table(self, name: str) -> pd.DataFrame:
        table = self.trace.metadata["tables"][name]
        return table[table["rank"] == self.rank]


@pytest.fixture
def run(shared_traces: Path, name: str) -> Run:
    return Run(shared_traces, name)


@pytest.mark.parametrize("name", ["run_1", "profiler_0"])
def test_the_graph_of_an_average_step(run: Run) -> None:
    graph = run.read("step_trace_graph_avg")
    lanes = graph["training_trace_graph"]
    average = run.table("step_trace_average").iloc[0]
    parts = [round(average[f"{part}_ns"] / MS, 4) for part in ("interval", "fp_bp", "tail")]
    assert graph["size"] == len(run.table("step_trace"))
    assert [block["duration"] for block in lanes[0]] == [round(average["total_ns"] / MS, 4)]
    assert [block["duration"] for block in lanes[1]] == parts
    assert [block["start"] for block in lanes[1]] == pytest.approx([0, parts[0], sum(parts[:2])], abs=1e-3)
    # its reduces are the mean of all steps but the first, which has no start of its own
    reduces, steps = run.table("reduces"), run.table("step_trace").set_index("step")
    own = reduces.assign(offset=reduces["start_ns"] - steps["start_ns"].loc[reduces["step"]].to_numpy())
    own = own[own["step"] > steps.index.min()].groupby("name")[["offset", "dur_ns"]].mean() / MS
    blocks = [block for lane in lanes[2:] for block in lane if block["name"]]
    assert len(blocks) > 2
    for block in blocks:
        times = own.loc[block["name"]].tolist()
        assert times == pytest.approx([block["start"], block["duration"]], abs=6e-4), block


@pytest.mark.parametrize("name", ["run_1", "run_2", "profiler_0", "v200_minddata"])
def test_queues_of_every_data_operator(run: Run) -> None:
    table = run.pipeline().metadata["tables"]["minddata_pipeline"].set_index("op_id")
    reported = run.read("minddata_pipeline_op_queues")
    assert {int(key) for key in reported} == set(table.index)
    queues = {int(key): answer for key, answer in reported.items() if answer["queue_info"]}
    assert queues
    for op, answer in queues.items():
        row, want = table.loc[op], answer["queue_info"]
        found = (row["op_type"], row["parent"])
        assert found == (answer["current_op"]["op_type"], answer["parent_op"]["op_id"])
        assert list(row["sizes"]) == want["output_queue_size"]
        figures = [row["queue_mean"], row["queue_length"], row["queue_usage"], row["interval_ns"] / MS]
        keys = ("average_size", "length", "usage_rate")
        reported_figures = [*(want[f"output_queue_{key}"] for key in keys), want["sample_interval"]]
        assert figures == pytest.approx([float(value) for value in reported_figures], abs=1e-4)


@pytest.mark.parametrize("name", ["run_1", "run_2", "profiler_0", "v200_minddata"])
def test_the_slowest_data_operator(run: Run) -> None:
    reported = run.listed("minddata_pipeline_bottleneck")
    table = input_operators(run.pipeline())
    table = table[table["suspect"]]
    assert table["op_id"].tolist() == reported["op_id"].tolist()


@pytest.mark.parametrize("name", ["run_1", "profiler_1"])
def test_the_longest_operators_of_the_ai_core(run: Run) -> None:
    reported = run.listed("aicore_detail_top20").set_index("op_name")
    own = run.table("operator_details").set_index("full_name").loc[reported.index]
    assert len(reported) >= 5
    np.testing.assert_allclose(own["mean_ns"] / US, reported["avg_execution_time"], atol=6e-4)
    assert own["count"].tolist() == reported["execution_frequency"].tolist()
    assert own["type"].tolist() == reported["kernel_type"].tolist()
    info = run.table("framework").set_index("full_name")
    for name, want in reported["op_info"].items():
        shapes = [part["shape"] for key, part in want.items() if key.startswith("input")]
        listed = [
            [int(n) for n in shape.split(",") if n] if isinstance(shape, str) else shape for shape in shapes
        ]
        assert json.loads(info.loc[name, "shapes"]) == listed, name


@pytest.mark.parametrize("name", ["run_2"])
def test_operators_of_the_ai_cpu(run: Run) -> None:
    reported = run.listed("aicpu_detail").set_index("kernel_name")
    own = run.table("aicpu").groupby("type")[["total_ns", "dispatch_ns"]].agg(["mean", "size"])
    own = own.loc[reported.index]
    assert (own["total_ns", "mean"] / US).tolist() == pytest.approx(reported["avg_execution_time"].tolist())
    assert (own["dispatch_ns", "mean"] / US).tolist() == pytest.approx(reported["dispatch_time"].tolist())
    assert own["total_ns", "size"].tolist() == reported["execution_frequency"].tolist()


@pytest.mark.parametrize("name", ["profiler_0"])
def test_the_timeline_in_short(run: Run) -> None:
    want = run.read("timeline_summary_ascend")
    values = [value for value in run.table("timeline_summary")["value"] if value["num_of_ops"] == 213]
    for key in ("total_time", "num_of_streams", "num_of_ops", "op_exe_times"):
        assert values[0][key] == want[key]


@pytest.mark.parametrize("name", ["run_2"])
def test_the_processor(run: Run) -> None:
    table = run.table("minddata_cpu")
    idle = table[(table["metric"] == "idle_utilization") & (table["op_id"] == -1)]["value"]
    reported = run.read("minddata_cpu_utilization")
    assert run.read("proposals")["minddata_cpu_utilization"] == [100 - round(idle.mean())]
    # a sample belongs to the step that it ends: the first ends none
    assert reported["device_info"]["idle_utilization"]["metrics"] == idle.tolist()[1:]
