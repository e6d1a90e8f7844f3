"""The TensorBoard plugin's step breakdown."""

import json
from pathlib import Path

from notebook_prof import Trace, TraceBuilder, read_trace
from notebook_prof.analysis import step_breakdown
from notebook_prof.analysis.time.steps import PARTS

NAMES = {name: name.capitalize() for name in ("kernel", "memcpy", "memset", "runtime", "other")}
NAMES |= {"dataloader": "DataLoader", "cpu": "CPU_Exec"}


def test_the_plugins_own_answer_for_resnet50(shared_traces: Path) -> None:
    folder = shared_traces / "kineto_2021"
    plugin = json.loads((folder / "tb_plugin_resnet50_num_workers_4.json").read_text())
    trace = read_trace(folder / "resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz")
    got = step_breakdown(trace)
    want = [
        [int(row["step"]), *(row[name] * 1000 for name in NAMES.values()), row["total"] * 1000]
        for row in plugin["steps"]
    ]
    columns = ["step", *(f"{name}_ns" for name in NAMES), "total_ns"]
    assert got[columns].to_numpy().tolist() == want
    assert not got["communication_ns"].any()
    average = plugin["overview_performance"][0]["value"]
    assert round(got["total_ns"].mean() / 1000) == average == 141_068
    work = trace.slices[trace.slices["category"] == "kernel"]
    assert got["kernel_ns"].sum() == work["dur"].sum() == 594_868_000


def training(*, events: tuple[int, ...] = (1, 1), early: int | None = None) -> Trace:
    """Steps of 100 ns; each launches kernels of 30 ns at its end, the first 10 ns after the call."""
    b = TraceBuilder()
    host, gpu = b.track("main", tid=1), b.track("GPU 0", "stream", device=0, stream=7)
    on_gpu = {"track": gpu, "name": "gemm", "category": "kernel", "device": 0, "stream": 7}
    for number, count in enumerate(events):
        ts = 100 * number
        b.slices(ts=ts, dur=100, track=host, name=f"ProfilerStep#{number}", category="annotation")
        b.slices(
            ts=ts, dur=20, track=host, name="enumerate(DataLoader)#_Iter.__next__", category="annotation"
        )
        b.slices(ts=ts + 30, dur=60, track=host, name="aten::mm")
        for i in range(count):
            call = b.slices(ts=ts + 80 + i, dur=1, track=host, name="cudaLaunchKernel", category="launch")
            b.flows("launch", call, b.slices(ts=ts + 90 + i * 30, dur=30, **on_gpu))
        b.steps(number, ts, 100, "file")
    if early is not None:
        b.slices(ts=early, dur=5, **on_gpu)
    return b.seal()


def test_steps_reach_to_the_end_of_their_device_work() -> None:
    got = step_breakdown(training())
    assert got["total_ns"].tolist() == [120, 100]
    assert got["kernel_ns"].tolist() == [30, 30]
    assert got["dataloader_ns"].tolist() == [20, 0]
    assert got["runtime_ns"].tolist() == [1, 1]
    assert got["cpu_ns"].tolist() == [59, 59]
    assert (got[[f"{name}_ns" for name in (*PARTS, "other")]].sum(axis=1) == got["total_ns"]).all()
    assert step_breakdown(training(early=10))["total_ns"].tolist() == [105, 100]
    assert step_breakdown(training(events=(5, 5, 3)))["step"].tolist() == [0, 1]
    assert step_breakdown(training(events=(5, 4)))["step"].tolist() == [0, 1]


def test_windows_and_steps() -> None:
    trace = training()
    assert step_breakdown(trace, step=1)["step"].tolist() == [1]
    cut = step_breakdown(trace, window=(0, 50))
    assert cut[["step", "dataloader_ns", "cpu_ns", "other_ns", "total_ns"]].values.tolist() == [
        [0, 20, 20, 10, 50]
    ]


def test_without_a_device_steps_are_those_of_the_host(data: Path) -> None:
    trace = read_trace(data / "torch213_cpu" / "cnn_adam.pt.trace.json.gz")
    got = step_breakdown(trace)
    assert got["total_ns"].tolist() == trace.steps["dur"].tolist()
    assert (got["cpu_ns"] > 0).all()
