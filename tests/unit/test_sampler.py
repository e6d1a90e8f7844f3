"""The sampler at work: real ticks, generous bounds."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof.collectors.base import Recording
from notebook_prof.collectors.marks import annotate
from notebook_prof.collectors.options import CollectorOptions
from notebook_prof.collectors.python import PythonCollector
from notebook_prof.collectors.python.alarm import delayed_tick, timer
from notebook_prof.collectors.python.alarm.sampler import Sampler
from notebook_prof.collectors.python.thread_stacks import ThreadStacks
from notebook_prof.collectors.registry import make
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.clocks import Clock

# pytest-timeout's default method uses the alarm itself
pytestmark = [
    pytest.mark.timeout(600, method="thread"),
    pytest.mark.clock("ticks of a real timer come late where the machine is busy"),
]
needs_alarm = pytest.mark.skipif(bool(delayed_tick.refusal()), reason="the alarm is used on Linux only")


def by_alarm() -> PythonCollector:
    return PythonCollector(CollectorOptions(engine="alarm"))


def recorded(body: Callable[[], object], collector: PythonCollector | None = None) -> Trace:
    collector = collector or by_alarm()
    recording = Recording([collector])
    recording.start()
    try:
        body()
    finally:
        recording.stop()
    builder = TraceBuilder()
    recording.result(builder)
    return builder.seal()


def self_ms(trace: Trace) -> pd.Series[float]:
    """Self time by function or line, in ms."""
    return (trace.slices.groupby("name", observed=True)["self_ns"].sum() / 1e6).sort_values(ascending=False)


def busy(seconds: float) -> int:
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        count += 1
    return count


def nap(seconds: float) -> None:
    time.sleep(seconds)


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Sleep until what a loaded machine does late has been done."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened for a minute"
        nap(0.005)


def sampler_of(collector: PythonCollector) -> Sampler:
    assert isinstance(collector._engine, Sampler)
    return collector._engine


def share(trace: Trace, word: str) -> float:
    """Of the recorded thread's time: test runners have threads of their own, which wait."""
    tracks = trace.tracks
    track = tracks.loc[tracks["tid"] == threading.get_native_id(), "track"]
    times = self_ms(trace.sel(track=track.tolist()))
    return float(times[[word in name for name in times.index]].sum() / times.sum())


@needs_alarm
def test_time_is_credited_to_the_lines_that_ran() -> None:
    took: list[float] = []

    def body() -> None:
        began = time.perf_counter()
        busy(0.15)
        between = time.perf_counter()
        nap(0.15)
        took.extend((between - began, time.perf_counter() - between))

    trace = recorded(body)
    computing, sleeping = (part / sum(took) for part in took)  # other jobs may have made either longer
    assert share(trace, "count") == pytest.approx(computing, abs=0.15)
    assert share(trace, "time.sleep(seconds)") == pytest.approx(sleeping, abs=0.15)
    assert not trace.report


@needs_alarm
def test_an_operator_that_gives_up_the_gil_is_credited_to_its_own_line() -> None:
    """CPython runs the handler at the next call, which here is in another line."""
    a = np.ones((900, 900))

    def body() -> Any:
        result = None
        for _ in range(6):
            product = a @ a
            result = product.sum()
        return result

    times = self_ms(recorded(body))
    product = times[[name.endswith("product = a @ a") for name in times.index]].sum()
    total = times[[("product" in name) or ("_sum" in name) for name in times.index]].sum()
    assert product / total > 0.5  # without a look from outside it is nothing


@needs_alarm
def test_lines_run_inside_the_annotation_that_holds_them() -> None:
    def body() -> None:
        for _ in range(4):
            with annotate("piece"):
                nap(0.02)

    recording = Recording(make(["python"], CollectorOptions(engine="alarm")))
    recording.start()
    body()
    recording.stop()
    builder = TraceBuilder()
    recording.result(builder)
    slices = builder.seal().slices
    pieces = slices[slices["name"].astype(str) == "piece"]
    assert len(pieces) == 4
    assert pieces["depth"].nunique() == 1
    sleeping = slices[slices["name"].astype(str).str.endswith("time.sleep(seconds)")]
    assert sleeping["depth"].nunique() == 1
    assert (sleeping["depth"] > pieces["depth"].iloc[0]).all()


def test_the_track_is_that_of_the_thread() -> None:
    main = threading.current_thread()
    tracks = recorded(lambda: nap(0.03)).tracks.set_index("name")
    assert tracks.loc[main.name, "tid"] == main.native_id


def test_in_another_thread_it_looks_from_outside() -> None:
    traces: list[Trace] = []
    thread = threading.Thread(target=lambda: traces.append(recorded(lambda: nap(0.2))), name="other")
    thread.start()
    thread.join()
    assert "main thread" in traces[0].report["coarse-sampling"].example
    assert self_ms(traces[0]).filter(like="time.sleep(seconds)").sum() > 100


@needs_alarm
def test_a_user_who_has_the_alarm_keeps_it() -> None:
    hits: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *args: hits.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        trace = recorded(lambda: nap(0.2))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert hits == [1]
    assert "SIGALRM" in trace.report["coarse-sampling"].example
    assert share(trace, "time.sleep(seconds)") > 0.5


@needs_alarm
def test_a_user_who_takes_the_alarm_finds_it_unused() -> None:
    results: list[object] = []

    def body() -> None:
        nap(0.05)
        results.append(signal.getsignal(signal.SIGALRM))
        results.append(signal.signal(signal.SIGALRM, lambda *args: results.append("rang")))
        results.append(signal.alarm(0))
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        nap(0.15)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    trace = recorded(body)
    assert results == [signal.SIG_DFL, signal.SIG_DFL, 0, "rang"]
    assert "signal.getsignal" in trace.report["coarse-sampling"].example
    assert share(trace, "time.sleep(seconds)") > 0.5


FAULTS = """
import faulthandler, json, signal, sys, time
from notebook_prof.collectors.python.alarm.sampler import Sampler
from notebook_prof.trace.clocks import Clock
from notebook_prof.trace.report import ImportReport

def ring():
    signal.raise_signal(signal.SIGALRM)

report = ImportReport()
sampler = Sampler(report)
if sys.argv[1] == "before":
    faulthandler.register(signal.SIGALRM, file=sys.stderr)
sampler.start(Clock())
if sys.argv[1] == "during":
    faulthandler.register(signal.SIGALRM, file=sys.stderr)
end = time.monotonic() + 0.3
while time.monotonic() < end:
    pass
ring()
sampler.stop()
ring()
sampler.recorded()
print(json.dumps([issue.example for issue in report]))
"""


@needs_alarm
@pytest.mark.parametrize("when", ["before", "during"])
def test_faulthandler_keeps_the_alarm(when: str) -> None:
    """It sets its handler without Python's knowledge; each tick would write a traceback."""
    ran = subprocess.run([sys.executable, "-c", FAULTS, when], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stderr.count("in ring") == 2, "what the user rang for, during and after the recording"
    assert any("faulthandler.register" in warning for warning in json.loads(ran.stdout)), ran.stdout


@needs_alarm
def test_other_signals_do_not_stop_it() -> None:
    def body() -> None:
        signal.getsignal(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, signal.signal(signal.SIGUSR1, signal.SIG_IGN))
        nap(0.05)

    assert not recorded(body).report


def state() -> tuple[object, ...]:
    functions = tuple(getattr(module, name) for module, name in timer._MET_BY)
    return (*functions, signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL))


def threads_and_files() -> tuple[set[threading.Thread], int]:
    """Threads and the number of open files; other tests' may end meanwhile, ours must not stay."""
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    return set(threading.enumerate()), files


@needs_alarm
def test_fifty_recordings_leave_nothing_behind() -> None:
    before, (threads, files) = state(), threads_and_files()
    for round_ in range(50):
        sampler = by_alarm()
        sampler.start(Clock())
        busy(0.003)
        if round_ % 2:
            sampler.stop()
            sampler.result(TraceBuilder())
        sampler.abandon()
        sampler.stop()
    assert state() == before
    assert threads_and_files()[0] <= threads
    assert threads_and_files()[1] <= files


@needs_alarm
def test_a_look_keeps_nothing_alive() -> None:
    """What a function held whose stack another thread saw goes with the function, without the collector."""

    class Tensor:
        pass

    looks, begun, done = ThreadStacks(time.time_ns), threading.Event(), threading.Event()
    kept: list[weakref.ref[Tensor]] = []

    def step() -> None:
        tensor = Tensor()
        kept.append(weakref.ref(tensor))
        begun.set()
        done.wait(10)

    gc.collect()
    gc.disable()
    try:
        thread = threading.Thread(target=step)
        thread.start()
        assert begun.wait(10)
        looks.look()
        assert kept[0]() is not None
        done.set()
        thread.join(10)
        assert kept[0]() is None
    finally:
        gc.enable()
    assert len(looks.threads) >= 2, "it saw both threads"


def test_a_failure_while_ticking_is_reported_and_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    look, looks = ThreadStacks.look, []

    def fail(self: ThreadStacks) -> None:
        looks.append(1)
        if 1 < len(looks) < 4:
            raise OSError("no frames")
        look(self)

    monkeypatch.setattr(ThreadStacks, "look", fail)
    trace = recorded(lambda: until(lambda: len(looks) > 4))
    assert "no frames" in trace.report["ticks-failed"].example


@needs_alarm
def test_long_recordings_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "THIN_AFTER", 20)
    collector = by_alarm()
    ticks = timer.THIN_AFTER + 1
    trace = recorded(lambda: until(lambda: sampler_of(collector).ticks > ticks), collector)
    assert "ms at the end" in trace.report["sampling-thinned"].example


@needs_alarm
def test_an_interrupt_in_the_cell_keeps_what_was_sampled() -> None:
    def body() -> None:
        nap(0.05)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts tests in the background ignores it
    before, (threads, files) = state(), threads_and_files()
    assert self_ms(recorded(body)).filter(like="time.sleep(seconds)").sum() > 20
    assert state() == before
    assert threads_and_files()[0] <= threads
    assert threads_and_files()[1] <= files


@needs_alarm
def test_children_and_blocking_calls_are_undisturbed() -> None:
    def body() -> None:
        done = subprocess.run(
            [sys.executable, "-c", "print(6*7)"], capture_output=True, text=True, check=True
        )
        assert done.stdout == "42\n"
        read, write = os.pipe()
        threading.Timer(0.05, lambda: os.write(write, b"x")).start()
        assert os.read(read, 1) == b"x"
        os.close(read)
        os.close(write)

    assert not recorded(body).report


def test_nothing_is_printed_and_the_process_ends_well() -> None:
    program = """
        import time
        from notebook_prof.collectors.base import Recording
        from notebook_prof.collectors.registry import make
        from notebook_prof.trace import TraceBuilder
        for _ in range(3):
            recording = Recording(make(["python"]))
            recording.warm(); recording.start()
            sum(i * i for i in range(200_000)); time.sleep(0.02)
            recording.stop()
            builder = TraceBuilder(); recording.result(builder)
            assert len(builder.seal().slices)
        recording = Recording(make(["python"])); recording.start()  # and never stopped
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_lines_of_a_notebook_cell_have_their_source(tmp_path: Any) -> None:
    program = """
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_cell("import time\\nfrom notebook_prof.collectors.base import Recording\\n"
            "from notebook_prof.collectors.registry import make\\n"
            "def inner():\\n    time.sleep(0.05)")
        shell.user_ns["box"] = []
        def begin(info):
            r = shell.user_ns["Recording"](shell.user_ns["make"](["python"]))
            shell.user_ns["box"].append(r); r.start()
        def end(result):
            shell.user_ns["box"][0].stop()
        shell.events.register("pre_run_cell", begin); shell.events.register("post_run_cell", end)
        shell.run_cell("x = 1\\ninner()\\ntime.sleep(0.05)")
        shell.events.unregister("pre_run_cell", begin); shell.events.unregister("post_run_cell", end)
        from notebook_prof.trace import TraceBuilder
        b = TraceBuilder(); shell.user_ns["box"][0].result(b)
        s = b.seal().slices
        told = s["name"].astype(str).str.contains(r"inner\\(\\)$|inner \\(|sleep")
        s = s[told & (s["dur"] > 20_000_000)]  # a loaded machine makes other lines long too
        print([(n, d) for n, d in zip(s["name"].astype(str), s["depth"].tolist())])
    """
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.stdout.strip() == str(
        [
            ("cell:2  inner()", 0),
            ("inner (cell)", 1),
            ("cell:5  time.sleep(0.05)", 2),
            ("cell:3  time.sleep(0.05)", 0),
        ]
    ), done.stderr


def test_options_choose_the_way() -> None:
    collector = PythonCollector(CollectorOptions(python="sample", engine="alarm"))
    collector.start(Clock())
    assert sampler_of(collector).name == "alarm"
    collector.abandon()
    collector.result(TraceBuilder())
