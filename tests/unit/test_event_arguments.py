"""What slices were called and launched with survives a Chrome trace of ours."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.event_tables import slice_rows_of
from notebook_prof.writers.arguments import EventTexts
from tests.round_trip import changes


@pytest.mark.parametrize(
    "sample",
    [
        "data/jax_cpu/vm.xplane.pb.gz",
        "data/paddle/synthetic_rank0.pb.gz",
        "data/viztracer/numpy_loop.min.json.gz",
        "shared/ascend_msprof/trace_view.json.gz",
        "shared/hta/cupti_profiler/benchmark_result_924719_1679055439_trace.json.gz",
        "shared/hta/nccl_data.json.gz",
        "shared/jax_gpu_rocm/tw003.xplane.pb",
        "shared/hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
        "shared/hta/critical_path/event_sync_multi_stream/event_sync_trace.json.gz",
    ],
)
def test_read_write_read_keeps_arguments(sample: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    root, _, name = sample.partition("/")
    folder = request.getfixturevalue({"data": "data", "shared": "shared_traces"}[root])
    before = read_trace(folder / name)
    trace = before
    for turn in range(2):
        trace.to_chrome(tmp_path / f"{turn}.json")
        trace = read_trace(tmp_path / f"{turn}.json")
        assert changes(before, trace) == []


def trace_with_arguments() -> Trace:
    b = TraceBuilder()
    track = b.track("main", pid=1, tid=1)
    b.slices(ts=[100, 100, 100, 130], dur=[20, 20, 20, 5], name=["f", "f", "g", "f"], track=track)
    rows = {"start_unix_ns": [130, 100, 100, 100], "dur_ns": [5, 20, 20, 20], "name": ["f", "f", "f", "f"]}
    table = pd.DataFrame({"track": np.full(4, track, np.int32), **rows})
    table["arguments"] = pd.Categorical(['{"x":"<b>"}', '{"x":[1,2.50]}', '{"x":2}', '{"x":3}'])
    b.metadata["tables"] = {"event_arguments": table}
    return b.seal()


def test_rows_find_their_slices_one_by_one() -> None:
    trace = trace_with_arguments()
    names = trace.slices["name"].astype(str).tolist()
    twins = [i for i, name in enumerate(names) if name == "f"]
    # three rows for two slices: one tells of a slice that is not there
    assert slice_rows_of(trace, "event_arguments").tolist() == [twins[2], twins[0], twins[1], -1]
    part = trace.sel(window=(0, 25))
    assert slice_rows_of(part, "event_arguments").tolist() == [-1, 0, 1, -1]
    texts = EventTexts(part).texts
    assert texts is not None
    assert texts.tolist() == [',"arguments":{"x":[1,2.50]}', ',"arguments":{"x":2}', ""]


def test_a_broken_argument_costs_its_row_only(tmp_path: Path) -> None:
    trace_with_arguments().to_chrome(tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text()
    assert text.count('"arguments":{"x":2}') == 1
    (tmp_path / "b.json").write_text(text.replace('"arguments":{"x":2}', '"device_events":[7]'))
    trace = read_trace(tmp_path / "b.json")
    assert len(trace.slices) == 4
    assert trace.report["broken-arguments"].count == 1
    assert len(trace.metadata["tables"]["event_arguments"]) == 3


def test_other_tools_see_them(tmp_path: Path) -> None:
    trace_with_arguments().to_chrome(tmp_path / "a.json")
    rows = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    args = [row["args"].get("arguments") for row in rows if row["ph"] == "X"]
    assert args.count({"x": "<b>"}) == args.count({"x": 2}) == args.count({"x": [1, 2.5]}) == 1
