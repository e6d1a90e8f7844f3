"""What the project's notes on Kineto's files measured with other tools: leftovers, annotations, Triton."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from notebook_prof.readers import read_trace
from notebook_prof.trace import DEVICE_CATEGORIES, Trace
from notebook_prof.trace.event_tables import slice_rows_of

NS_RESOLUTION = "hta/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"


def work(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    s = trace.slices
    return (s["device"].notna() & s["category"].isin(DEVICE_CATEGORIES)).to_numpy()


@pytest.mark.parametrize(
    ("file", "without", "rows"),
    [
        ("tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", 509, 1707),
        ("param_dlrm_8rank/worker1_step_12.1694128201556.pt.trace.json.gz", 64, 326),
        ("param_dlrm_8rank/worker3_step_12.1694128201557.pt.trace.json.gz", 64, 337),
        ("param_dlrm_8rank/worker0_step_12.1694128201545.pt.trace.json.gz", 0, 261),
    ],
)
def test_device_work_that_was_launched_before(
    shared_traces: Path, file: str, without: int, rows: int
) -> None:
    trace = read_trace(shared_traces / file)
    assert int(work(trace).sum()) == rows
    count_of = {issue.code: issue.count for issue in trace.report}
    assert count_of.get("device-work-without-launch", 0) == without


def test_hta_puts_device_work_under_the_same_annotations(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / NS_RESOLUTION)
    s = trace.slices
    ranges = s[(s["category"] == "annotation") & s["device"].notna()]
    assert set(ranges["name"].astype(str)) == {
        "DistributedDataParallel.forward",
        "## backward ##",
        "Optimizer.step#SGD.step",
    }
    on_device, parent = work(trace), s["parent"].to_numpy(np.int64, na_value=-1)
    number = s["correlation"].to_numpy(np.int64, na_value=-1)
    # HTA leaves out the last step
    assert int((on_device & s["step"].isin([101, 102, 103, 104]).to_numpy()).sum()) == 4_876
    for correlation, around in (
        (135_139, "DistributedDataParallel.forward"),
        (164_926, "Optimizer.step#SGD.step"),
    ):
        rows = np.flatnonzero(number == correlation)
        (kernel,) = rows[on_device[rows]].tolist()
        source = int(trace.flows.loc[trace.flows["dst"] == kernel, "src"].item())
        chain = []
        while source >= 0:
            chain.append(str(s["name"].iloc[source]))
            source = int(parent[source])
        assert around in chain
    copies = s[(number == 135_139) & on_device]
    assert copies["name"].astype(str).tolist() == ["Memcpy DtoD (Device -> Device)"]


def test_operators_of_compiled_code_tell_their_kernels(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "hta" / "triton_example" / "triton_example.json.gz")
    arguments = trace.metadata["tables"]["event_arguments"]
    first = json.loads(arguments["arguments"].iloc[0])
    assert arguments["name"].iloc[0] == "triton_poi_fused_add_cos_sin_0"
    assert first["kernel_backend"] == "triton"
    assert first["kernel_hash"].startswith("cqaokwf2")
    assert first["grid"] == "grid(100,)"
    rows = slice_rows_of(trace, "event_arguments")
    assert (rows >= 0).all()
    assert set(trace.slices["category"].iloc[rows]) == {"operator"}
