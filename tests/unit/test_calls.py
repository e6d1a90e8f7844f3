"""Tracing every call with VizTracer."""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pytest

import notebook_prof
from notebook_prof.collectors.options import CollectorOptions
from notebook_prof.collectors.python import PythonCollector, tracing
from notebook_prof.collectors.python.tracing import Calls, Function
from notebook_prof.optional import installed
from notebook_prof.trace import Trace
from notebook_prof.trace.clocks import Clock

from ..recorded import recorded as recorded_by

needs_viztracer = pytest.mark.skipif(not installed("viztracer"), reason="VizTracer is not installed")

SECOND = 1_000_000_000
"""More than two clocks of one machine are apart."""


def inner(n: int) -> int:
    time.sleep(0.002)
    return n


def outer() -> int:
    return inner(1) + inner(2)


def numbers() -> Iterator[int]:
    yield from (1, 2)


def failing() -> None:
    raise KeyError("x")


def body() -> None:
    outer()
    list(numbers())
    with pytest.raises(KeyError):
        failing()
    pd.DataFrame({"a": np.arange(3)}).sum()


def recorded(run: Callable[[], object] = body, min_duration_ns: int = 0) -> Trace:
    options = CollectorOptions(python="calls", min_duration_ns=min_duration_ns)
    return recorded_by(PythonCollector(options), run)


def check(trace: Trace) -> None:
    slices = trace.slices.copy()
    slices["name"] = slices["name"].astype(str)
    assert not [str(issue) for issue in trace.report]
    calls = slices[slices["name"] == "inner (test_calls.py)"]
    assert len(calls) == 2
    assert (calls["dur"] >= 1_500_000).all()
    caller = slices.index[slices["name"] == "outer (test_calls.py)"][0]
    assert (calls["parent"] == caller).all()
    assert slices.loc[caller, "dur"] < 60_000_000_000
    stack = trace.stacks.set_index("stack").loc[calls["stack"].iloc[0]]
    assert (stack["name"], stack["line"]) == ("inner", inner.__code__.co_firstlineno)
    assert "failing (test_calls.py)" in set(slices["name"])
    package = os.path.dirname(notebook_prof.__file__)
    assert not any(file.startswith(package) for file in trace.stacks["file"])
    main = threading.current_thread()
    assert trace.tracks.set_index("tid").loc[main.native_id, "name"] == main.name


@needs_viztracer
def test_viztracer_traces_calls_with_their_times() -> None:
    before = time.time_ns()
    trace = recorded()
    check(trace)
    assert before - SECOND <= trace.metadata["start_unix_ns"] <= time.time_ns() + SECOND
    assert (trace.slices["name"].astype(str) == "time.sleep").sum() == 2


@needs_viztracer
def test_short_calls_are_dropped_on_request() -> None:
    trace = recorded(min_duration_ns=1_000_000)
    assert (trace.slices["dur"] >= 900_000).all()  # dropped by another clock than that of the table
    assert "inner (test_calls.py)" in set(trace.slices["name"].astype(str))


@needs_viztracer
def test_another_profiler_is_respected() -> None:
    def hook(*args: object) -> None:
        return None

    if sys.version_info >= (3, 12):
        sys.monitoring.use_tool_id(sys.monitoring.PROFILER_ID, "other")
        try:
            assert "other" in tracing.refusal()
        finally:
            sys.monitoring.free_tool_id(sys.monitoring.PROFILER_ID)
        return
    sys.setprofile(hook)
    try:
        trace = recorded(lambda: outer())
        assert sys.getprofile() is hook
    finally:
        sys.setprofile(None)
    assert "another profiler" in trace.report["calls-not-traced"].example
    assert trace.metadata["python_engine"], "it was sampled"


@needs_viztracer
@pytest.mark.parametrize("tool", ["sys.setprofile", "cProfile"])
def test_ours_gives_way_to_a_profiler_that_the_code_starts(tool: str) -> None:
    seen: list[str] = []
    profiler = cProfile.Profile()

    def body() -> None:
        inner(1)
        if tool == "cProfile":
            profiler.enable()
        else:
            sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name))
        outer()

    trace = recorded(body)
    profiler.disable()
    sys.setprofile(None)
    if tool == "cProfile":
        seen = [name for _, _, name in pstats.Stats(profiler).stats]  # type: ignore[attr-defined]
    assert "outer" in seen
    assert tool in trace.report["calls-gave-way"].example
    names = set(trace.slices["name"].astype(str))
    assert "inner (test_calls.py)" in names
    assert "outer (test_calls.py)" not in names


def test_without_any_way_the_reason_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "refusal", lambda: "VizTracer is not installed")
    assert "no tracing of calls" in PythonCollector.availability().reason
    assert "VizTracer is not installed" in recorded(lambda: None).report["calls-not-traced"].example


class Played:
    """A backend with given calls."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def calls(self, clock: Clock) -> Calls:
        functions = [
            Function("work", "train.py", 3),
            Function("poll", "/x/site-packages/ipykernel/kernelbase.py", 9),
            Function("sorted", "", 0),
        ]
        threads = {1: "MainThread", 2: "IOPub", 3: "worker"}
        column = [np.array(c, np.int64) for c in ([0, 10, 20, 30], [5, 5, 5, 5], [1, 1, 2, 3], [0, 1, 0, 2])]
        return Calls(column[0], column[1], column[2], column[3], functions, threads, 0)


def test_ipykernels_threads_and_machinery_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "refusal", lambda: "")
    monkeypatch.setattr(tracing, "VizBackend", lambda min_duration_ns: Played())
    trace = recorded(lambda: None)
    assert list(trace.slices["name"].astype(str)) == ["work (train.py)", "sorted"]
    assert list(trace.tracks["name"]) == ["MainThread", "worker"]


def test_what_the_thread_of_a_cell_did_outside_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, inside, outside = Function("<module>", "<ipython-input-1-a>", 1), Function("f", "f.py", 1), 2
    functions = [cell, inside, Function("builtins.exec", "", 0)]
    ts, dur = np.array([5, 10, 20, 90, 12]), np.array([100, 50, 5, 1, 7])
    thread, function = np.array([1, 1, 1, 1, 2]), np.array([outside, 0, 1, outside, 1])
    calls = Calls(ts, dur, thread, function, functions, {1: "main", 2: "other"}, 0)
    monkeypatch.setattr(Played, "calls", lambda self, clock: calls)
    monkeypatch.setattr(tracing, "refusal", lambda: "")
    monkeypatch.setattr(tracing, "VizBackend", lambda min_duration_ns: Played())
    slices = recorded(lambda: None).slices
    assert list(slices["name"].astype(str)) == ["<module> (cell)", "f (f.py)", "f (f.py)"]
