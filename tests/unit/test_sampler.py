"""The sampler at work."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import pandas as pd
import pytest

from notebook_prof.collectors.options import CollectorOptions
from notebook_prof.collectors.python import PythonCollector, engine
from notebook_prof.collectors.python.frames import KEPT_FRAMES
from notebook_prof.collectors.python.thread_stacks import StackSnapshot, ThreadStacks
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.clocks import Clock

from ..new_process import run_python
from ..recorded import recorded as recorded_by


def by_thread() -> PythonCollector:
    return PythonCollector(CollectorOptions(engine="thread"))


def recorded(body: Callable[[], object], collector: PythonCollector | None = None) -> Trace:
    return recorded_by(collector or by_thread(), body)


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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no poll")
def test_calls_into_c_are_not_interrupted() -> None:
    """A signal would end them before their time: `poll` is restarted by nobody."""
    libc, results = ctypes.CDLL(None), []
    recorded(lambda: results.extend(libc.poll(None, 0, 20) for _ in range(10)))
    assert results == [0] * 10


def state() -> tuple[object, ...]:
    timers = [signal.getitimer(which) for which in range(3)] if hasattr(signal, "getitimer") else []
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    return gc.isenabled(), sys.getswitchinterval(), timers, handlers


def threads_and_files() -> tuple[set[threading.Thread], int]:
    """Threads and the number of open files; other tests' may end meanwhile, ours must not stay."""
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    return set(threading.enumerate()), files


def test_twenty_recordings_leave_nothing_behind() -> None:
    before, (threads, files) = state(), threads_and_files()
    for round_ in range(20):
        collector = by_thread()
        collector.start(Clock())
        busy(0.003)
        if round_ % 2:
            collector.stop()
            collector.result(TraceBuilder())
        collector.abandon()
        collector.stop()
    assert state() == before
    assert threads_and_files()[0] <= threads
    assert threads_and_files()[1] <= files


def test_a_failure_while_looking_is_reported_and_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    look, looks = ThreadStacks.look, []

    def fail(self: ThreadStacks, due_ns: int | None = None) -> int:
        looks.append(1)
        if 1 < len(looks) < 4:
            raise OSError("no frames")
        return look(self, due_ns)

    monkeypatch.setattr(ThreadStacks, "look", fail)
    trace = recorded(lambda: until(lambda: len(looks) > 4))
    assert "no frames" in trace.report["looks-failed"].example


def test_long_recordings_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "THIN_AFTER", 5)
    look, looks = ThreadStacks.look, []
    monkeypatch.setattr(ThreadStacks, "look", lambda *given: looks.append(1) or look(*given))
    trace = recorded(lambda: until(lambda: len(looks) > 10))
    assert "ms at the end" in trace.report["sampling-thinned"].example


def test_time_until_the_gil_is_given_up_is_of_what_ran_before() -> None:
    """A thread that waits for the GIL sees at first the very call that gives it up."""
    ms, ident = 1_000_000, threading.get_ident()
    stacks = iter([(2, busy), (9, busy), (14, nap), (16, nap), (25, busy)])

    def walk(*_: object) -> StackSnapshot:
        ts, function = next(stacks)
        return StackSnapshot(ts * ms, 0, [ident], [[function.__code__]], [[0]])

    looks = ThreadStacks(time.time_ns, read=walk)
    for due in (2, 4, 11, 16, 18):  # the second and the last get it by force
        looks.look(due * ms)
    [seen] = looks.threads
    before, after = looks.tree.node([busy.__code__], [0]), looks.tree.node([nap.__code__], [0])
    assert list(seen.node) == [before, before, before, after, before]


@pytest.mark.parametrize("depth", [300, 10_000])
def test_deep_stacks_are_folded(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    look, looks = ThreadStacks.look, []
    monkeypatch.setattr(ThreadStacks, "look", lambda *given: looks.append(1) or look(*given))

    def deep(n: int) -> int:
        return 0 if n == 0 else 1 + deep(n - 1)

    def body() -> None:
        end = time.monotonic() + 60
        while len(looks) < 10 and time.monotonic() < end:  # some see it before it is deep
            deep(depth)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 500)
    try:
        trace = recorded(body)
    finally:
        sys.setrecursionlimit(limit)
    folded = [issue for issue in trace.report if issue.code == "deep-stacks-folded"]
    assert bool(folded) == (depth > 1_000)
    assert trace.slices["depth"].max() < 2 * (2 * KEPT_FRAMES + 1)


def test_an_interrupt_in_the_cell_keeps_what_was_sampled() -> None:
    def body() -> None:
        nap(1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts tests in the background ignores it
    before, (threads, files) = state(), threads_and_files()
    assert self_ms(recorded(body)).filter(like="time.sleep(seconds)").sum() > 0
    assert state() == before
    assert threads_and_files()[0] <= threads
    assert threads_and_files()[1] <= files


def test_children_and_blocking_calls_are_undisturbed() -> None:
    def body() -> None:
        assert run_python("print(6*7)").stdout == "42\n"
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
            end = time.thread_time() + 0.3
            while time.thread_time() < end:
                sum(range(1000))
            recording.stop()
            builder = TraceBuilder(); recording.result(builder)
            assert len(builder.seal().slices)
        recording = Recording(make(["python"])); recording.start()  # and never stopped
    """
    done = run_python(program)
    assert (done.stdout, done.stderr) == ("", "")
