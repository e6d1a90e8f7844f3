"""What if: drawings, errors, and real files; samples of every format are asked in ``test_samples.py``."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

from notebook_prof import Profile, Trace, TraceBuilder, read_trace
from notebook_prof.analysis import WhatIf
from notebook_prof.analysis.critical_path.dependences import dependences
from notebook_prof.analysis.critical_path.replay.constraints import constraints
from notebook_prof.analysis.critical_path.replay.forward import Change, replay, replay_within_queues
from notebook_prof.errors import OptionError, SelectionError
from notebook_prof.testing import draw
from notebook_prof.units import format_ns, format_share
from tests.recording import add_slices

from ..properties.test_verdict_claims import value_of


def check_unchanged(trace: Trace) -> None:
    """A replay without a change is the recording, to the ns at each instant of threads and devices."""
    edges = constraints(dependences(trace))
    resources = edges.graph.resources
    replays = replay_within_queues(edges, [Change()])
    assert replays is not None
    for one in (replay(edges), *replays):
        assert (one.start == edges.work.start).all()
        assert (one.end == edges.work.end).all()
        for track, rows in resources.threads.items():
            for instants in (resources.ts[rows], resources.end[rows]):
                assert (one.now(np.full(len(rows), track), instants) == instants).all()


def loop() -> Trace:
    """Steps that read, launch, and wait for their kernel."""
    return draw(
        """
        steps:    [0                      ][1                      ]
        main:     [next/data][mm] [sync   ][next/data][mm] [sync   ]
        stream 7:               [gemm  ]                 [gemm  ]
        """,
        launches=[("mm", "gemm")],
        categories={"sync": "sync"},
        unit_ns=1000,
    )


def test_kernels_and_input_that_take_less() -> None:
    profile = Profile(loop())
    assert profile.what_if(scale={"gemm": 0.5}).gain == 4000
    assert profile.what_if(data=0).gain == 11_000
    assert profile.what_if(phase={"data": 0.5}).gain == 5500
    both = profile.what_if(scale={"gemm": 0.5}, data=0)
    assert both.gain == 15_000
    assert both.steps["after_ns"].tolist() == [both.after, both.after]
    assert profile.what_if(scale={"gemm": 2}).gain == -8000
    one = profile.what_if(data=0, step=1)
    assert one.before == 25_000
    assert one.steps["step"].tolist() == [1]


def convolution() -> Profile:
    """An operator with two in it, of which the first launches a kernel that is waited for."""
    builder = TraceBuilder()
    main, stream = builder.track("main", tid=1), builder.track("s", "stream", device=0, stream=7)
    host = builder.slices(
        ts=[0, 20, 50, 100], dur=[100, 20, 20, 60], name=["conv", "mm", "add", "sync"],
        category=["operator", "operator", "operator", "sync"], track=main, module=["a.b", None, None, None],
    )  # fmt: skip
    work = builder.slices(ts=[50], dur=[100], name="gemm", category="kernel", track=stream)
    builder.flows("launch", host[1:2], work)
    return Profile(builder.seal())


def lengths(scale: dict[str, float]) -> tuple[int, ...]:
    """What changes if an operator, its first child and its kernel take these factors of their time."""
    slices = convolution().what_if(scale=scale).trace.slices.set_index("name")["dur"]
    return tuple(int(slices[name]) for name in ("conv", "mm", "gemm"))


def test_an_operator_scales_what_it_calls_and_launches() -> None:
    assert lengths({"conv": 0.5}) == (50, 10, 50)
    assert lengths({"conv": 0.5, "mm": 1}) == (60, 20, 100)
    assert lengths({"conv": 0.5, "gemm": 1}) == (50, 10, 100)
    assert lengths({"c*v": 0.5}) == (50, 10, 50)
    assert lengths({"*m*": 0.5}) == (90, 10, 50)


def test_what_to_scale_by_a_filter() -> None:
    """The same as where= reads; the innermost slice and the later factor count, as with names."""
    profile = convolution()
    assert lengths({"category=kernel": 0.5}) == (100, 20, 50)
    assert lengths({"/^co/": 0.5}) == lengths({"conv": 0.5}) == (50, 10, 50)
    assert lengths({"module=a.b": 0.5, "mm": 1}) == (60, 20, 50)  # modules are inherited
    assert lengths({"self>=50ns category=operator": 0.5}) == (50, 10, 50)
    assert lengths({"category=operator": 0.5, "mm": 1}) == (60, 20, 100)
    for wrong, error, text in (
        ("category=memcpy", SelectionError, "no slice passes"),
        ("mm step", SelectionError, "no slice is called"),
        ("zzz*", SelectionError, "no slice is called 'zzz.*': there are '"),
        ("self>soon", OptionError, "soon"),
        ("count>3", OptionError, "cannot be filtered by 'count'"),
    ):
        with pytest.raises(error, match=text):
            profile.what_if(scale={wrong: 0.5})


def behind() -> Trace:
    """A host that waits for its kernel at the end of each of three steps."""
    builder = TraceBuilder()
    main, stream = builder.track("main", tid=1), builder.track("s", "stream", device=0, stream=7)
    at = np.arange(3) * 100_000
    calls = builder.slices(ts=at, dur=[10_000] * 3, name="cudaLaunchKernel", category="launch", track=main)
    work = builder.slices(ts=at + 15_000, dur=[80_000] * 3, name="gemm", category="kernel", track=stream)
    add_slices(builder, main, "cudaDeviceSynchronize", at + 10_000, 90_000, "sync")
    builder.flows("launch", calls, work)
    builder.steps(np.arange(3), at, np.full(3, 100_000), "mark")
    return builder.seal()


def test_without_waits_or_costs_of_launches_devices_still_need_their_time() -> None:
    # The host would be done at once, so only the device's lag counts.
    answer = Profile(behind()).what_if(remove="sync")
    assert answer.steps["after_ns"].sum() == 30_000
    assert 80_000 <= answer.after <= 90_000
    assert (answer.steps["after_ns"] + answer.steps["backlog_ns"]).mean() == pytest.approx(
        answer.after, abs=1
    )
    answer = Profile(behind()).what_if(launch=0)
    assert answer.gain == 15_000
    assert Profile(behind()).what_if(launch=0.5).gain == 7_500


def test_communication_that_overlaps_is_an_upper_bound() -> None:
    trace = draw(
        """
        main:     [mm][all]    [sync              ]
        stream 7:     [ncclAllReduce][gemm]
        """,
        launches=[("mm", "ncclAllReduce"), ("all", "gemm")],
        categories={"sync": "sync", "ncclAllReduce": "collective"},
    )
    answer = Profile(trace).what_if(overlap_communication=True)
    assert answer.lower == 0
    assert answer.gain is not None
    assert 0 < answer.gain == answer.upper
    with pytest.raises(SelectionError, match="no communication"):
        Profile(behind()).what_if(overlap_communication=True)


def test_an_answer_shows_itself() -> None:
    answer = Profile(loop()).what_if(scale={"gemm": 0.5})
    assert str(answer) == (
        "What if gemm × 0.5: 25 µs → 21 µs a step, 16.0 % less; the replay is off by 0.0 %."
    )
    says_what_its_table_says(answer)
    assert "critical path" in repr(answer)
    path = answer.critical_path
    assert path["dur_ns"].sum() == answer.steps["after_ns"].sum()
    names = Profile(loop()).trace.slices["name"].astype(str)
    rows = path["slice"].dropna().to_numpy(np.int64)
    assert names.iloc[rows].tolist() == path.loc[path["slice"].notna(), "name"].astype(str).tolist()


def test_what_cannot_be_asked_is_said() -> None:
    ask = Profile(loop()).what_if
    for wrong, text in (
        ({}, "needs a change"),
        ({"data": -1}, "not a factor"),
        ({"scale": {"gemm": float("nan")}}, "not a factor"),
        ({"scale": 0.5}, "not a dict"),
        ({"remove": "syncs"}, "'sync'"),
        ({"workers": -1}, "not a number of workers"),
        ({"workers": 2, "data": 0}, "workers= or data="),
        ({"data": 0, "end": "devices"}, "'device'"),
    ):
        with pytest.raises(OptionError, match=text):
            ask(**wrong)
    for wrong, text in (
        ({"scale": {"gem": 0.5}}, "'gemm'"),
        ({"phase": {"dta": 0}}, "'data'"),
        ({"phase": {"optimizer": 0}}, "no slice is in phase 'optimizer'"),
        ({"line": {12: 0}}, "no lines were recorded"),
        ({"data": 0, "step": 7}, "no step 7"),
    ):
        with pytest.raises(SelectionError, match=text):
            ask(**wrong)


def test_lines_by_number_or_label() -> None:
    builder = TraceBuilder()
    names = ["x.py:1  a", "x.py:2  b", "y.py:1  c"]
    add_slices(builder, builder.track("main"), names, [0, 10, 30], [10, 20, 5], "python")
    profile = Profile(builder.seal())
    assert profile.what_if(line={2: 0}).after == 15
    assert profile.what_if(line={"y.py:1": 0, 2: 0.5}).after == 20
    with pytest.raises(SelectionError, match=r"x\.py:1, y\.py:1"):
        profile.what_if(line={1: 0})
    with pytest.raises(SelectionError, match="'2'"):
        profile.what_if(line={22: 0})


def test_what_was_not_recorded_has_no_answer() -> None:
    answer = Profile(draw("main:     [mm]\nstream 7:    [gemm]")).what_if(scale={"gemm": 0.5})
    assert answer.refused
    assert "device work was recorded (1 slice) but none of its launches" in answer.reason
    assert answer.after is answer.gain is answer.lower is answer.upper is None
    assert "refused" in str(answer)
    assert answer.critical_path.empty
    assert answer.classes.empty
    answer = Profile(loop()).what_if(workers=4)
    assert answer.refused
    assert "no DataLoader" in answer.reason
    empty = Profile(TraceBuilder().seal())
    assert empty.what_if(data=0).refused


ERRORS = {
    "hta/nccl_data.json.gz": (0.005, 0.015),
    "hta/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": (0.004, 0.012),
    "hta/trace_diff/control.json.gz": (0.05, 0.09),
    "hta/trace_diff/test.json.gz": (0.08, 0.13),
    "param_dlrm_8rank/worker1_step_12.1694128201556.pt.trace.json.gz": (0, 0.005),
    "param_linear/linear_kineto.json.gz": (0, 0.005),
    "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": (0.002, 0.01),
    "ascend_msprof/trace_view.json.gz": (0.02, 0.05),
    "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz": (0.005, 0.02),
    "hta/critical_path/event_sync/event_sync_trace.json.gz": (0, 0.005),
    "hta/trace_filter_2rank/sampled_rank-0.json.gz": (0.01, 0.03),
    "jax_cpu/vm.xplane.pb": (0.1, 0.14),
    "jax_gpu_rocm/tw003.xplane.pb": (0.06, 0.11),
    "kineto_2021/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz": (0, 0.002),
    "torch213_cpu/ddp_2rank/ddp_gloo_rank1.pt.trace.json.gz": (0.01, 0.04),
    "tracelens/mi210_gpu_only/gpu_only_trace.json.gz": (0, 0.01),
    "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz": (0, 0.005),
    "tracelens/vllm_decode_graph/graph_execution.json.gz": (0, 0.001),
}
"""Replay errors of real files; above 0.05 there is no answer."""


@pytest.mark.parametrize("name", ERRORS)
def test_replay_errors_of_real_files(shared_traces: Path, name: str) -> None:
    trace = read_trace(shared_traces / name)
    check_unchanged(trace)
    answer = Profile(trace).what_if(scale={"*": 0.9})
    least, most = ERRORS[name]
    assert least <= answer.replay_error <= most
    assert answer.refused == (answer.replay_error > 0.05)
    says_what_its_table_says(answer)
    if not answer.refused:
        assert answer.lower <= answer.gain <= answer.upper
        assert 0 < answer.gain < 0.11 * answer.before


def says_what_its_table_says(answer: WhatIf) -> None:
    """Each number of the sentence, or of the refusal, follows from the table of steps."""
    steps = answer.steps
    off = (steps["usual_ns"] - steps["before_ns"]).abs()
    assert answer.before == round(steps["before_ns"].mean())
    assert answer.replay_error == pytest.approx(off.sum() / steps["before_ns"].sum())
    if answer.refused:
        assert f"off by {format_share(answer.replay_error)} when" in answer.reason
        fits = steps.loc[off <= 0.05 * steps["before_ns"], "step"].dropna()
        assert ("step=" in answer.reason) == (len(fits) > 0)
        assert all(f"in step {number}:" in answer.reason for number in fits[:1])
        assert steps["after_ns"].isna().all()
        return
    assert answer.after == round((steps["after_ns"] + steps["backlog_ns"]).mean())
    assert answer.gain == answer.before - answer.after
    share = format_share(abs(answer.gain) / answer.before)
    assert f"{format_ns(answer.before)} → {format_ns(answer.after)}" in str(answer)
    assert f", {share} {'less' if answer.gain >= 0 else 'more'}" in str(answer)
    bounds = f"(gain between {format_ns(answer.lower or 0)} and {format_ns(answer.upper or 0)})"
    assert (bounds in str(answer)) == (format_ns(answer.lower or 0) != format_ns(answer.upper or 0))
    assert answer.classes["before_ns"].sum() == steps["before_ns"].sum()
    assert answer.classes["after_ns"].sum() == answer.critical_path["dur_ns"].sum() == steps["after_ns"].sum()
    first = answer.classes.iloc[0]
    assert format_ns(first["after_ns"] / len(steps)) in repr(answer).splitlines()[3]


def test_what_begins_late_for_no_recorded_reason_is_refused() -> None:
    """Two of three steps are as the latencies tell; in one a kernel begins 20 µs after its launch."""
    builder = TraceBuilder()
    main, stream = builder.track("main", tid=1), builder.track("s", "stream", device=0, stream=7)
    at = np.arange(3) * 100_000
    late = np.array([0, 0, 40_000])
    calls = builder.slices(ts=at, dur=[10_000] * 3, name="cudaLaunchKernel", category="launch", track=main)
    work = builder.slices(ts=at + 12_000 + late, dur=[20_000] * 3, name="k", category="kernel", track=stream)
    add_slices(builder, main, "cudaDeviceSynchronize", at + 10_000, 24_000 + late, "sync")
    builder.flows("launch", calls, work)
    builder.steps(np.arange(3), at, np.full(3, 100_000), "mark")
    profile = Profile(builder.seal())
    answer = profile.what_if(launch=0)
    assert answer.refused
    assert answer.steps["usual_ns"].tolist() == [100_000, 100_000, 60_000]
    assert answer.reason.endswith("within 5.0 % in step 0: use step=")
    says_what_its_table_says(answer)
    answer = profile.what_if(launch=0, step=[0, 1])
    assert answer.gain == 12_000
    says_what_its_table_says(answer)


def test_the_worked_question_in_the_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="one of the examples replays operators")
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    text = re.sub(r"^```.*$", "", (root / "docs" / "why.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    worked = doctest.DocTestParser().get_doctest(text, {}, "docs/why.md", "docs/why.md", 0)
    assert len(worked.examples) > 25
    assert doctest.DocTestRunner().run(worked).failed == 0


HELPS = {
    "kineto_2021/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz": (0.001, 0.18),
    "hta/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": (0.478, 0.003),
    "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": (0.146, 0.01),
}
"""By how much steps are shorter with kernels, and with operators of the host, twice as fast."""


@pytest.mark.parametrize("name", HELPS)
def test_what_would_help(shared_traces: Path, name: str) -> None:
    """The verdict names what makes steps shorter, and not what is busy most of the time."""
    profile = Profile(read_trace(shared_traces / name))
    slices = profile.trace.slices
    kernels = slices.loc[slices["category"].isin(["kernel", "memcpy", "memset"]), "name"].astype(str).unique()
    faster = profile.what_if(scale=dict.fromkeys(kernels, 0.5))
    ahead = profile.what_if(scale={"aten::*": 0.5, **dict.fromkeys(kernels, 1.0)})
    of_kernels, of_host = (one.gain / one.before for one in (faster, ahead))
    assert (of_kernels, of_host) == pytest.approx(HELPS[name], abs=0.005)
    assert profile.verdict.kind == ("compute-bound" if of_kernels > of_host else "launch-bound")
    assert value_of(profile.verdict, "busy_ns") > 0.7
