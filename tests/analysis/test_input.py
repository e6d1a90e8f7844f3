"""Waiting for data: PyTorch's loaders, and MindData's pipelines against MindInsight's answers."""

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given

from notebook_prof import TraceBuilder, read_trace
from notebook_prof.analysis import input_operators, input_pipeline, input_queues, phases
from tests.recording import add_slices
from tests.strategies import traces

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SEVERAL = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
ANALYSER = "fetched/mindinsight/tests/ut/profiler/analyser/resource"
RESOURCE = "fetched/mindinsight/tests/utils/resource"
ORACLE = "fetched/mindinsight_oracle"


def loading(name, workers=()):
    """Two steps of 100 ns that fetch for 40 and 20 ns, of which operators take 10 and 5."""
    b = TraceBuilder(metadata={"rank": 3})
    main = b.track("main", tid=1)
    b.slices(ts=[0, 100], dur=[40, 20], name=name, phase="data", category="annotation", track=main)
    b.slices(ts=[5, 102], dur=[10, 5], name="aten::stack", phase="data", track=main)
    b.slices(ts=[45, 125], dur=[50, 70], name="aten::mm", phase="forward", track=main)
    for number, (ts, dur) in enumerate(workers):
        add_slices(b, b.track(f"worker {number}", tid=10 + number), "decode", ts, dur, phase="data")
    b.steps([0, 1], [0, 100], [100, 100], "loop")
    return b.seal(window=(0, 200))


def test_a_loader_without_workers():
    table = input_pipeline(loading(SINGLE))
    assert table["loader"].tolist() == ["in-process", "in-process"]
    assert table["fetches"].tolist() == [1, 1]
    assert table["fetch_ns"].tolist() == [40, 20]
    assert table["wait_ns"].tolist() == [0, 0]
    assert table["share"].tolist() == [0.4, 0.2]
    assert table["rank"].tolist() == [3, 3]
    assert table["queue_size"].isna().all()


def test_a_loader_with_workers():
    table = input_pipeline(loading(SEVERAL, workers=[(10, 50), (30, 90)]))
    assert table["loader"].tolist() == ["workers", "workers"]
    assert table["wait_ns"].tolist() == [30, 15]
    assert table["worker_ns"].tolist() == [90, 20]
    assert table["workers"].tolist() == [2, 1]
    assert input_pipeline(loading(SEVERAL), step=1)["step"].tolist() == [1]
    assert input_pipeline(loading(SEVERAL), window=(0, 20))["fetch_ns"].tolist() == [20]


def test_steps_without_a_loader():
    b = TraceBuilder()
    b.slices(ts=0, dur=5, name="aten::mm", phase="forward", track=b.track("main"))
    b.steps(0, 0, 10, "loop")
    row = input_pipeline(b.seal()).iloc[0]
    assert (row["loader"], row["fetches"], row["fetch_ns"]) == ("none", 0, 0)
    assert input_operators(TraceBuilder().seal())["suspect"].dtype == bool


@given(traces())
def test_the_wait_is_part_of_the_fetch_and_the_fetch_of_the_step(trace):
    table = input_pipeline(trace)
    assert (table["wait_ns"] <= table["fetch_ns"]).all()
    assert (table["fetch_ns"] <= table["dur"]).all()
    data = phases(trace)
    data = data[data["phase"] == "data"]
    # communication has priority over data where phases divide a step
    assert len(table) == len(data)


def test_the_loader_of_a_v100(shared_traces: Path):
    name = "resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz"
    table = input_pipeline(read_trace(shared_traces / "kineto_2021" / name))
    assert set(table["loader"]) == {"workers"}
    assert table["fetches"].tolist() == [1] * 6
    assert (table["share"] < 0.03).all()


def test_suspects_are_those_of_mindinsight(shared_traces: Path):
    trace = read_trace(shared_traces / ANALYSER)
    reported = json.loads((shared_traces / ORACLE / "minddata_pipeline_suspects_2.3.1.json").read_text())
    reported = {int(name.rsplit("_", 1)[1]): set(ids) for name, ids in reported.items()}
    assert _suspects(input_operators(trace)) == reported


def _suspects(table: pd.DataFrame) -> dict[int, set[int]]:
    return table[table["suspect"]].groupby("rank")["op_id"].agg(set).to_dict()


def test_queues_of_a_real_pipeline(shared_traces: Path):
    trace = read_trace(shared_traces / "mindspore" / "v200_minddata")
    answers = shared_traces / "mindspore" / "mindinsight_oracle" / "v200_minddata"
    reported = json.loads((answers / "queue_summary.json").read_text())["device_queue_info"]["summary"]
    host = input_queues(trace).iloc[0]
    assert (host["queue"], host["finding"]) == ("host", "data_process")
    counts = ("total_batch", "empty_batch_count", "full_batch_count")
    assert host[["samples", "empty", "full"]].tolist() == [reported[count] for count in counts]
    assert input_pipeline(trace)["wait_ns"].mean() / 1e6 == 8.8125
    pipeline = json.loads((answers / "minddata_pipeline_all.json").read_text())
    names = pipeline["col_name"]
    rows = pd.DataFrame(pipeline["object"], columns=names).set_index("op_id").iloc[1:]
    children = input_operators(trace).set_index("op_id").iloc[1:]
    assert children["usage"].tolist() == rows["output_queue_usage_rate"].tolist()
    assert children["queue_mean"].tolist() == rows["output_queue_average_size"].tolist()
    assert children.loc[children["suspect"], "name"].tolist() == ["MapOp_2"]


@pytest.mark.parametrize("run", ["run_2/normal_run/profiler", "profiler"])
def test_findings_of_mindinsight(shared_traces: Path, run: str):
    trace = read_trace(shared_traces / RESOURCE / run)
    name = "run_2" if run.startswith("run_2") else "profiler_0"
    reported = json.loads((shared_traces / ORACLE / name / "queue_summary.json").read_text())
    table = input_queues(trace)
    rank = table["rank"].iloc[0]
    findings = ("data_process", "data_transmission")
    warned = [key for key in findings if reported.get(key, {}).get("status") == "warning"]
    assert table.loc[table["queue"] == "host", "finding"].tolist() == warned
    if "get_next_queue_info" in reported:
        device = table[table["queue"] == "device"].iloc[0]
        summary = reported["get_next_queue_info"]["summary"]
        assert (device["samples"], device["empty"]) == (summary["total_batch"], summary["empty_batch_count"])
    operators = input_operators(trace)
    own = operators[operators["rank"] == rank]
    assert own.loc[own["suspect"], "name"].tolist() == ["ImageFolderOp_3"]


def test_the_rule_on_drawn_queues():
    def finding(host, device):
        tables = {"minddata_queue": pd.DataFrame({"rank": 0, "step": range(10), "capacity": 4, "size": host})}
        if device is not None:
            tables["minddata_next"] = pd.DataFrame({"rank": 0, "start_ns": 0, "wait_ns": 0, "size": device})
        return input_queues(TraceBuilder(metadata={"tables": tables}).seal())["finding"].iloc[0]

    half, never = [0] * 5 + [2] * 5, [2] * 10
    assert finding(half, None) == finding(half, [0, 1]) == "data_process"
    assert finding(never, [0, 1]) == "data_transmission"
    assert finding(never, [1, 1]) == finding(never, None) == "device_queue"
