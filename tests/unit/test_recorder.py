"""``nbp.profile`` in code: with, decorator, start/step/stop, schedules, and what it refuses."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from IPython.utils.dir2 import get_real_method

import notebook_prof as nbp
from notebook_prof.errors import AlreadyRecordingError, NotRecordedError, OptionError
from notebook_prof.session import current

from ..new_process import run_python
from ..noting import Noting
from ..recorded import in_threads


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    yield
    assert current.running() is None


def steps_of(profile: nbp.Profile) -> list[int]:
    return [int(step) for step in profile.trace.steps["step"]]


def test_it_answers_as_its_profile_does() -> None:
    p = nbp.profile("system")
    assert {*dir(nbp.Profile)} <= {*dir(p)}
    assert get_real_method(p, "_ipython_display_") is None
    with p:
        time.sleep(0.002)
    (made,) = p.cycles
    assert repr(p) == repr(made)
    assert p.selection is made.selection
    assert get_real_method(p, "_ipython_display_") == made._ipython_display_
    assert get_real_method(p, "_repr_mimebundle_") == made._repr_mimebundle_
    assert get_real_method(p, "_display_") == made._display_
    public = [name for name in dir(nbp.Profile) if name[0] != "_"]
    assert len(public) > 40
    for name in public:
        assert type(getattr(p, name)) is type(getattr(made, name)), name
    assert nbp.compare(p, made).delta_ns == 0
    assert nbp.compare([p, p], made).runs == (2, 1)
    first = p.trace
    p.start()
    with pytest.raises(NotRecordedError, match="still recording"):
        p.trace
    p.stop()
    assert p.trace is not first


def test_a_recording_begins_when_its_collectors_have_started() -> None:
    """The start of the collectors is not part of the recording, although counters are read during it."""

    class Reads(Noting):
        def start(self, clock: object) -> None:
            self.times = [time.time_ns(), time.time_ns()]
            self.started_ns = time.time_ns()

        def result(self, builder: Any) -> None:
            builder.counter(builder.track("memory", kind="counter", unit="bytes"), self.times, [1, 2, 3])

    collector = Reads()
    with nbp.profile(collector) as p:
        collector.times.append(time.time_ns())
    assert p.trace.metadata["start_unix_ns"] >= collector.started_ns
    counters = p.trace.counters
    assert (counters["ts"].iloc[0], counters["value"].tolist()) == (0, [2, 3])


def test_collectors_warm_start_and_stop_once() -> None:
    collector = Noting()
    with nbp.profile(collector, steps=(2, 4)) as p:
        counts = []
        for _ in range(6):
            counts.append(len(collector.calls))
            p.step()
    assert collector.calls == ["warm", "start", "stop"], "the trace is made when it is asked for"
    assert steps_of(p) == [2, 3]
    assert (p.trace.metadata["steps_seen"], p.trace.metadata["steps_source"]) == (6, "mark")
    assert collector.calls == ["warm", "start", "stop", "result"]
    assert counts == [0, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("when", ["warm", "start", "stop", "result"])
def test_a_failing_collector_is_an_issue(when: str) -> None:
    with nbp.profile(Noting({when: RuntimeError(f"cannot {when}")}), steps=(1, 2)) as p:
        for _ in range(3):
            p.step()
    assert "collector-failed" in p.trace.report
    assert f"cannot {when}" in p.trace.report["collector-failed"].example
    assert steps_of(p) == [1]


def test_an_interrupt_while_we_stop_keeps_the_data() -> None:
    collector = Noting({"stop": KeyboardInterrupt()})
    with nbp.profile(collector) as p:
        p.step()
    assert "interrupted-at-stop" in p.trace.report
    assert collector.calls == ["start", "stop", "stop", "result"]
    assert steps_of(p) == [0]

    with (
        pytest.raises(KeyboardInterrupt),
        nbp.profile(Noting({"stop": KeyboardInterrupt()}), steps=(0, 1)) as p,
    ):
        p.step()  # here it is the user's code that is interrupted
    assert steps_of(p) == [0]


def test_nothing_can_be_asked_too_early() -> None:
    p = nbp.profile("system")
    for ask in (
        lambda: p.trace,
        lambda: p.operators(),
        lambda: p.selection,
        lambda: p.verdict,
        p.stop,
        p.step,
    ):
        with pytest.raises(NotRecordedError):
            ask()
    assert "not recorded yet" in repr(p)
    assert p.start() is p
    assert "recording" in repr(p)
    with pytest.raises(NotRecordedError, match="still recording"):
        p.trace
    p.stop()
    p.stop()
    with pytest.raises(AttributeError):
        p.no_such_thing  # type: ignore[attr-defined]


def test_only_one_recording_of_many_threads() -> None:
    profiles = [nbp.profile("system") for _ in range(8)]
    refused: list[nbp.AlreadyRecordingError] = []
    gate = threading.Barrier(len(profiles))

    def begin(p: nbp.profile) -> None:
        gate.wait()
        try:
            p.start()
        except AlreadyRecordingError as error:
            refused.append(error)

    in_threads(*(partial(begin, p) for p in profiles))
    assert len(refused) == 7
    for p in profiles:
        if "recording" in repr(p) and "not" not in repr(p):
            p.stop()


def test_an_exception_passes_and_the_data_stays() -> None:
    p = nbp.profile("system", steps=(1, 9))

    @p
    def work() -> None:
        for i in range(5):
            p.step()
            1 / (3 - i)

    with pytest.raises(ZeroDivisionError):
        work()
    assert steps_of(p) == [1, 2, 3, 4]
    assert p.trace.metadata["partial_steps"] == [4]


def test_cycles_and_their_callback() -> None:
    ready: list[nbp.Profile] = []
    plan = nbp.schedule(wait=1, warmup=1, active=2, repeat=2)
    with nbp.profile("system", schedule=plan, on_trace_ready=ready.append) as p:
        for i in range(10):
            assert len(ready) == (i > 3) + (i > 7)
            p.step()
    assert [steps_of(each) for each in ready] == [[2, 3], [6, 7]]
    assert [steps_of(each) for each in p.cycles] == [[2, 3], [6, 7]]
    assert steps_of(p) == [6, 7]


def test_the_steps_that_could_be_asked_for_and_the_error_are_named() -> None:
    p = nbp.profile("system", steps=(5, 9))

    @p
    def fail() -> None:
        for _ in range(3):
            p.step()
        raise LookupError("mine")

    with pytest.raises(LookupError):
        fail()
    issue = p.trace.report["steps-not-reached"]
    assert issue.example == "steps 5:9 were requested, 3 steps ran, and the code ended with LookupError"
    assert issue.advice == "request steps that run: --steps 1:3 records 2 steps"


def test_first_step_cannot_be_warmed_up() -> None:
    with nbp.profile("system", steps=(0, 2)) as p:
        p.step()
        p.step()
    assert "no-warmup" in p.trace.report
    assert steps_of(p) == [0, 1]


def test_decorator() -> None:
    recorder = nbp.profile("system")

    @recorder
    def work(n: int, *, times: int = 1) -> int:
        """Do it."""
        return n if n == 0 else times * work(n - 1, times=times)

    assert (work.__name__, work.__doc__) == ("work", "Do it.")
    assert work(3, times=0) == 0
    first = recorder.trace
    work(1)
    assert recorder.trace is not first
    assert len(recorder.cycles) == 1
    with pytest.raises(TypeError):
        work()


def test_decorated_coroutine_and_generator() -> None:
    recorder = nbp.profile("system")

    @recorder
    async def later(x: int) -> int:
        await asyncio.sleep(0.003)
        return x

    assert asyncio.run(later(4)) == 4
    assert recorder.trace.metadata["recorded_ns"] > 2_000_000

    @recorder
    def several(n: int) -> Iterator[int]:
        yield from range(n)

    assert list(several(3)) == [0, 1, 2]


def test_stop_after_leaves_the_block() -> None:
    count = 0
    with nbp.profile("system", steps=(1, 3), stop_after=True) as p:
        for _ in range(1000):
            count += 1
            p.step()
    assert (count, steps_of(p)) == (3, [1, 2])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"steps": "x"}, "cannot be understood"),
        ({"steps": (1, 2), "schedule": nbp.schedule(wait=0, warmup=0, active=1)}, "give one"),
        ({"step_by": "optimiser"}, "optimizer"),
        ({"python": "call"}, "calls"),
        ({"min_duration": "soon"}, "duration"),
        ({"warmup": 0, "steps": (1, 2)}, "warm"),
    ],
)
def test_what_cannot_be_understood_is_said_at_once(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        nbp.profile("system", **wrong)  # type: ignore[arg-type]


def test_a_decorator_without_parentheses_is_refused() -> None:
    with pytest.raises(OptionError, match=r"@nbp.profile\(\)"):

        @nbp.profile  # type: ignore[arg-type]
        def function(n: int) -> int:
            return n


def test_a_generator_left_over_from_an_earlier_recording_does_not_tick() -> None:
    leftover = iter(nbp.steps(range(5)))
    with nbp.profile("system"):
        next(leftover)
    with nbp.profile("system") as p:
        del leftover
    assert p.trace.metadata["steps_seen"] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_the_child_of_a_fork_records_nothing() -> None:
    with nbp.profile("system") as p:
        child = os.fork()
        if child == 0:
            os._exit(0 if current.running() is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        p.step()
    assert steps_of(p) == [0]


FORKS = """
import os, sys, time, warnings
import notebook_prof as nbp
from notebook_prof import own_processes
warnings.simplefilter("ignore", DeprecationWarning)  # of every fork beside threads, from Python 3.12 on
ran = []
own_processes.at_exit(lambda: ran.append(1) or os.write(1, b"handler of the end\\n"))
with nbp.profile("python", "system", "heap", engine="py-spy") as p:
    time.sleep(0.2)
    if (pid := os.fork()) == 0:
        try:
            p.stop()
        finally:
            sys.exit(7)
    status = os.waitpid(pid, 0)[1]
    time.sleep(0.2)
lost = [issue.example for issue in p.trace.report if issue.severity != "info"]
busy = "samples were", "got no CPU time"  # how much of a processor py-spy got
print(os.waitstatus_to_exitcode(status), [one for one in lost if not any(words in one for words in busy)])
print(p.trace.metadata["heap"]["peak_bytes"] >= 0, flush=True)  # the handler writes past the buffer
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are POSIX's")
def test_a_forked_child_ends_nothing_of_the_parents_recording() -> None:
    done = run_python(FORKS)
    assert done.stdout == "7 []\nTrue\nhandler of the end\n"
    assert [line for line in done.stderr.splitlines() if not line.startswith("Memray WARNING")] == []
