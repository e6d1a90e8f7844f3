"""MindSpore's profiles against MindInsight's answers for the same folders."""

import contextlib
import gzip
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import NotebookProfError, Trace, read_trace
from notebook_prof.analysis import device, kernels, operators, phases
from notebook_prof.errors import FormatError, OptionError

RESOURCE = Path("fetched", "mindinsight", "tests", "utils", "resource")
MS = 1e6


@pytest.fixture
def folder(data: Path) -> Path:
    return data / "mindspore"


def answer(run: Path, name: str) -> Any:
    return json.loads((run / f"{name}.json").read_bytes())


def tables(trace: Trace) -> dict[str, pd.DataFrame]:
    tables_of: dict[str, pd.DataFrame] = trace.metadata["tables"]
    return tables_of


def test_operators_of_the_cpu_profile_are_those_of_mindinsight(folder: Path) -> None:
    trace = read_trace(folder / "v200_graph")
    want = answer(folder / "mindinsight_oracle" / "v200_graph", "cpu_op_detail")
    reported = pd.DataFrame(want["object"], columns=want["col_name"]).set_index("full_op_name")
    ops = trace.slices[trace.slices["category"] == "operator"]
    assert len(ops) == 680
    assert ops["dur"].sum() == 146_705_656
    got = ops.groupby(ops["name"].astype(str))["dur"].agg(["size", "sum"])
    assert len(got) == len(reported) == 34
    got = got.reindex(reported["op_name"])
    assert (got["size"].to_numpy() == reported["op_occurrences"]).all()
    np.testing.assert_allclose(got["sum"] / 1e3, reported["op_total_time"], rtol=1e-5)
    table = operators(trace)
    assert table["count"][table["name"].isin(reported["op_name"])].sum() == 680
    assert table["name"].iloc[0] == "Conv2D-op93"


def test_tables_of_the_cpu_profile_are_those_of_mindinsight(folder: Path) -> None:
    ours = tables(read_trace(folder / "v200_graph"))
    want = answer(folder / "mindinsight_oracle" / "v200_graph", "cpu_op_type")
    reported = pd.DataFrame(want["object"], columns=want["col_name"])
    got = ours["operator_types"]
    assert got["type"].tolist() == reported["op_type"].tolist()
    assert got["count"].tolist() == reported["type_occurrences"].tolist()
    np.testing.assert_allclose(got["total_ns"] / 1e3, reported["total_compute_time"])
    np.testing.assert_allclose(got["share"] * 100, reported["total_time_proportion"], rtol=1e-3)
    conv = got.set_index("type").loc["Conv2D"]
    assert (round(conv["total_ns"] / MS, 4), round(conv["share"], 4)) == (47.0658, 0.3208)


def test_steps_scopes_shapes_and_phases_of_the_cpu_profile(folder: Path) -> None:
    trace = read_trace(folder / "v200_graph")
    assert not trace.report
    assert trace.metadata["mindspore"] == "2.0.0"
    assert trace.steps["step"].tolist() == list(range(1, 21))
    assert trace.steps["dur"].tolist()[:2] == [33_943_422, 7_800_531]
    ops = trace.slices[trace.slices["category"] == "operator"].astype({"name": str, "module": str})
    first = ops.iloc[0]
    facts = ["Conv2D-op93", "network._backbone.conv1", "forward", "[[16, 3, 32, 32], [16, 3, 3, 3]]"]
    assert first[["name", "module", "phase", "shapes"]].tolist() == facts
    assert (ops["self_ns"] == ops["dur"]).all()
    assert trace.slices["category"].iloc[int(first["parent"])] == "module"
    parts = phases(trace).groupby("phase", observed=True)["host_ns"].sum()
    assert parts.sum() == trace.steps["dur"].sum()
    assert parts["backward"] > parts["optimizer"] > 0
    assert (tables(trace)["step_trace"]["points"] == "names").all()


def test_the_data_pipeline_is_that_of_mindinsight(folder: Path) -> None:
    trace = read_trace(folder / "v200_minddata")
    oracle = folder / "mindinsight_oracle" / "v200_minddata"
    tables_read = tables(trace)
    queue = tables_read["minddata_queue"]
    size, cost = answer(oracle, "device_queue_info")
    assert queue["size"].tolist() == size["info"]["queue"]
    assert (int((queue["size"] == 0).sum()), len(queue)) == (79, 80)
    for ours, theirs in (("total_ns", "total_cost"), ("push_ns", "push_cost"), ("get_ns", "get_cost")):
        assert (queue[ours] / MS).tolist() == cost["info"][theirs]
    assert queue["get_ns"].mean() / MS == pytest.approx(8.8125)
    want = answer(oracle, "minddata_pipeline_all")
    reported = pd.DataFrame(want["object"], columns=want["col_name"])
    got = tables_read["minddata_pipeline"]
    assert got["op_type"].tolist() == reported["op_type"].tolist()
    np.testing.assert_allclose(got["queue_mean"], reported["output_queue_average_size"].astype(float))
    np.testing.assert_allclose(got["queue_usage"][1:], reported["output_queue_usage_rate"].astype(float)[1:])
    assert got["parent"].tolist() == [-1, 0, 1, 2]
    names = trace.tracks["name"][trace.tracks["kind"] == "counter"].tolist()
    assert {"host queue", "queue of MapOp_2", "processor user_utilization"} <= set(names)
    batches = trace.slices
    assert len(batches) == 80
    assert set(batches["category"]) == {"io"}
    assert set(batches["phase"]) == {"data"}


def test_a_profile_of_2_10_has_full_names_and_wall_time(folder: Path) -> None:
    trace = read_trace(folder / "v2100_graph")
    assert not trace.report
    ops = trace.slices[trace.slices["category"] == "operator"]
    assert len(ops) == 114
    assert trace.metadata["start_unix_ns"] == 1795249514418282026
    assert (trace.slices["category"] == "module").sum() == 187
    got = ops.groupby([ops["name"].astype(str), ops["module"].astype(str)])["dur"].sum().sum()
    assert got / MS == pytest.approx(tables(trace)["operator_details"]["total_ns"].sum() / MS, rel=1e-4)
    assert ops["shapes"].notna().sum() == 0 or ops["shapes"].notna().all()


def test_a_single_file_is_known_by_its_content(folder: Path, tmp_path: Path) -> None:
    view = next(folder.glob("v2100_graph/*/ASCEND_PROFILER_OUTPUT/trace_view.json*"))
    for name in ("unknown", "kernel.csv"):
        path = tmp_path / name
        shutil.copy(view, path)
        trace = read_trace(path)
        assert trace.metadata["source"] == "mindspore"
        assert (trace.slices["category"] == "operator").sum() == 114
        assert trace.tracks["rank"].isna().all()
    shutil.copy(next(folder.glob("v200_graph/profiler/cpu_timeline_display_0.json*")), tmp_path / "unknown")
    trace = read_trace(tmp_path / "unknown")
    assert (trace.metadata["source"], len(trace.steps)) == ("mindspore", 20)
    assert (trace.slices["category"] == "operator").sum() == 680
    detail = next(folder.glob("v200_graph/profiler/cpu_op_detail_info_0.csv*"))
    shutil.copy(detail, tmp_path / "unknown")
    assert len(tables(read_trace(tmp_path / "unknown"))["operator_details"]) == 34


def test_points_are_named_by_argument(folder: Path) -> None:
    run = folder / "v200_graph"
    names = tables(read_trace(run))["step_trace"]
    fp = "Default/network-WithLossCell/_backbone-Net/relu-ReLU/ReLU-op95"
    trace = read_trace(run, fp_point=fp, bp_point="MaxPoolGrad-op121")
    table = tables(trace)["step_trace"]
    assert set(table["points"]) == {"argument"}
    origin = trace.metadata["start_unix_ns"]
    slices = trace.slices.assign(name=trace.slices["name"].astype(str))
    starts = slices["ts"][slices["name"] == "ReLU-op95"].to_numpy()
    ends = (slices["ts"] + slices["dur"])[slices["name"] == "MaxPoolGrad-op121"].to_numpy()
    assert (table["fp_ns"] - origin).tolist() == starts.tolist()
    assert (table["bp_ns"] - origin).tolist() == ends.tolist()
    assert (table["interval_ns"] > names["interval_ns"]).all()
    parts = table["interval_ns"] + table["fp_bp_ns"] + table["tail_ns"]
    assert (parts == table["total_ns"]).all()
    with pytest.raises(OptionError, match=r"no operator 'ReLU-op59'.*did you mean"):
        read_trace(run, fp_point="ReLU-op59")
    with pytest.raises(OptionError, match=r"choose from fp_point, bp_point|did you mean"):
        read_trace(run, fp="x")


@pytest.mark.parametrize(("run", "oracle"), [("run_1/normal_run", "run_1"), ("profiler", "profiler_0")])
def test_step_traces_are_those_of_mindinsight(shared_traces: Path, run: str, oracle: str) -> None:
    ours = tables(read_trace(shared_traces / RESOURCE / run))
    answers = shared_traces / "fetched" / "mindinsight_oracle" / oracle
    steps = ours["step_trace"]
    for part, column in (
        ("total", "total_ns"),
        ("iteration_interval", "interval_ns"),
        ("fp_and_bp", "fp_bp_ns"),
        ("tail", "tail_ns"),
    ):
        want = answer(answers, f"step_trace_proc_{part}")["info"][part]
        assert [round(ns / MS, 4) for ns in steps[column]] == want
    summary = answer(answers, "step_trace_summary")
    assert len(steps) == summary["total_steps"]
    average = ours["step_trace_average"].iloc[0]
    got = {key: round(average[f"{name}_ns"] / MS, 4) for key, name in (
        ("total_time", "total"), ("iteration_interval", "interval"), ("fp_and_bp", "fp_bp"), ("tail", "tail")
    )}  # fmt: skip
    assert got == {key: summary[key] for key in got}
    graph = answer(answers, "step_trace_graph_step1")["training_trace_graph"]
    first = ours["reduces"][ours["reduces"]["step"] == 1]
    blocks = [block for lane in graph[2:] for block in lane if block["name"]]
    fp = steps["fp_ns"].iloc[0]
    own = {
        name: (round((start - steps["start_ns"].iloc[0]) / MS, 4), round(dur / MS, 4))
        for name, start, dur in zip(first["name"], first["start_ns"], first["dur_ns"], strict=True)
    }
    assert fp == steps["start_ns"].iloc[0]
    for block in blocks:
        assert own[block["name"]] == pytest.approx((block["start"], block["duration"]), abs=1.1e-4)


def test_an_ascend_profile_lies_on_one_clock(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / RESOURCE / "run_1")
    assert [issue.code for issue in trace.report] == ["redundant-file"]
    kinds = trace.slices["category"].value_counts()
    assert (kinds["kernel"], kinds["collective"]) == (2817, 3542)
    assert trace.metadata["start_unix_ns"] == 438_068_415_920
    assert trace.steps["ts"].iloc[0] == 89_550
    assert set(kernels(trace)["name"]) >= {"AssignAdd-op414", "Split-op39"}
    assert device(trace)["communication_ns"].iloc[0] > 0


def test_the_raw_record_gives_the_same_steps(shared_traces: Path) -> None:
    table = tables(read_trace(shared_traces / RESOURCE / "run_1"))
    own = tables(read_trace(shared_traces / "fetched" / "mindinsight_raw" / "JOB3"))
    columns = ["step", "start_ns", "fp_ns", "bp_ns", "end_ns", "total_ns"]
    pd.testing.assert_frame_equal(own["step_trace"][columns], table["step_trace"][columns])
    keys = ["step", "stream", "start_ns", "dur_ns"]
    a, b = (frame["reduces"][keys].sort_values(keys).reset_index(drop=True) for frame in (own, table))
    pd.testing.assert_frame_equal(a, b, check_dtype=False)


def test_ai_core_and_ai_cpu_tables_are_those_of_mindinsight(shared_traces: Path) -> None:
    ours = tables(read_trace(shared_traces / RESOURCE / "run_2"))
    answers = shared_traces / "fetched" / "mindinsight_oracle" / "run_2"
    aicpu = ours["aicpu"].groupby("type", sort=False)["total_ns"].agg(["sum", "size"])
    want = answer(answers, "aicpu_type")["object"]
    assert [
        [n, round(t / 1e3, 3), int(c)] for n, t, c in zip(aicpu.index, *aicpu.T.to_numpy(), strict=True)
    ] == [row[:3] for row in want]
    shares = (aicpu["sum"] / aicpu["sum"].sum() * 100).round(2).tolist()
    assert shares == [row[3] for row in want]
    want = answer(answers, "aicore_type")
    reported = pd.DataFrame(want["object"], columns=want["col_name"]).set_index("kernel_type")
    got = ours["operator_types"].set_index("type").loc[reported.index]
    np.testing.assert_allclose(got["total_ns"] / 1e3, reported["total_time"], atol=5e-4)
    assert got["count"].tolist() == reported["execution_frequency"].tolist()
    assert ours["minddata_next"]["size"].tolist() == [3, 2, 1]
    assert (ours["minddata_next"]["wait_ns"] / MS).tolist() == [0.001, 0.0, 0.001]


def test_a_cluster_folder_holds_all_ranks(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / RESOURCE / "cluster_propose")
    ours = tables(trace)
    answers = shared_traces / "fetched" / "mindinsight_oracle" / "cluster_propose"
    want = answer(answers, "cluster_step_trace_step0")["info"]
    average = ours["cluster_steps"][ours["cluster_steps"]["step"] == -1].iloc[:, 2:] / MS
    assert average.round(4).to_numpy().tolist() == [row["step_bottleneck_info"][1:] for row in want]
    interval = (ours["step_trace_average"]["interval_ns"] / MS).round(4).tolist()
    reported = answer(answers, "parallel_get_step_interval")
    assert interval == pytest.approx([row["step_interval"] for row in reported], abs=1.1e-4)
    communication = ours["communication"]
    first = communication[(communication["rank"] == 0) & (communication["step"] == -1)].iloc[0]
    query = answer(answers, "cluster_hccl_query")["communication"][0]["communication_info"]
    assert first["communication_ns"] / MS == pytest.approx(query[0])
    assert first["wait_ns"] / MS == pytest.approx(query[1])
    assert first["links"] == query[2]
    assert ours["flops_summary"]["FLOPs"].tolist() == [
        row["FLOPs"] for row in answer(answers, "parallel_get_rank_flops")
    ]
    assert sorted(trace.tracks["rank"].dropna().unique()) == [0, 1, 2, 3]
    assert trace.report["steps-of-other-ranks"].count == 3


def test_msprof_joins_the_host_and_the_device(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "ascend_msprof" / "trace_view.json.gz")
    assert trace.metadata["source"] == "mindspore"
    assert not trace.report
    # the times are strings of microseconds since 1970 with three decimals: nothing is lost
    first = trace.slices[trace.slices["name"] == "aten::empty"].iloc[0]
    assert first["ts"] + trace.metadata["start_unix_ns"] == 1_704_161_511_420_306_491
    assert trace.flows["kind"].value_counts().to_dict() == {"launch": 274, "fwdbwd": 17, "link": 0}
    table = operators(trace).set_index("name")
    on_device = trace.slices[trace.slices["category"].isin(["kernel", "memcpy"])]
    launched = trace.flows[trace.flows["kind"] == "launch"]["dst"]
    assert table["device_self_ns"].sum() == trace.slices["dur"][launched].sum()
    overlap = tables(trace)["overlap"].groupby("name")["dur_ns"].sum()
    busy = device(trace).iloc[0]["busy_ns"]
    # msprof's "Computing" leaves out the two copies
    copies = on_device["dur"][on_device["category"] == "memcpy"].sum()
    assert busy == pytest.approx(overlap["Computing"], abs=float(copies + 1000))


def test_several_profiles_below_a_folder_are_refused_by_name(shared_traces: Path) -> None:
    with pytest.raises(FormatError, match=r"several MindSpore profiles.*run_1/normal_run/profiler"):
        read_trace(shared_traces / RESOURCE)


def test_a_trailing_comma_and_broken_rows_are_read_over(folder: Path, tmp_path: Path) -> None:
    row = (
        '{"name": "AssignAdd-op1", "ph": "X", "tid": 519, "ts": 5.25, "dur": 3.1, "pid": 1, '
        '"args": {"type": "AssignAdd", "fullname": "Default/AssignAdd-op1"}}'
    )
    (tmp_path / "timeline_display_1.json").write_text(f"[{row},{row},]")
    trace = read_trace(tmp_path)
    assert trace.slices["dur"].tolist() == [3100, 3100]
    assert trace.tracks["name"].tolist() == ["NPU 1 stream 519"]
    (tmp_path / "timeline_display_1.json").write_text(f"[{row}")
    assert len(read_trace(tmp_path)) == 1
    (tmp_path / "step_trace_raw_1_detail_time.csv").write_text(
        "step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail\n"
        "1,100,200,100,110,150,10,40,50\nx,y,z\n2,200,300,100,210,250,10,40,50,7,8,9\n-,1,2,1,1,2,0,1,0\n"
    )
    trace = read_trace(tmp_path)
    assert tables(trace)["step_trace"]["total_ns"].tolist() == [1000]
    assert trace.report["broken-row"].count == 2


def pieces(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            raw = path.read_bytes()
            yield path.name.removesuffix(".gz"), gzip.decompress(raw) if path.suffix == ".gz" else raw


@pytest.mark.parametrize("name", ["v200_graph", "v200_minddata", "v2100_graph"])
def test_damage_gives_a_trace_or_an_error_of_ours(
    folder: Path, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = [(label, content[:3000]) for label, content in pieces(folder / name)]
    run = tmp_path_factory.mktemp("damaged")

    @given(st.data())
    def damaged(data: st.DataObject) -> None:
        label, content = data.draw(st.sampled_from(files))
        at = data.draw(st.integers(0, len(content)))
        junk = data.draw(
            st.sampled_from([b"", b"\x00", b'"', b"]", b"{", b"1e999", b"-1", b",", b"\xff", b"null", b";"])
        )
        cut = data.draw(st.integers(0, 40))
        for other, text in files:
            (run / other).write_bytes(text)
        (run / label).write_bytes(content[:at] + junk + content[at + cut :])
        for path in (run, run / label):
            with contextlib.suppress(NotebookProfError):
                assert read_trace(path).report is not None

    damaged()


def test_what_events_were_called_with_is_kept(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "ascend_msprof" / "trace_view.json.gz")
    arguments = tables(trace)["event_arguments"]
    with gzip.open(shared_traces / "ascend_msprof" / "trace_view.json.gz") as file:
        rows = [row for row in json.load(file) if row["ph"] == "X" and row.get("args")]
    slices = trace.slices.assign(start=trace.slices["ts"] + trace.metadata["start_unix_ns"])
    keys = ["track", "start", "dur", "name"]
    places = set(slices[keys].astype({"name": str}).itertuples(index=False, name=None))
    events = arguments[["track", "start_unix_ns", "dur_ns", "name"]].astype({"name": str})
    assert set(events.itertuples(index=False, name=None)) <= places
    assert Counter(arguments["arguments"].map(lambda text: json.dumps(json.loads(text)))) == Counter(
        json.dumps(row["args"]) for row in rows
    )
