"""A Trace made beside: who waits, who does not, and what errors, interrupts and forks do."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from notebook_prof import background
from notebook_prof.background import Cancelled, IdleTime, checkpoint, kernel_is_idle
from notebook_prof.profiles.deferred_trace import DeferredTrace
from notebook_prof.profiles.profile import Profile
from notebook_prof.testing import draw
from notebook_prof.trace import Trace

from ..new_process import run_python


class Building:
    """A build that goes on until it is let go."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Event()
        self.trace = draw("main: [mm]")
        self.times = 0
        self.thread = ""

    def __call__(self) -> Trace:
        self.times += 1
        self.thread = threading.current_thread().name
        self.begun.set()
        while not self.go.wait(0.002):
            checkpoint()
        return self.trace


@pytest.fixture
def building() -> Iterator[Building]:
    made = Building()
    yield made
    made.go.set()


def test_builds_that_nobody_waits_for_are_made_one_after_another() -> None:
    builds = [Building() for _ in range(3)]
    first, second, third = map(DeferredTrace, builds)
    for deferred in (first, second, third, second):
        deferred.start()
    assert builds[0].begun.wait(60)
    builds[2].go.set()
    assert third.get() is builds[2].trace, "who asks does not wait for the others"
    assert not builds[1].begun.is_set()
    del second, deferred
    for build in builds:
        build.go.set()
    assert first.wait(60)
    last = DeferredTrace(lambda: draw("main: [mm]"))
    last.start()
    assert last.wait(60)
    assert [build.times for build in builds] == [1, 0, 1], "nobody can ask for the second any more"


def test_it_is_made_once_whoever_asks(building: Building) -> None:
    deferred, traces = DeferredTrace(building), []
    asking = [threading.Thread(target=lambda: traces.append(deferred.get())) for _ in range(8)]
    for thread in asking:
        thread.start()
    assert building.begun.wait(60)
    assert (deferred.ready, traces) == (False, [])
    assert not deferred.wait(0.01)
    building.go.set()
    for thread in asking:
        thread.join(60)
    assert [trace is building.trace for trace in traces] == [True] * 8
    assert (building.times, building.thread, deferred.ready) == (1, "notebook_prof trace", True)


def test_a_profile_waits_when_it_is_asked_and_not_before(building: Building) -> None:
    profile = Profile(DeferredTrace(building))
    assert profile.pending is not None
    assert building.times == 0
    profile.selection.name = "mm"
    building.go.set()
    assert profile.operators()["name"].tolist() == ["mm"]
    assert profile.trace is building.trace
    assert profile.pending is None


def test_errors_reach_everybody_who_asks() -> None:
    def fail() -> Trace:
        raise ValueError("cannot")

    deferred = DeferredTrace(fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="cannot"):
            deferred.get()
    assert deferred.ready


def test_recordings_pass_first_unless_somebody_waits() -> None:
    pieces, looks, looked_often = [], [], threading.Event()

    def build() -> Trace:
        for piece in range(50):
            checkpoint()
            pieces.append(piece)
        return draw("main: [mm]")

    def hold() -> bool:
        looks.append(len(pieces))
        if len(looks) == 20:
            looked_often.set()
        return True

    deferred = DeferredTrace(build, hold=hold)
    deferred.start()
    assert looked_often.wait(60)
    assert set(looks) == {0}
    assert len(deferred.get().slices) == 1
    assert len(pieces) == 50


@pytest.fixture
def main_computes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Make the kernel busy. Returns a list that grows with each check."""
    looks: list[bool] = []
    monkeypatch.setattr(background, "kernel_is_idle", lambda: looks.append(True) or False)
    monkeypatch.setattr(background, "_main_at", lambda: (0, len(looks)))
    return looks


def _in_thread(idle: IdleTime) -> threading.Thread:
    """Start a thread that ends after its first checkpoint."""

    def work() -> None:
        with suppress(Cancelled), idle.used():
            checkpoint()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def _seen(looks: list[bool], times: int) -> None:
    while len(looks) < times:
        time.sleep(0.001)  # the thread checks every 20 ms


def test_work_waits_while_main_computes(main_computes: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    idle = IdleTime(patience_s=1e9)
    thread = _in_thread(idle)
    _seen(main_computes, 5)
    assert thread.is_alive()
    with idle.hurried():
        thread.join(60)
    assert not thread.is_alive()
    thread = _in_thread(idle)
    monkeypatch.setattr(background, "kernel_is_idle", lambda: True)
    thread.join(60)
    assert not thread.is_alive()


def test_work_does_not_wait_for_ever(main_computes: list[bool]) -> None:
    thread = _in_thread(IdleTime(patience_s=0.05))
    thread.join(60)
    assert not thread.is_alive()
    assert main_computes


def test_work_goes_on_while_the_main_thread_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread may be waiting for a lock that the background thread holds."""
    monkeypatch.setattr(background, "kernel_is_idle", lambda: False)
    lock, holds, idle = threading.Lock(), threading.Event(), IdleTime(patience_s=1e9)

    def work() -> None:
        with lock, idle.used():
            holds.set()
            checkpoint()

    threading.Thread(target=work).start()
    assert holds.wait(60)
    assert lock.acquire(timeout=60)


def test_the_thread_that_has_the_turn_may_wait_for_one_that_has_not() -> None:
    lock, has_turn = threading.Lock(), threading.Event()

    def first() -> None:
        with IdleTime().used():
            checkpoint()
            has_turn.set()
            with lock:
                pass

    with lock:
        thread = threading.Thread(target=first)
        thread.start()
        assert has_turn.wait(60)
        second = _in_thread(IdleTime())
        second.join(60)
        assert not second.is_alive()
    thread.join(60)


def test_a_kernel_that_waits_for_messages_is_idle() -> None:
    assert not kernel_is_idle()
    done = run_python(
        """
        import asyncio, time
        from notebook_prof.background import kernel_is_idle
        def wait_for_idle():
            while not kernel_is_idle():
                time.sleep(0.001)  # until the main thread is in its loop
        asyncio.run(asyncio.to_thread(wait_for_idle))
        """
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_what_nobody_can_ask_for_any_more_is_not_made(building: Building) -> None:
    before = set(threading.enumerate())
    deferred = DeferredTrace(building)
    deferred.start()
    assert building.begun.wait(60)
    (thread,) = (one for one in set(threading.enumerate()) - before if one.name == "notebook_prof trace")
    del deferred
    thread.join(60)
    assert not thread.is_alive()
    assert not building.go.is_set(), "it ended before it was through"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_reported_and_the_parent_goes_on() -> None:
    done = run_python(
        """
        import os, threading, warnings
        warnings.simplefilter("ignore")  # of a fork beside threads
        from notebook_prof.profiles.deferred_trace import DeferredTrace
        from notebook_prof.testing import draw
        from notebook_prof.errors import NotRecordedError
        go = threading.Event()
        def build():
            go.wait()
            return draw("main: [mm]")
        deferred = DeferredTrace(build)
        deferred.start()
        if (child := os.fork()) == 0:
            try:
                deferred.get()
            except NotRecordedError as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        go.set()
        print(len(deferred.get().slices))
        """
    )
    assert done.stdout == "the recording is assembled in the parent process: use it there\n1\n"
    assert done.stderr == ""
