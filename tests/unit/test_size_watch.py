"""A recording that would take gigabytes ends before it does."""

from __future__ import annotations

import sys
import threading
import time
import types
from collections.abc import Callable

import pytest

import notebook_prof as nbp
from notebook_prof.collectors import base
from notebook_prof.session import engine, records
from notebook_prof.session.records import SizeWatch

GENEROUS_S = 60.0


@pytest.fixture
def growing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process seem to grow by 10 MiB at each look."""
    levels = iter(range(0, 2**60, 10 * 2**20))
    monkeypatch.setattr(records, "resident_bytes", lambda: next(levels))
    monkeypatch.setattr(records, "INTERVAL_S", 0.005)
    monkeypatch.setattr(records, "FIRST_S", 0.05)


def work_until(done: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < GENEROUS_S


def watched(
    look: Callable[[], bool], done: Callable[[], bool], between: Callable[[], None] = lambda: None
) -> None:
    watch = SizeWatch(look)
    watch.start()
    between()
    try:
        work_until(done)
    finally:
        watch.stop()


def test_the_look_is_in_the_main_thread_and_once(growing: None) -> None:
    looks: list[threading.Thread] = []

    def look() -> bool:
        looks.append(threading.current_thread())
        return False

    before = set(threading.enumerate())
    watched(look, lambda: bool(looks))
    assert looks == [threading.main_thread()]
    assert set(threading.enumerate()) <= before


def test_a_look_waits_until_code_of_the_window_is_over(growing: None) -> None:
    inside, seen = [False], []
    scope = {"__name__": "notebook_prof.session.window", "wait": lambda: time.sleep(0.001)}
    exec("def tick():\n    for _ in range(300):\n        wait()\n", scope)

    def window() -> None:
        inside[0] = True
        scope["tick"]()  # type: ignore[operator]
        inside[0] = False

    watched(lambda: bool(seen.append(inside[0])), lambda: bool(seen), window)
    assert seen == [False]


def test_an_interrupt_during_the_look_reaches_the_user(growing: None) -> None:
    def look() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watched(look, lambda: False)


@pytest.mark.parametrize("why", ["one burst", "imports"])
def test_a_process_that_grew_for_another_reason_is_not_looked_at(
    growing: None, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    modules, read, steady = sys.modules.copy(), [0], records.resident_bytes

    def level() -> int:
        read[0] += 1
        if why == "one burst":
            return 2**30 if read[0] > 5 else 0
        modules[f"imported{read[0]}"] = types
        return steady()

    monkeypatch.setattr(records, "sys", types.SimpleNamespace(modules=modules, _getframe=sys._getframe))
    monkeypatch.setattr(records, "resident_bytes", level)
    looks: list[int] = []
    watched(lambda: bool(looks.append(1)), lambda: read[0] > 50)
    assert not looks


torch = pytest.importorskip("torch")


@pytest.fixture
def halts(growing: None, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note of each look whether the recording went on."""
    seen: list[bool] = []
    plain = engine.Session._halt

    def noting(session: engine.Session) -> bool:
        seen.append(plain(session))
        return seen[-1]

    monkeypatch.setattr(engine.Session, "_halt", noting)
    return seen


def test_what_made_the_process_grow_was_not_torch(halts: list[bool]) -> None:
    x = torch.ones(3)
    with nbp.profile("torch") as p:
        x * 2
        work_until(lambda: bool(halts))
        x - 1
    assert halts[0] is True
    names = p.trace.slices["name"].tolist()
    assert {"aten::mul", "aten::sub"} <= set(names)
    assert "operators-ended" not in p.trace.report
    assert "ended-early" not in p.trace.report


def test_a_step_in_which_events_count_is_partial(halts: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of the count is not the step's; the verdict would blame Python functions for it."""
    halt, spent = base.Recording.halt, []

    def slowly(recording: base.Recording) -> int:
        begun = time.time_ns()
        work_until(lambda: time.time_ns() > begun + 200_000_000)
        kept = halt(recording)
        spent.append(time.time_ns() - begun)
        return kept

    monkeypatch.setattr(base.Recording, "halt", slowly)
    with nbp.profile("torch") as p:
        for number in nbp.steps(range(5)):
            torch.ones(3) * 2
            if number == 2:
                halts.clear()
                work_until(lambda: bool(halts))
    assert p.trace.steps["step"].tolist() == [0, 1, 2, 3, 4]
    assert 2 in p.trace.metadata["partial_steps"]
    told, partial = p.trace.report["partial-step"], p.trace.metadata["partial_steps"]
    assert told.count == len(partial)
    assert told.example.startswith(f"step {min(partial)}: PyTorch's events were counted")
    steps = p.trace.steps.sort_values("ts")
    gaps = steps["ts"].to_numpy()[1:] - (steps["ts"] + steps["dur"]).to_numpy()[:-1]
    edges = steps["ts"].iloc[0], p.trace.span.dur - (steps["ts"] + steps["dur"]).iloc[-1]
    assert gaps.min() >= 0
    assert gaps.sum() + sum(edges) >= sum(spent), "no step has the time of a count"


def test_with_an_open_range_it_does_not_go_on(halts: list[bool]) -> None:
    with nbp.profile("torch") as p:
        with torch.profiler.record_function("mine"):
            work_until(lambda: bool(halts))
        torch.ones(3) - 1
    assert halts[0] is False
    assert "mine" in p.trace.slices["name"].tolist()
    assert "aten::sub" not in p.trace.slices["name"].tolist()
    issue = p.trace.report["operators-ended"]
    assert issue.severity == "loss"
    assert "--steps" in issue.advice


def test_a_large_recording_ends_and_says_so(halts: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (base, engine, sys.modules["notebook_prof.collectors.torch.collector"]):
        monkeypatch.setattr(module, "LARGE", 5)
    x = torch.ones(3)
    with nbp.profile("torch", "python") as p:
        for _ in range(10):
            x * 2
        begun = time.monotonic()
        work_until(lambda: time.monotonic() > begun + 0.2 and bool(halts))
        x - 1
    assert halts == [False]
    names = p.trace.slices["name"].tolist()
    assert names.count("aten::mul") == 10
    assert "aten::sub" not in names
    assert "PyTorch's profiler had collected" in p.trace.report["ended-early"].example
    stopped_ns = p.trace.metadata["recorded_ns"]
    assert p.trace.span.dur < stopped_ns, "what the others saw while torch stopped is cut off"
