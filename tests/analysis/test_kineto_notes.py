"""What the project's notes on Kineto's files measured with other tools: leftovers, annotations, Triton."""

import json
from pathlib import Path

import numpy as np

from notebook_prof import Trace, read_trace
from notebook_prof.trace import DEVICE_CATEGORIES
from notebook_prof.trace.event_tables import slice_rows_of

NS_RESOLUTION = "hta/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"


def work(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    s = trace.slices
    return (s["device"].notna() & s["category"].isin(DEVICE_CATEGORIES)).to_numpy()


def test_hta_puts_device_work_under_the_same_annotations(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / NS_RESOLUTION)
    s = trace.slices
    ranges = s[(s["category"] == "annotation") & s["device"].notna()]
    names = {"DistributedDataParallel.forward", "## backward ##", "Optimizer.step#SGD.step"}
    assert set(ranges["name"].astype(str)) == names
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
