"""The jax collector, on JAX's CPU backend."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.collectors import jax as room
from notebook_prof.collectors.jax import JaxCollector
from notebook_prof.optional import installed

from ..recorded import recorded

needs_jax = pytest.mark.skipif(not installed("jax"), reason="jax is not installed")


def step_function() -> Any:
    import jax
    import jax.numpy as jnp

    work = jax.jit(lambda x: jnp.tanh(x @ x).sum())
    x = jnp.ones((200, 200))
    work(x).block_until_ready()
    return lambda: work(x).block_until_ready()


@needs_jax
def test_operations_and_steps() -> None:
    import jax

    step = step_function()
    before = time.time_ns()
    with nbp.profile("jax") as p:
        for number in range(5):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                step()
    trace = p.trace
    assert trace.steps["step"].tolist() == list(range(5))
    assert set(trace.steps["source"]) == {"file"}
    operators = trace.slices[trace.slices["category"] == "operator"]
    assert operators["name"].astype(str).str.contains("dot|fusion").any()
    assert trace.metadata["jax_version"] == jax.__version__
    start = trace.metadata["start_unix_ns"] + int(trace.steps["ts"].iloc[0])
    assert before <= start <= time.time_ns()  # on the recording's clock
    assert not [issue for issue in trace.report if issue.severity != "info"]


@needs_jax
def test_python_calls_only_on_request() -> None:
    step = step_function()
    with nbp.profile("jax") as plain:
        step()
    with nbp.profile("jax", stack=True) as with_calls:
        step()
    assert not (plain.trace.slices["category"] == "python").any()
    assert (with_calls.trace.slices["category"] == "python").any()


@needs_jax
def test_a_busy_profiler_is_refused_and_left_running(tmp_path: Any) -> None:
    import jax

    step = step_function()
    jax.profiler.start_trace(str(tmp_path))
    try:
        with nbp.profile("jax") as p:
            step()
    finally:
        jax.profiler.stop_trace()
    assert list(tmp_path.rglob("*.xplane.pb"))  # the user's own recording is whole
    assert p.trace.metadata["collectors"]  # and ours says what it could not do
    assert not (p.trace.slices["category"] == "operator").any()
    assert [issue for issue in p.trace.report if issue.severity != "info"]


@needs_jax
def test_the_users_own_profiler_goes_first(tmp_path: Any) -> None:
    import jax

    step, original = step_function(), jax.profiler.start_trace
    with nbp.profile("jax") as p:
        step()
        with jax.profiler.trace(str(tmp_path / "a")):
            step()
        jax.profiler.start_trace(str(tmp_path / "b"))
        step()
        jax.profiler.stop_trace()
    assert {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*.xplane.pb")} == {"a", "b"}
    assert (p.trace.slices["category"] == "operator").any()  # what ran before is kept
    assert p.trace.report["profiler-overtaken"].count == 1
    assert jax.profiler.start_trace is original


@needs_jax
def test_through_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_native", lambda: None)
    step = step_function()
    with nbp.profile("jax") as p:
        step()
    assert (p.trace.slices["category"] == "operator").any()


def test_nothing_recorded_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(__version__="0", profiler=SimpleNamespace()))
    monkeypatch.setattr(room, "start_profiler", lambda jax, python: bytes)
    assert "no-planes" in recorded(JaxCollector()).report
