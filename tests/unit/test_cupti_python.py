"""Kernels through ``cupti-python``: from its records to a trace, and every way in which it cannot work."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof import own_processes
from notebook_prof.analysis import kernels, trust
from notebook_prof.analysis.time.one_time import one_time
from notebook_prof.collectors.cuda import cupti as home
from notebook_prof.collectors.cuda import driver
from notebook_prof.collectors.cuda.cupti import ClockReading, CuptiSession, to_wall, unusable
from notebook_prof.collectors.cuda.driver import DriverState
from notebook_prof.errors import RecordingError
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.clocks import Clock

from ..pretend_cupti import Cupti, Driver, cuptiError

VERSIONS = ("12.8.0", "13.4.0")


@pytest.fixture(params=VERSIONS)
def cupti(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cupti:
    return installed(monkeypatch, request.param)


def installed(monkeypatch: pytest.MonkeyPatch, version: str) -> Cupti:
    module = Cupti(version)
    module.now = time.time_ns
    monkeypatch.setitem(sys.modules, "cupti", module)
    monkeypatch.setitem(sys.modules, "cupti.cupti", module)
    monkeypatch.setattr(driver, "package_version", lambda: version)
    monkeypatch.setattr(driver, "_usable", {})
    monkeypatch.setattr(driver, "_run_child", lambda: DriverState(0, 1, 13_040))
    return module


def recorded(cupti: Cupti, body: Any, **options: Any) -> tuple[Trace, CuptiSession]:
    session = CuptiSession(load=Driver().load, **options)
    clock = Clock()
    session.warm(clock)
    session.start(clock)
    body(clock.now_ns())
    session.stop()
    session.result(builder := TraceBuilder())
    builder.report.extend(session.report)
    return builder.seal(), session


def of(trace: Trace, category: str) -> Any:
    return trace.slices[trace.slices["category"] == category]


def test_a_program_becomes_a_trace(cupti: Cupti) -> None:
    cupti.shift_ns = 5_000_000_000  # CUPTI's clock is another one

    def program(t: int) -> None:
        cupti.launch("_Z4gemmPf", t + 10_000, t + 40_000, grid=(80, 2, 1), shared=1536)
        cupti.launch("cupy_add__float32", t + 50_000, t + 58_000, device=1, graph=(3, 77))
        cupti.copy(t + 60_000, t + 61_000)
        cupti.copy(t + 62_000, t + 63_000, peer=True)
        cupti.fill(t + 64_000, t + 65_000)
        cupti.wait(t + 66_000, t + 70_000, context=2)
        cupti.wait(t + 71_000, t + 72_000, stream=0xFFFFFFFF, type=4)
        cupti.overhead(5 << 16, t + 1_000, t + 2_000)

    trace, _ = recorded(cupti, program)
    work = of(trace, "kernel").set_index("name")
    assert work["dur"].to_dict() == {"gemm(float*)": 30_000, "cupy_add__float32": 8_000}
    assert set(zip(work["device"], work["stream"], strict=True)) == {(0, 7), (1, 7)}
    copies = of(trace, "memcpy")["name"].tolist()
    assert copies == ["Memcpy HtoD (Pinned -> Device)", "Memcpy PtoP (Device -> Device)"]
    assert of(trace, "memset")["name"].tolist() == ["Memset (Device)"]
    waits = trace.slices[trace.slices["name"].isin(["Stream Sync", "Context Sync"])]
    assert waits["device"].tolist() == [1, 0]
    calls = of(trace, "launch")
    name = "cuLaunchKernel" if cupti.old else "cudaLaunchKernel"  # that inside of it is the same launch
    assert calls["name"].tolist() == [name, name]
    tracks = trace.tracks.set_index("track").loc[calls["track"], "tid"]
    assert set(tracks) == {threading.get_native_id()}
    flows = trace.flows[trace.flows["kind"] == "launch"]
    assert len(flows) == 2
    src, dst = trace.slices.loc[flows["src"]], trace.slices.loc[flows["dst"]]
    delay = dst["ts"].to_numpy() - src["ts"].to_numpy()
    assert set(delay) == ({3_000} if cupti.old else {4_000})
    row = kernels(trace, by=["name", "grid"]).set_index("name").loc["gemm(float*)"]
    assert (row["grid"], row["registers_per_thread"], row["shared_memory_bytes"]) == ("[80, 2, 1]", 32, 1536)
    events = trace.metadata["tables"]["device_events"]
    assert events["occupancy"].notna().any()
    assert trace.metadata["devices"] == ["NVIDIA H100"]
    assert trace.metadata["cupti"]["version"] == cupti.version
    assert not set(trust(trace)["code"]) & {"no-device-work", "kernels-lost-at-start", "stream-overlap"}


def test_loading_is_found_by_the_names_of_overhead(cupti: Cupti) -> None:
    """As Kineto spells them."""

    def program(t: int) -> None:
        cupti.overhead(5 << 16, t + 1_000, t + 900_000)
        cupti.overhead(1, t + 900_000, t + 950_000)
        cupti.launch("k", t + 1_000_000, t + 1_010_000)

    trace, _ = recorded(cupti, program)
    assert of(trace, "overhead")["name"].tolist() == ["Lazy Function Loading", "Driver Compiler"]
    assert "Lazy Function Loading" in str(one_time(trace).to_dict())


def test_the_order_of_things(cupti: Cupti) -> None:
    """Attached while it warms up; calls end before the wait for the cards, and work on them after it."""
    cards = Driver()
    cards.waits = lambda: cupti.journal.append("wait")
    session = CuptiSession(load=cards.load)
    session.warm(Clock())
    needed = ["CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "DRIVER"]
    assert cupti.journal == [
        *("subscribe", "threads 1", "attribute 9 = 0", "register"),
        *(f"enable {kind}" for kind in needed),
    ]
    session.start(Clock())
    cupti.journal.clear()
    session.stop()
    before, after = cupti.journal[: cupti.journal.index("wait")], cupti.journal[cupti.journal.index("wait") :]
    assert "disable DRIVER" in before
    assert "disable OVERHEAD" in before
    assert not {f"disable {kind}" for kind in ("CONCURRENT_KERNEL", "MEMCPY2")} & set(before)
    assert after[-2:] == ["flush", "unsubscribe"]
    assert not cupti.enabled
    session.stop()
    session.abandon()
    assert cupti.journal.count("unsubscribe") == 1


def test_what_records_when_python_ends_is_released(cupti: Cupti, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUPTI must call nothing of a Python that has ended."""
    at_exit: list[Any] = []
    monkeypatch.setattr(home.atexit, "register", at_exit.append)
    CuptiSession(load=Driver().load).start(Clock())
    (release,) = at_exit
    release()
    assert (cupti.enabled, cupti.subscribed) == (set(), False)


def test_a_thread_that_ends_behind_the_recording_keeps_its_name(cupti: Cupti) -> None:
    def program(t: int) -> None:
        def work() -> None:
            cupti.launch("k", t + 10_000, t + 20_000)
            launched.set()
            over.wait()

        thread.append(threading.Thread(target=work, name="loader"))
        thread[0].start()
        launched.wait()

    thread: list[threading.Thread] = []
    launched, over = threading.Event(), threading.Event()
    session = CuptiSession(load=Driver().load)
    session.start(clock := Clock())
    program(clock.now_ns())
    session.stop()
    over.set()
    thread[0].join()
    session.result(builder := TraceBuilder())
    assert "loader" in set(builder.seal().tracks["name"])


def test_what_is_left_out_is_told(cupti: Cupti, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(t: int) -> None:
        cupti.launch("before", t - 2_000_000_000, t - 1_000_000_000)
        cupti.launch("bare", t + 500, 0)
        cupti.launch("in", t + 1_000, t + 2_000)
        cupti.lost = 5

    trace, _ = recorded(cupti, program)
    assert of(trace, "kernel")["name"].tolist() == ["in"]
    losses = {issue.code: issue.count for issue in trace.report if issue.severity == "loss"}
    assert losses["records-without-times"] == 1
    assert losses["records-dropped"] == 5
    monkeypatch.setattr(home, "MOST_RECORDS", 1)
    cupti.lost = 0
    trace, _ = recorded(cupti, lambda t: cupti.launch("many", t + 1_000, t + 2_000))
    assert of(trace, "kernel").empty
    assert trace.report["records-dropped"].count == (2 if cupti.old else 3)


def test_only_the_cards_that_were_asked_for(cupti: Cupti) -> None:
    def program(t: int) -> None:
        for at in range(4):
            cupti.launch("k", t + 20_000 * at + 10_000, t + 20_000 * at + 15_000, device=at % 2)

    trace, _ = recorded(cupti, program, keep=(1,))
    assert of(trace, "kernel")["device"].tolist() == [1, 1]
    assert len(of(trace, "launch")) == 2


def test_the_version_of_cupti_is_kept_for_the_advice(cupti: Cupti, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the library, whose release can be another than the package's."""
    monkeypatch.setattr(home, "loaded_cupti", lambda: (None, 130_001))

    def program(t: int) -> None:
        for at in range(12):
            start = t + 20_000 * at + 10_000
            cupti.launch("k", start, start + 5_000)
            if at < 2:
                lost = cupti.ActivityKind.CONCURRENT_KERNEL
                cupti.waiting = [one for one in cupti.waiting if one.kind != lost]

    trace, _ = recorded(cupti, program)
    assert trace.metadata["cupti_version"] == 130_001
    lost = trust(trace).set_index("code").loc["kernels-lost-at-start"]
    assert (lost["count"], "CUPTI 12.6 to 13.0" in lost["advice"]) == (2, True)


def test_records_of_an_unknown_shape_stay_in_the_callback(cupti: Cupti) -> None:
    def program(t: int) -> None:
        cupti.put(cupti.ActivityKind.CONCURRENT_KERNEL, nothing=1)

    trace, _ = recorded(cupti, program)
    assert "AttributeError" in trace.report["records-unreadable"].example


NAMES = {15: "NOT_INITIALIZED", 35: "INSUFFICIENT_PRIVILEGES", 39: "MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"}
NAMES |= {40: "VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES"}


@pytest.mark.parametrize(
    ("what", "code", "words"),
    [
        ("subscribe", 39, "another profiler holds CUPTI"),
        ("enable CONCURRENT_KERNEL", 35, "ERR_NVGPUCTRPERM"),
        ("enable CONCURRENT_KERNEL", 40, "virtual GPU"),
        ("subscribe", 15, "pip install"),
        ("register", 0, "pip install"),
    ],
)
def test_a_refusal_is_a_sentence_that_says_what_to_do(cupti: Cupti, what: str, code: int, words: str) -> None:
    incompatible = RuntimeError("Incompatible CUPTI Library")
    cupti.fails[what] = cuptiError(f"ERROR_{NAMES[code]}", code) if code else incompatible
    session = CuptiSession(load=Driver().load)
    with pytest.raises(RecordingError, match=words) as raised:
        session.start(Clock())
    assert cupti.version in str(raised.value)
    assert not cupti.subscribed
    assert not cupti.enabled
    cupti.fails.clear()  # and the next recording works
    trace, _ = recorded(cupti, lambda t: cupti.launch("k", t + 1_000, t + 2_000))
    assert len(of(trace, "kernel")) == 1


@pytest.mark.parametrize(
    ("cards", "version", "words"),
    [
        (Driver(version=0), "13.4.0", "no NVIDIA driver"),
        (Driver(code=100), "13.4.0", "CUDA_ERROR_NO_DEVICE (100); no GPU is visible"),
        (Driver(code=803), "13.4.0", "reboot"),
        (Driver(cards=0), "13.4.0", "CUDA_VISIBLE_DEVICES"),
        (Driver(version=12_040), "13.4.0", "for CUDA 12.4: update the driver"),
        (Driver(version=12_080), "13.4.0", 'for CUDA 12.8: pip install "cupti-python<12.9"'),
        (Driver(version=12_080), "", 'not installed: pip install "cupti-python<12.9"'),
        (Driver(version=13_000), "", 'not installed: pip install "cupti-python<13.1"'),
        (Driver(), "", 'not installed: pip install "cupti-python<13.5"'),
    ],
)
def test_the_driver_is_asked_before_the_package_is_loaded(
    monkeypatch: pytest.MonkeyPatch, cards: Driver, version: str, words: str
) -> None:
    """libcupti 13.2 ends a process in which libcuda loads and cannot be used."""
    monkeypatch.setattr(driver, "package_version", lambda: version)
    monkeypatch.setattr(driver, "_usable", {})
    monkeypatch.setattr(driver, "_run_child", lambda: driver.ask(cards.load))
    monkeypatch.setitem(sys.modules, "cupti.cupti", None)  # importing it fails
    with pytest.raises(RecordingError) as raised:
        CuptiSession(load=cards.load).start(Clock())
    assert words in str(raised.value)


def test_a_package_newer_than_the_driver_is_tried_and_advised_against() -> None:
    """As NVIDIA documents: CUPTI does not start then."""
    driver_of_13_0 = DriverState(0, 1, 13_000, "", "ERROR_NOT_INITIALIZED (15)")
    assert 'pip install "cupti-python<13.1"' in unusable("13.4.0", driver_of_13_0)
    assert unusable("13.4.0", driver_of_13_0._replace(refused="")) == ""


def test_looking_initialises_nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """``cuInit`` takes CUDA from the children that a process forks later: another process is asked."""
    monkeypatch.setattr(driver, "_usable", {})
    answers = [
        DriverState(100, words="CUDA_ERROR_NO_DEVICE"),
        DriverState(0, 2, 13_040, "", "ERROR"),
        DriverState(0, 2, 13_040),
    ]
    monkeypatch.setattr(driver, "_run_child", lambda: answers.pop(0))
    cards = Driver()
    assert "no GPU is visible" in driver.ask_in_child(cards.load).problem
    assert driver.ask_in_child(cards.load).refused == "ERROR"
    assert driver.ask_in_child(cards.load).cards == 2
    assert driver.ask_in_child(cards.load).cards == 2  # a good answer is kept
    assert not cards.initialised


CHILDREN = {
    "import os; os._exit(7)": DriverState(-1, words="CUDA does not start: cuInit ended its process"),
    "print('[0, 1, 13040, \"\"]', flush=True); import os; os._exit(7)": DriverState(
        0, 1, 13_040, "", "libcupti ended its process"
    ),
    "print('[100, 0, 13040, \"NO\"]'); print('\"\"')": DriverState(100, 0, 13_040, "NO"),
}


@pytest.mark.parametrize("code", CHILDREN)
def test_a_child_that_ends_in_the_middle(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    run, words = own_processes.run, [sys.executable, "-c", code]
    monkeypatch.setattr(own_processes, "run", lambda command, seconds: run(words, seconds))
    assert driver._run_child() == CHILDREN[code]


def test_a_child_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_processes, "run", lambda command, seconds: None)
    assert "took over 20 s" in driver._run_child().problem


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_stops_nothing(cupti: Cupti) -> None:
    session = CuptiSession(load=Driver().load)
    session.start(Clock())
    before = list(cupti.journal)
    child = os.fork()
    if not child:
        session.stop()
        session.abandon()
        os._exit(len(cupti.journal) - len(before))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    session.stop()
    assert cupti.journal[-1] == "unsubscribe"


def test_a_whole_recording(cupti: Cupti, monkeypatch: pytest.MonkeyPatch) -> None:
    from notebook_prof.collectors import cuda
    from notebook_prof.collectors.base import Availability
    from notebook_prof.collectors.cuda import CudaCollector, CudaFacts

    facts = CudaFacts(Availability(True), cupti=Availability(True, "by NVIDIA"))
    monkeypatch.setattr(cuda, "survey", lambda *_: facts)
    monkeypatch.setattr(cuda, "CuptiSession", lambda keep: CuptiSession(keep, Driver().load))
    with nbp.profile(CudaCollector()) as p:
        t = time.time_ns()
        cupti.launch("k", t + 10_000, t + 20_000)
    assert p.trace.metadata["cuda_route"] == "cupti"
    assert p.kernels()["name"].tolist() == ["k"]


def test_clocks() -> None:
    times = np.array([0, 500, 1_000])
    steady = to_wall(ClockReading(1_000, 0, 3), ClockReading(2_006, 1_000, 5), times)
    assert steady.tolist() == [1_002, 1_502, 2_002]  # within the errors: one whole offset
    apart = to_wall(ClockReading(1_000, 0, 3), ClockReading(3_000, 1_000, 5), times)
    assert apart.tolist() == [1_000, 2_000, 3_000]
