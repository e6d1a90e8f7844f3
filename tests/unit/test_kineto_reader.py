"""The reader of Kineto's files: exact, tolerant, and it says what it could not use."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.readers import read_trace
from notebook_prof.readers.kineto import read_columns
from notebook_prof.trace import ImportReport, Trace

BASE = 1_790_857_026_000_000_000


def op(name: str, ts: str, dur: str, tid: Any = 7, cat: str = "cpu_op", **args: Any) -> str:
    """One row, with times as text."""
    return (
        f'{{"ph": "X", "cat": "{cat}", "name": {json.dumps(name)}, "pid": 5, "tid": {json.dumps(tid)}, '
        f'"ts": {ts}, "dur": {dur}, "args": {json.dumps(args)}}}'
    )


def write(folder: Path, *rows: str, head: str = '"schemaVersion": 1') -> Path:
    path = folder / "trace.json"
    path.write_text(f'{{{head}, "traceEvents": [{", ".join(rows)}]}}')
    return path


def names(trace: Trace) -> list[str]:
    return trace.slices["name"].astype(str).tolist()


def test_the_base_makes_times_absolute(tmp_path: Path) -> None:
    head = f'"schemaVersion": 1, "baseTimeNanoseconds": {BASE}'
    trace = read_trace(write(tmp_path, op("a", "10.123", "1.000"), op("b", "10.500", "0.001"), head=head))
    assert trace.metadata["start_unix_ns"] == BASE + 10123
    assert trace.slices["ts"].tolist() == [0, 377]
    assert trace.slices["dur"].tolist() == [1000, 1]


def test_bad_rows_are_counted_and_good_ones_kept(tmp_path: Path) -> None:
    rows = [
        op("good", "1", "5"),
        op("no time", "null", "5"),
        op("text time", '"2.5"', "1"),
        '{"ph": "X", "name": 7, "ts": 1, "dur": 1}',
        "{}",
        "null",
        "17",
        '{"ph": "Q", "name": "unknown phase", "ts": 1}',
        '{"ph": "X", "cat": "cpu_op", "name": "no args", "ts": 3, "dur": 1, "args": null, "tid": null}',
    ]
    trace = read_trace(write(tmp_path, *rows))
    assert sorted(names(trace)) == ["7", "good", "no args", "text time"]
    assert trace.report["broken-row"].count == 3
    assert trace.report["row-not-used"].count == 2


def test_a_new_category_is_kept_and_reported(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, op("a", "1", "1", cat="xpu_dreams")))
    assert trace.slices["category"].tolist() == ["operator"]
    assert "xpu_dreams" in trace.report["unknown-category"].example


def test_shapes_have_one_spelling(tmp_path: Path) -> None:
    rows = (
        op("aten::cat", "1", "1", **{"Input Dims": [[[2, 3], [2, 3]], []]}),
        op("aten::mm", "3", "1", **{"Input Dims": [[4, 2], [2, 1]]}),
        op("aten::ones", "5", "1"),
    )
    shapes = read_trace(write(tmp_path, *rows)).slices["shapes"]
    texts = shapes.astype(object).where(shapes.notna(), None).tolist()
    assert texts == ["[[[2, 3], [2, 3]], []]", "[[4, 2], [2, 1]]", None]


def test_one_launch_owns_many_kernels_and_hands_down_its_phase(tmp_path: Path) -> None:
    rows = (
        op("Optimizer.step#SGD.step", "0", "100", cat="user_annotation"),
        op("cudaGraphLaunch", "10", "5", cat="cuda_runtime", correlation=3),
        op("cudaDeviceSynchronize", "20", "5", cat="cuda_runtime", correlation=4),
        op("sgemm", "200", "5", tid=9, cat="kernel", correlation=3, device=1, stream=9),
        op("ncclKernel_AllReduce", "210", "5", tid=9, cat="kernel", correlation=3, device=1, stream=9),
        op("Memset (Device)", "220", "5", tid=9, cat="gpu_memset", correlation=77, device=1, stream=9),
    )
    trace = read_trace(write(tmp_path, *rows))
    slices = trace.slices.set_index("name")
    assert slices["category"].astype(object).to_dict() == {
        "Optimizer.step#SGD.step": "annotation",
        "cudaGraphLaunch": "launch",
        "cudaDeviceSynchronize": "sync",
        "sgemm": "kernel",
        "ncclKernel_AllReduce": "collective",
        "Memset (Device)": "memset",
    }
    assert slices["phase"].astype(object)["sgemm"] == "optimizer"
    assert len(trace.flows) == 2
    assert trace.report["device-work-without-launch"].count == 1
    assert trace.tracks["name"].tolist() == ["thread 7", "GPU 1 stream 9"]


def test_the_operator_that_started_last_made_the_backward_node(tmp_path: Path) -> None:
    node = "autograd::engine::evaluate_function: MmBackward0"
    rows = (
        op("nn.Module#block.linear", "0", "10"),
        op("aten::linear", "1", "8", **{"Sequence number": 4, "Fwd thread id": 0}),
        op("aten::mm", "2", "6", **{"Sequence number": 4, "Fwd thread id": 0}),
        op("aten::sum", "20", "6", **{"Sequence number": 5, "Fwd thread id": 0}),
        op(node, "40", "6", tid=8, **{"Sequence number": 4, "Fwd thread id": 1}),
        op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "50", "2", tid=8),
    )
    trace = read_trace(write(tmp_path, *rows))
    table = trace.slices
    assert table["name"][trace.flows["src"]].tolist() == ["aten::mm"]
    assert table["name"][trace.flows["dst"]].tolist() == [node]
    module = table["module"].astype(object)
    assert module.where(module.notna(), None).tolist() == ["block.linear"] * 3 + [None] + ["block.linear"] * 2
    assert table["phase"].astype(object).tolist() == ["forward"] * 4 + ["backward"] * 2
    assert table["category"].astype(object).tolist()[0] == "module"


EVENT = """{"ph": "X", "cat": "cpu_op", "name": "aten::conv2d", "pid": 5, "tid": 7, "ts": 4392371366199.943,
    "dur": 33378.570, "args": {"Sequence number": 40, "Fwd thread id": 0, "Concrete Inputs": ["", "[1, 1]"],
    "Input type": ["float", "ScalarList"], "Input Dims": [[64, 3], []], "Ev Idx": 4}}"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("33378.570", "3.570"),
        ("33378.570", "33378.57"),
        ("33378.570", "0.0"),
        ("33378.570", "333785.70e-1"),
        ("4392371366199.943", "4392371366199"),
        ("4392371366199.943", "4392371366199999.943"),
        ('"Sequence number": 40', '"Sequence number": 999999999999999999'),
        ('"Sequence number": 40', '"Sequence number": 9223372036854775807'),
        ('"Sequence number": 40', '"Sequence number": -40'),
        ('"Ev Idx": 4', '"Ev Idx": 4, "Sequence number": 77'),
        ('"tid": 7', '"tid": 7, "ts": 3'),
        ("aten::conv2d", "f(){lambda}::{\\n"),
        ('"Input Dims": [[64, 3], []]', '"Input Dims": [[1, 2], [3]]'),
        (', "args": {', ', "id": 3, "args": {'),
    ],
)
def test_an_event_is_what_its_json_says(old: str, new: str) -> None:
    assert old in EVENT
    text = EVENT.replace(old, new)
    event = json.loads(text, parse_float=Decimal)
    file = f'{{"baseTimeNanoseconds": 17, "traceEvents": [{EVENT}, {text}, {EVENT}]}}'
    columns = read_columns(file.encode(), ImportReport())
    assert len(columns) == 3
    assert columns.ts[1] == event["ts"] * 1000 + 17
    assert columns.dur[1] == event["dur"] * 1000
    assert columns.name.values[columns.name.codes[1]] == event["name"]
    assert columns.sequence[1] == event["args"]["Sequence number"]
    assert columns.shapes is not None
    assert columns.shapes.values[columns.shapes.codes[1]] == repr(event["args"]["Input Dims"])
    assert (columns.pid[1], columns.tid[1]) == (5, 7)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("33378.570", "033378.570"),
        ('"Ev Idx": 4', '"Ev Idx": 04'),
        ('"Fwd thread id": 0', '"Fwd thread id": 01'),
    ],
)
def test_numbers_that_json_forbids_cost_their_row(old: str, new: str) -> None:
    report = ImportReport()
    file = f'{{"baseTimeNanoseconds": 17, "traceEvents": [{EVENT}, {EVENT.replace(old, new)}, {EVENT}]}}'
    assert len(read_columns(file.encode(), report)) == 2
    assert report["broken-row"].count == 1


def test_texts_of_arguments_are_kept_apart_whatever_is_in_them() -> None:
    """Many are copied at once, around a character that JSON does not allow in them."""
    shapes = ["[[1]]", '["\\u0000"]', "[[2], []]", '["a"]']
    events = [EVENT.replace("[[64, 3], []]", shape) for shape in shapes]
    file = f'{{"baseTimeNanoseconds": 17, "traceEvents": [{", ".join(events)}]}}'
    columns = read_columns(file.encode(), ImportReport())
    assert columns.shapes is not None
    assert list(columns.shapes.values) == [repr(json.loads(shape)) for shape in shapes]


def test_a_character_that_json_forbids_in_arguments_is_mended() -> None:
    report = ImportReport()
    events = [EVENT, EVENT.replace("[[64, 3], []]", '["a\0b"]'), EVENT]
    file = f'{{"baseTimeNanoseconds": 17, "traceEvents": [{", ".join(events)}]}}'
    columns = read_columns(file.encode(), report)
    assert columns.shapes is not None
    assert list(columns.shapes.values) == ["[[64, 3], []]", "['a b']"]
    assert report["invalid-json"].count == 1


def test_a_step_that_only_the_device_has_seen_is_none(tmp_path: Path) -> None:
    """Six of eight ranges belong to steps of the host: so many have Steps, Input and Distributed."""
    rows = []
    for number in range(1008, 1016):
        at, ranged = 1000 * number, f"ProfilerStep#{number}"
        on_stream = {"tid": 7, "device": 0, "stream": 7}
        rows.append(op(ranged, str(at + 200), "700", cat="gpu_user_annotation", **on_stream))
        if number in (1008, 1015):
            continue
        rows += [
            op(ranged, str(at), "900", tid=1, cat="user_annotation"),
            op("aten::mm", str(at + 10), "300", tid=1),
            op("cudaLaunchKernel", str(at + 20), "5", tid=1, cat="cuda_runtime", correlation=number),
            op("gemm", str(at + 300), "400", cat="kernel", correlation=number, **on_stream),
            op("ncclDevKernel_AllReduce_Sum_f32", str(at + 710), "80", cat="kernel", **on_stream),
            op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", str(at + 400), "100", tid=1),
        ]
    p = Profile(read_trace(write(tmp_path, *rows)))
    real = list(range(1009, 1015))
    assert p.trace.steps["step"].tolist() == real
    for table in (p.steps.trace(), p.input.pipeline(), p.distributed()):
        assert table["step"].tolist() == real


@pytest.mark.parametrize(
    ("edge_us", "filled", "real"),
    [
        (20, (3, 5), [3, 4, 5]),
        (900, (3, 5), [2, 3, 4, 5, 6]),
        (20, (2, 3, 4, 5, 6), [2, 3, 4, 5, 6]),
        (20, (), [2, 3, 4, 5, 6]),
    ],
)
def test_a_short_step_with_nothing_in_it_at_an_edge_is_none(
    tmp_path: Path, edge_us: int, filled: tuple[int, ...], real: list[int]
) -> None:
    """The profiler was stopped as it began. A long one took time, and stays."""
    rows = []
    for number in range(2, 7):
        length = str(edge_us if number in (2, 6) else 900)
        rows.append(op(f"ProfilerStep#{number}", str(1000 * number), length, cat="user_annotation"))
        if number in filled:
            rows.append(op("aten::mm", str(1000 * number + 10), "300", tid=8))
    trace = read_trace(write(tmp_path, *rows))
    assert trace.steps["step"].tolist() == real
    assert len(trace.slices) == len(rows), "its range stays in the timeline"
    found = [(one.count, one.example) for one in trace.report if one.code == "empty-step"]
    assert found == ([(2, "ProfilerStep#2")] if len(real) < 5 else [])
