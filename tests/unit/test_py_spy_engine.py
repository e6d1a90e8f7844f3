"""What the engine beside py-spy does when a look from inside fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from notebook_prof.collectors.python import py_spy_attachment as spy
from notebook_prof.collectors.python.py_spy_engine import PySpy
from notebook_prof.trace import ImportReport


def test_a_look_that_fails_is_reported_and_does_not_end_its_thread() -> None:
    report = ImportReport()
    engine, tries = PySpy(report), []

    def no_frame() -> None:
        tries.append(1)
        if len(tries) == 2:
            engine._quit.set()
        raise AttributeError("no field with name 'f_code'")

    engine._attach = no_frame  # type: ignore[method-assign]
    engine._run()
    issue = report["look-inside-failed"]
    assert (issue.severity, issue.count) == ("info", 2)
    assert issue.example == "AttributeError: no field with name 'f_code'"


@pytest.mark.parametrize(
    ("seconds", "ended_ns", "told"),
    [(0.05, 0, ""), (0.5, 0, "took no sample in 0.5 s"), (0.05, 1, "was ended from outside")],
)
def test_no_sample_of_py_spy_is_a_loss_where_there_was_time(seconds: float, ended_ns: int, told: str) -> None:
    report = ImportReport()
    engine = PySpy(report)
    engine._handed_over_ns = ended_ns
    engine._tell_lost((0, int(seconds * 1e9)))
    assert [issue.code for issue in report] == (["py-spy-ended"] if told else [])
    if told:
        assert told in report["py-spy-ended"].example


class Sampling:
    """Stands for a py-spy that samples every 10 ms."""

    rate_hz, interval_ns = 100, 10_000_000

    def __init__(self) -> None:
        self.begun_s, self.running, self.ends = time.monotonic(), True, list[str]()

    def is_running(self) -> bool:
        return self.running

    def interrupt(self) -> None:
        self.ends.append("interrupt")

    def kill(self) -> None:
        self.ends.append("kill")


@pytest.fixture
def kept_warm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """py-spy is kept warm, as in a notebook, but none has started yet."""
    monkeypatch.setattr(spy, "_keeps_warm", True)
    monkeypatch.setattr(spy, "_warm", None)
    monkeypatch.setattr(spy, "IDLE_S", 3600.0)
    yield
    spy.take()


def stopped(one: Any, seconds: float, attached: bool, by_name: bool = False) -> PySpy:
    """Return an engine that has just ended a recording of this length."""
    engine = PySpy(ImportReport(), by_name)
    engine._launched.append(one)
    if attached:
        engine._segments.append((one, 1))
    engine._window_ns = (1, 1 + int(seconds * 1e9))
    engine.stop()
    return engine


@pytest.mark.parametrize("attached", [True, False])
def test_a_recording_of_a_few_samples_leaves_py_spy_to_the_next(kept_warm: None, attached: bool) -> None:
    one = Sampling()
    engine = stopped(one, 0.05, attached)
    assert engine.name == "thread"
    assert spy.take() is one  # type: ignore[comparison-overlap]
    engine.abandon()
    assert one.ends == [], "it belongs to the next recording"


@pytest.mark.parametrize("why", ["long", "by name", "old", "ended", "another is warm", "not kept warm"])
def test_otherwise_it_ends(kept_warm: None, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    one, other = Sampling(), Sampling()
    if why == "old":
        one.begun_s -= 60
    if why == "another is warm":
        monkeypatch.setattr(spy, "_warm", other)
    if why == "not kept warm":
        monkeypatch.setattr(spy, "_keeps_warm", False)
    one.running = why != "ended"
    stopped(one, 1.0 if why == "long" else 0.05, True, why == "by name")
    assert one.ends == ["interrupt"]
    assert spy.take() is (other if why == "another is warm" else None)


def test_what_was_given_back_ends_after_its_wait(kept_warm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    one: Any = Sampling()
    stopped(one, 0.05, True)
    first = threading.Event()
    first.set()  # the wait of a keeper from whom it was taken
    spy._cool(one, first)
    assert one.ends == []
    monkeypatch.setattr(spy, "IDLE_S", 0.0)
    spy._cool(one, spy._wake)
    assert one.ends == ["kill"]
    assert spy.take() is None


def test_one_that_starts_late_ends_if_one_is_back(kept_warm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise neither would end: each thread ends only the py-spy that is warm when its wait is over."""
    given, late, began = Sampling(), Sampling(), threading.Event()
    monkeypatch.setattr(began, "wait", lambda seconds: None)
    monkeypatch.setattr(spy, "Attachment", lambda rate_hz: late)
    stopped(given, 0.05, True)
    spy._keep(began)
    assert (late.ends, given.ends) == (["kill"], [])
    assert spy.take() is given  # type: ignore[comparison-overlap]
