"""The trust report: every fault injected by itself, and real recordings with known figures."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Profile, Trace, TraceBuilder, read_trace
from notebook_prof.analysis import trust
from notebook_prof.analysis.device.kernel_launches import least_launch_delay
from notebook_prof.analysis.trust.device import CUPTI_FAULTS
from notebook_prof.testing import draw
from tests.recording import add_slices

FACTS = ["code", "severity", "count", "device_share"]


def run(
    kernels: int = 10,
    *,
    lose: tuple[int, ...] = (),
    shift_ns: int = 0,
    dur: int = 600,
    operators: bool = True,
    call: str = "cudaLaunchKernel",
    steps: bool = False,
    every: int = 1_000,
    metadata: dict[str, Any] | None = None,
) -> TraceBuilder:
    """A recording of one kernel an operator, a microsecond apart; some kernels lost, all shifted."""
    b = TraceBuilder(metadata=metadata)
    main, stream = b.track("main", tid=1), b.track("GPU 0 stream 7", "stream", device=0, stream=7)
    at = 1_000_000 + every * np.arange(kernels)
    if operators:
        b.slices(ts=at, dur=np.full(len(at), 900), name="aten::mm", track=main)
    host = b.slices(ts=at + 100, dur=np.full(kernels, 50), name=call, category="launch", track=main)
    kept = np.setdiff1d(np.arange(kernels), lose)
    times = {"ts": at[kept] + 105 + shift_ns, "dur": np.full(len(kept), dur)}
    work = b.slices(**times, name="gemm", category="kernel", track=stream, device=0)
    b.flows("launch", host[kept], work)
    if steps:
        b.steps(np.arange(kernels), at, np.full(kernels, 950), "mark")
    return b


def codes(trace: Trace) -> list[str]:
    return trust(trace)["code"].tolist()


def test_a_good_recording_is_clean():
    table = trust(run().seal())
    assert table.empty
    assert " ".join(table) == "code severity count device_share finding effect advice example"
    assert table["device_share"].dtype == "float64"
    b = run(lose=(3, 4))
    main = b.track("main", tid=1)
    b.slices(ts=1_003_000, dur=10, name="cudaStreamBeginCapture", category="launch", track=main)
    b.slices(ts=1_004_990, dur=5, name="cudaStreamEndCapture", category="launch", track=main)
    assert codes(b.seal()) == []


@pytest.mark.parametrize(
    ("lost", "code"),
    [((0, 1), "kernels-lost-at-start"), ((4, 6), "kernels-lost-between"), ((8, 9), "kernels-lost-at-end")],
)
def test_launches_without_kernels_are_told_by_their_place(lost: tuple[int, ...], code: str):
    row = trust(run(lose=lost).seal()).iloc[0]
    assert (row["code"], row["severity"], row["count"]) == (code, "loss", 2)
    assert row["device_share"] == pytest.approx(0.2)  # eight of ten equal kernels were seen
    assert "cudaLaunchKernel" in row["example"]


def test_lost_kernels_are_taken_to_be_as_long_as_kernels_not_as_copies():
    b = run(lose=(8, 9))
    copies = b.track("GPU 0 stream 8", "stream", device=0, stream=8)
    b.slices(ts=1_000_200, dur=1_000_000, name="Memcpy HtoD", category="memcpy", track=copies, device=0)
    row = trust(b.seal()).set_index("code").loc["kernels-lost-at-end"]
    assert row["device_share"] == pytest.approx(2 * 600 / (10 * 600 + 1_000_000))


def test_no_kernels_at_all_is_an_error():
    row = trust(run(lose=tuple(range(10))).seal()).iloc[0]
    assert row[FACTS].tolist() == ["no-device-work", "error", 10, 1.0]


@pytest.mark.parametrize(
    ("version", "blamed"), [(None, True), (22, False), (24, True), (130_001, True), (130_100, False)]
)
def test_advice_on_lost_kernels_is_that_of_cuptis_version(version: int | None, blamed: bool) -> None:
    metadata = {} if version is None else {"cupti_version": version}
    table = trust(run(lose=(0, 1), metadata=metadata).seal()).set_index("code")
    advice = table.loc["kernels-lost-at-start", "advice"]
    assert ("CUPTI 12.6 to 13.0" in advice) == blamed
    assert "--warmup 2" in advice


def test_the_page_on_gpus_has_the_faults_that_trust_knows() -> None:
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8")
    for fault in CUPTI_FAULTS:
        (row,) = [line for line in page.splitlines() if line.startswith("|") and f"(`{fault.code}`" in line]
        assert row.split("|")[1].strip() in fault.advice


def test_kernels_before_their_launch():
    row = trust(run(shift_ns=-5_000).seal()).iloc[0]
    assert row[FACTS].tolist() == ["kernels-before-launch", "loss", 10, 1.0]
    assert "5 µs" in row["example"] or "4.99 µs" in row["example"] or "4.9 µs" in row["example"]
    assert trust(run(shift_ns=-500).seal())["severity"].tolist() == ["info"]


def test_operators_that_are_not_known():
    row = trust(run(operators=False).seal()).iloc[0]
    assert (row["code"], row["count"], row["device_share"]) == ("operator-unknown", 10, 1.0)
    trace = draw("main: [mm]\nstream 7: [old ]  [gemm]", launches=[("mm", "gemm")])
    row = trust(trace).iloc[0]
    assert (row["code"], row["count"], row["device_share"]) == ("launch-not-recorded", 1, 0.5)


def test_streams_do_one_thing_at_a_time():
    row = trust(run(dur=1_100).seal()).iloc[0]
    assert (row["code"], row["severity"], row["count"]) == ("stream-overlap", "loss", 9)
    assert row["device_share"] == pytest.approx(900 / 11_000)


def test_the_clock_against_the_first_recording_of_the_process():
    assert least_launch_delay(run(every=5_000).seal()) == 5
    shifted = run(every=5_000, shift_ns=80_000, metadata={"first_launch_delay_ns": 5}).seal()
    table = trust(shifted).set_index("code")
    assert "80 µs" in table.loc["clock-shift", "effect"]
    assert "too late" in table.loc["clock-shift", "effect"]
    assert codes(run(every=5_000, shift_ns=10_000, metadata={"first_launch_delay_ns": 5}).seal()) == []


def test_a_queue_is_not_a_shift():
    # the device takes three times as long as the host: delays grow, the least one does not
    b = TraceBuilder(metadata={"first_launch_delay_ns": 5})
    main, stream = b.track("main", tid=1), b.track("stream 7", "stream", device=0, stream=7)
    at = 1_000 * np.arange(50)
    b.slices(ts=at, dur=np.full(len(at), 900), name="mm", track=main)
    host = b.slices(ts=at + 100, dur=np.full(50, 50), name="cudaLaunchKernel", category="launch", track=main)
    work = add_slices(b, stream, "k", 105 + 3_000 * np.arange(50), 3_000, "kernel")
    b.flows("launch", host, work)
    trace = b.seal()
    assert least_launch_delay(trace) is None  # one launch only met an idle stream
    assert trust(trace).empty


def test_partial_steps():
    b = run(12)
    b.steps(
        np.arange(4), 1_000_000 + np.array([0, 2_000, 6_000, 10_000]), [1_900, 3_900, 3_900, 1_950], "mark"
    )
    table = trust(b.seal()).set_index("code")
    assert list(table.index) == ["partial-first-step", "partial-last-step"]
    assert table["device_share"].tolist() == pytest.approx([2 / 12, 2 / 12])


def test_warm_up_and_compilation():
    b = run(steps=True)
    b.slices(ts=1_000_160, dur=500, name="cuModuleLoadData", category="launch", track=b.track("main", tid=1))
    row = trust(b.seal()).iloc[0]
    assert (row["code"], row["severity"], row["count"]) == ("compilation-inside", "loss", 1)
    slow = run()
    slow.steps(
        np.arange(4), 1_000_000 + np.array([0, 4_000, 6_000, 8_000]), [4_000, 2_000, 2_000, 2_000], "mark"
    )
    assert "slow-first-step" in codes(slow.seal())


@pytest.mark.parametrize(
    ("counter", "code"), [("throttle reasons", "throttled"), ("other processes", "card-shared")]
)
def test_the_condition_of_the_card(counter: str, code: str):
    b = run(metadata={"source": "recording"})
    track = b.track(f"GPU 0 {counter}", "counter", device=0)
    b.counter(track, 1_000_000 + np.array([0, 5_000, 10_000]), [0, 4, 0])
    row = trust(b.seal()).iloc[0]
    assert (row["code"], row["count"]) == (code, 1)
    assert row["device_share"] == pytest.approx(0.5)


def test_missing_counters():
    assert codes(run(metadata={"source": "recording"}).seal()) == ["counters-missing"]
    assert codes(run(metadata={"source": "kineto"}).seal()) == []


def test_what_the_recording_reported_is_reported_too():
    b = run()
    b.report.add(
        "records-dropped", "loss", 7, example="a buffer", effect="kernels are missing", advice="less"
    )
    b.report.add("only-noted", "info")
    row = trust(b.seal()).iloc[0]
    assert (row["code"], row["count"], row["effect"]) == ("records-dropped", 7, "kernels are missing")
    assert math.isnan(row["device_share"])
    trace = draw("main: [mm]")
    trace.report.add("rows-dropped", "loss", 1_235)
    assert trust(trace)["finding"].tolist() == ["rows dropped, 1,235 times"]


FIGURES = {
    # leftovers of work before the window, as counted by hand in the notes on these formats
    "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": {"launch-not-recorded": 509},
    "hta/trace_diff/test.json.gz": {"launch-not-recorded": 614, "stream-overlap": 31},
    "param_dlrm_8rank/worker1_step_12.1694128201556.pt.trace.json.gz": {"launch-not-recorded": 64},
    "param_dlrm_8rank/worker0_step_12.1694128201545.pt.trace.json.gz": {},
    # counters of a range profiler without kernels
    "hta/cupti_profiler/benchmark_result_924719_1679055439_trace.json.gz": {"no-device-work": 77},
    # recorded without operators
    "tracelens/mi210_gpu_only/gpu_only_trace.json.gz": {"operator-unknown": 562},
    # graph launches with hundreds of kernels, collectives, a V100 of 2021: nothing to find
    "tracelens/vllm_decode_graph/graph_execution.json.gz": {},
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz": {},
    "hta/nccl_data.json.gz": {},
    "kineto_2021/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz": {},
    "kineto_sync/before_fix_trace.json": {},
    "kineto_sync/after_fix_trace.json": {},
}


@pytest.mark.parametrize("name", FIGURES)
def test_real_recordings(shared_traces: Path, name: str):
    table = trust(read_trace(shared_traces / name))
    assert dict(zip(table["code"], table["count"], strict=True)) == FIGURES[name]


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_kernels_taken_out_of_a_real_recording_are_missed(shared_traces: Path, share: float):
    """The known fault of later rounds: the first kernels of the recording are lost."""
    trace = read_trace(
        shared_traces / "kineto_2021/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz"
    )
    kernels = np.flatnonzero((trace.slices["category"] == "kernel").to_numpy())
    lost = kernels[: int(share * len(kernels))]
    keep = np.setdiff1d(np.arange(len(trace.slices)), lost)
    table = trust(trace._subset(np.isin(np.arange(len(trace.slices)), keep), None)).set_index("code")
    assert table["count"].filter(like="kernels-lost").sum() == len(lost)
    assert table.loc["kernels-lost-at-start", "count"] > 0.9 * len(lost)


def test_the_least_launch_delay_is_a_property_of_the_machine(shared_traces: Path):
    """Other models, other ranks, the same card: within 2 µs, so that 20 µs is a shift."""
    cards = {
        "tracelens/h100/*__1016*.json.gz": (4_825, 5_345),
        "tracelens/mi300/[gF]*__1016*.json.gz": (17_211, 19_153),
        "param_dlrm_8rank/worker*.json.gz": (5_000, 6_000),
    }
    for pattern, (low, high) in cards.items():
        delays = [least_launch_delay(read_trace(path)) for path in shared_traces.glob(pattern)]
        assert (min(delays), max(delays)) == (low, high), pattern


@pytest.mark.parametrize(("count", "points"), [(1, 98), (12, 28), (99, 10), (100, None)])
def test_few_samples_tell_a_share_badly(count: int, points: int | None) -> None:
    """Half the width of the interval that holds 95 % of the shares which a coin of 50 % gives."""
    b = TraceBuilder()
    main, other = b.track("main", tid=1), b.track("other", tid=2)
    b.slices(ts=[0, 1_000], dur=[900, 900], name="cell:2  work()", category="python", track=main)
    b.steps([0, 1], [0, 1_000], [900, 900], "loop")
    # two looks between the steps, many at another thread, and one behind the last step
    looks = {"ts": [0, 900, 1_900, 0], "dur": [900, 100, 90, 1_900], "count": [count, 2, 1, 500]}
    b.table("samples", pd.DataFrame({**looks, "track": [main, main, main, other]}))
    trace = b.seal()
    table = trust(trace)
    few = table[table["code"] == "few-samples"]
    if points is None:
        assert few.empty
        return
    (row,) = few.to_dict("records")
    assert (row["severity"], row["count"]) == ("info", count)
    assert f" off by {points} points" in row["effect"]
    shares = np.random.default_rng(0).binomial(count, 0.5, 100_000) / count
    if count >= 12:
        assert np.quantile(np.abs(shares - 0.5), 0.95) == pytest.approx(points / 100, rel=0.12)
    assert Profile(trace).verdict.lines[-2].startswith(f"Own time ({count} sample")


@pytest.mark.parametrize(("late", "told"), [(300, False), (400, True)])
def test_a_py_spy_that_came_late_is_told(late: int, told: bool) -> None:
    """In a cell of 990 ms with a sample every 10 ms."""
    begin = 1_000_000_000_000_000_000
    ts = begin + np.arange(0, 990, 10) * 1_000_000
    samples = pd.DataFrame({"ts": ts, "dur": 10_000_000, "track": 0, "count": 1})
    account = {"ts": [begin], "dur": [990_000_000], "kind": ["code"], "line": [2], "text": ["run()"]}
    builder = TraceBuilder(metadata={"py_spy_since_ns": begin + late * 1_000_000})
    builder.table("samples", samples)
    builder.table("account", pd.DataFrame({**account, "loop": [-1], "steps": [0]}))
    row = {"name": "run (work.py)", "category": "python", "track": builder.track("main")}
    builder.slices(ts=begin, dur=990_000_000, **row)
    trace = builder.seal()
    found = trust(trace).set_index("code")
    assert ("late-samples" in found.index) == told
    if told:
        assert found.loc["late-samples", "count"] == 40
        assert "400 ms after the cell began; the cell took 990 ms" in found.loc["late-samples", "example"]
        files = TraceBuilder(metadata={"py_spy_since_ns": begin})
        files.slices(ts=0, dur=10, track=files.track("main"), name="work")
        assert "late-samples" not in set(trust(files.seal())["code"]), "no cell, no samples"


@pytest.mark.parametrize(("inner", "few"), [(0, False), (20, False), (600, True)])
def test_what_was_timed_needs_no_samples(inner: int, few: bool) -> None:
    """A statement that sleeps was seen by two samples, and its time is exact; what they saw inside is not."""
    b = TraceBuilder()
    main = b.track("main", tid=1)
    b.slices(ts=[0, 1_000], dur=[900, 900], name="cell:2  time.sleep(1)", category="python", track=main)
    if inner:  # it begins with the statement, and is no statement for that
        b.slices(ts=[0, 1_000], dur=[inner] * 2, name="work (cell)", category="python", track=main)
    b.steps([0, 1], [0, 1_000], [900, 900], "loop")
    b.table("statements", pd.DataFrame({"ts": [0, 1_000], "dur": 900, "line": 2}))
    b.table("samples", pd.DataFrame({"ts": [0, 1_000], "dur": 900, "count": 1, "track": main}))
    trace = b.seal()
    assert ("few-samples" in codes(trace)) == few
    assert any(line.startswith("Own time (2 samples)") for line in Profile(trace).verdict.lines) == few
