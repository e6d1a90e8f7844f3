"""What the thread of the steps does, what it waits for, and what happens once."""

from pathlib import Path

import numpy as np
import pytest

from notebook_prof import Trace, TraceBuilder, analysis, read_trace
from notebook_prof.analysis.time.one_time import steady_steps
from notebook_prof.analysis.time.thread_time import KINDS
from notebook_prof.testing import draw
from tests.recording import add_slices


def spent(trace: Trace) -> dict[str, int]:
    table = analysis.host_waits(trace)
    assert table["kind"].map(KINDS.index).is_monotonic_increasing
    return {str(kind): int(ns) for kind, ns in table.groupby("kind")["total_ns"].sum().items()}


CALLS = {
    "waiting": (
        *("cudaDeviceSynchronize", "cudaStreamSynchronize_ptsz", "cuCtxSynchronize", "hipEventSynchronize"),
        *("hipMemcpyWithStream", "cudaMemcpy", "cuMemcpyDtoH_v2", "aclrtSynchronizeStream"),
        "<built-in method synchronize of torch.cuda.Event object at 0x7f>",
        *("api.py:3154 block_until_ready", "torch/cuda/__init__.py(1030): synchronize"),
    ),
    "launching": (
        *("cudaStreamWaitEvent", "cudaMemcpyAsync", "cudaEventQuery", "hipMemcpyDtoD"),
        "cudaLaunchKernel",
    ),
}


def test_which_calls_wait() -> None:
    found = {}
    for name in (name for names in CALLS.values() for name in names):
        builder = TraceBuilder()
        track, kinds = builder.track("main"), ["operator", "launch"]
        builder.slices(ts=[0, 10], dur=[10, 90], name=["aten::mm", name], category=kinds, track=track)
        found[name] = spent(builder.seal())
    assert found == {name: {"computing": 10, kind: 90} for kind, names in CALLS.items() for name in names}


@pytest.mark.parametrize(("call_end", "kind"), [(30_000, "waiting"), (10_000, "launching")])
def test_a_copy_waits_if_it_ends_after_its_work_did(call_end: int, kind: str) -> None:
    """To pageable memory ``cudaMemcpyAsync`` blocks; to pinned memory it returns."""
    builder = TraceBuilder()
    main = builder.track("main")
    stream = builder.track("stream", "stream", device=0, stream=7)
    call = builder.slices(ts=0, dur=call_end, name="cudaMemcpyAsync", category="launch", track=main)
    copy = add_slices(builder, stream, "Memcpy DtoH (Device -> Pageable)", 12_000, 18_000, "memcpy")
    builder.flows("launch", call, copy)
    assert spent(builder.seal())[kind] == call_end


def test_item_waits_only_where_nothing_else_tells() -> None:
    row = {"ts": [0, 50_000], "dur": [50_000, 2_000], "category": "operator"}
    name = ["aten::_local_scalar_dense", "aten::item"]
    builder = TraceBuilder()
    builder.slices(**row, name=name, track=builder.track("main"))
    assert spent(builder.seal()) == {"waiting": 50_000, "computing": 2_000}
    builder = TraceBuilder()
    track = builder.track("main")
    builder.slices(**row, name=name, track=track)
    builder.slices(ts=10_000, dur=5_000, name="cudaStreamSynchronize", category="sync", track=track)
    assert spent(builder.seal()) == {"waiting": 5_000, "computing": 47_000}


def test_idle_causes_are_the_gaps_added_up() -> None:
    trace = draw(
        """
        main:     [mm]  [next/data     ][mm]
        stream 7:    [gemm]                [gemm]
        """,
        launches=[("mm", "gemm")],
    )
    table, gaps = analysis.idle_causes(trace), analysis.device_idle(trace)
    by_cause = table.set_index("cause")
    assert by_cause.loc["input", "idle_ns"] == gaps["input_ns"].sum()
    assert table["idle_ns"].sum() == gaps["dur"].sum() == analysis.device(trace)["idle_ns"].sum()
    assert table["idle_share"].sum() == pytest.approx(1)
    assert analysis.idle_causes(TraceBuilder().seal()).empty


def test_a_capture_is_set_apart() -> None:
    builder = TraceBuilder()
    main = builder.track("main")
    names = ["cudaStreamBeginCapture", "aten::mm", "cudaStreamEndCapture", "cudaGraphInstantiate", "aten::mm"]
    kinds = ["launch", "operator", "launch", "launch", "operator"]
    add_slices(builder, main, names, [0, 10, 90, 100, 300], [10, 80, 10, 50, 100], kinds)
    row = analysis.one_time(builder.seal()).iloc[0]
    assert (row["kind"], row["total_ns"], row["count"]) == ("graph-capture", 150, 3)
    assert row["share"] == 150 / 400


def test_a_call_much_longer_than_its_like_sets_something_up() -> None:
    ms = 1_000_000
    builder = TraceBuilder()
    main = builder.track("main")
    ts = np.arange(12) * 10 * ms
    dur = np.where(np.arange(12) == 1, 9 * ms, 5_000)
    builder.slices(ts=ts, dur=dur, name="cudaLaunchKernel", category="launch", track=main)
    table = analysis.one_time(builder.seal())
    assert table[["kind", "name", "count", "total_ns"]].values.tolist() == [
        ["initialisation", "cudaLaunchKernel", 1, 9 * ms]
    ]
    # slow again and again: each fifth call frees what the iteration used
    again = TraceBuilder()
    ts_of_all = np.arange(40) * 10 * ms
    slow = np.where(np.arange(40) % 5 == 4, 9 * ms, 5_000)
    again.slices(ts=ts_of_all, dur=slow, name="hipFree", category="launch", track=again.track("main"))
    assert analysis.one_time(again.seal()).empty
    # where the device works meanwhile, the queue of launches is full: every step has that
    stream = builder.track("stream", "stream", device=0, stream=7)
    builder = TraceBuilder()
    main, stream = builder.track("main"), builder.track("stream", "stream", device=0, stream=7)
    builder.slices(ts=ts, dur=dur, name="cudaLaunchKernel", category="launch", track=main)
    builder.slices(ts=0, dur=100 * ms, name="gemm", category="kernel", track=stream)
    assert analysis.one_time(builder.seal()).empty


def test_a_first_step_counts_less_what_explains_it() -> None:
    builder = TraceBuilder()
    main = builder.track("main")
    add_slices(builder, main, ["backend_compile", "mm"], [0, 600], [600, 400], "operator")
    for step, (ts, dur) in enumerate([(0, 1000), (1000, 100), (1100, 100), (1200, 100)]):
        builder.steps(step, ts, dur, "loop")
    trace = builder.seal()
    found = analysis.one_time(trace)[["kind", "total_ns"]].values.tolist()
    assert found == [["compilation", 600], ["first-step", 300]]
    assert steady_steps(trace) == [1, 2, 3]
    assert analysis.one_time(trace)["share"].sum() <= 1


@pytest.mark.parametrize(("prefetch_factor", "kinds"), [(1, ["first-step"]), (2, [])])
def test_batches_that_workers_make_while_the_first_step_waits_happen_each(
    prefetch_factor: int, kinds: list[str]
) -> None:
    builder = TraceBuilder()
    builder.metadata["loaders"] = [{"num_workers": 2, "prefetch_factor": prefetch_factor}]
    builder.slices(ts=0, dur=1300, name="next", category="python", track=builder.track("main"))
    for step, (ts, dur) in enumerate([(0, 1000), (1000, 100), (1100, 100), (1200, 100)]):
        builder.steps(step, ts, dur, "loop")
    assert analysis.one_time(builder.seal())["kind"].tolist() == kinds


def test_most_of_a_cold_benchmark_happens_once(shared_traces: Path) -> None:
    """43 s of AlexNet, of which 42 are the context, made by a call that usually takes microseconds."""
    trace = read_trace(shared_traces / "hta/critical_path/benchmark_result_2869224_1695835535_trace.json.gz")
    row = analysis.one_time(trace).iloc[0]
    assert (row["kind"], row["name"]) == ("initialisation", "cudaDeviceGetStreamPriorityRange")
    assert row["share"] > 0.95


def test_ranks_differ_by_the_time_that_communication_holds_them_up(shared_traces: Path) -> None:
    """Eight ranks do the same step of DLRM: without the phase communication all take equally long."""
    steps, others, exposed = [], [], []
    for path in sorted((shared_traces / "param_dlrm_8rank").glob("*.json.gz")):
        trace = read_trace(path)
        table = analysis.phases(trace).set_index("phase")["host_ns"]
        steps.append(table.sum())
        others.append(table.sum() - table["communication"])
        exposed.append(table.sum() - analysis.device(trace)["exposed_communication_ns"].sum())
    assert len(steps) == 8
    assert max(steps) / min(steps) == pytest.approx(1.59, abs=0.01)
    assert max(others) / min(others) < 1.15
    assert np.std(others) < np.std(exposed) / 2 < np.std(steps) / 2


def test_dispatch_and_combine_hold_a_training_step_up() -> None:
    """As in DeepSeek's recording: DeepEP's kernels on their own stream, products queued behind them."""
    builder = TraceBuilder()
    main = builder.track("main")
    compute = builder.track("compute", "stream", device=0, stream=7)
    network = builder.track("network", "stream", device=0, stream=27)
    calls = add_slices(builder, main, "cudaLaunchKernel", [0, 10, 20, 30], 5, "launch")
    builder.slices(ts=0, dur=1000, name="forward", category="annotation", phase="forward", track=main)
    products = add_slices(builder, compute, "fp8_gemm_kernel", [40, 600], [100, 300], "kernel")
    names = [f"dpsk::ep::internode::{name}" for name in ("notify_dispatch", "dispatch")]
    sends = builder.slices(ts=[40, 200], dur=[60, 400], name=names, category="collective", track=network)
    builder.flows("launch", calls, np.concatenate([products, sends]))
    builder.steps(0, 0, 1000, "loop")
    trace = builder.seal()
    assert analysis.device(trace)["exposed_communication_ns"].tolist() == [400]
    table = analysis.phases(trace).set_index("phase")
    assert table.loc["communication", "host_ns"] == 400
    assert table["host_ns"].sum() == 1000
