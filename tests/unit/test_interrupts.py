"""An interrupt at every line of ours: it arrives, and nothing is left running."""

from __future__ import annotations

import inspect
import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof import interrupts
from notebook_prof.interrupts import DelayedInterrupt
from notebook_prof.session import current, recorder
from notebook_prof.trace.builder import TraceBuilder

from ..draws import share_of_today
from ..new_process import run_python
from ..noting import Noting

PACKAGE = str(Path(nbp.__file__).parent)
Line = tuple[str, int]


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


class Lines:
    """Follows the lines of ours that run, and interrupts at one of them."""

    def __init__(self, at: Line | None = None, times: int = 1) -> None:
        self.reached: set[Line] = set()
        self.fired = False
        self._at, self._times = at, times

    def __enter__(self) -> Lines:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, _: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            line = frame.f_code.co_filename, frame.f_lineno
            self.reached.add(line)
            if line == self._at and not self.fired:
                self.fired = True
                for _ in range(self._times):
                    signal.raise_signal(signal.SIGINT)
        return self._line


class Switch(Noting):
    """Knows whether it is on."""

    @property
    def on(self) -> bool:
        return bool({"warm", "start"} & {*self.calls[-1:]})

    def result(self, builder: TraceBuilder) -> None:  # type: ignore[override]
        builder.metadata["switched"] = True


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    done = []

    def work() -> None:
        with DelayedInterrupt() as delayed:
            signal.raise_signal(signal.SIGINT)
            with DelayedInterrupt() as inner:
                done.append(inner.count)
            done.append(delayed.count)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [0, 1]


def test_a_second_interrupt_waits_unless_the_first_has_waited_long(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []

    def work() -> None:
        with DelayedInterrupt():
            signal.raise_signal(signal.SIGINT)
            done.append(1)
            signal.raise_signal(signal.SIGINT)
            done.append(2)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1, 2]
    monkeypatch.setattr(interrupts, "PATIENCE_S", -1.0)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1, 2, 1]


def test_a_handler_of_the_users_is_called_once() -> None:
    calls: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: calls.append(number))
    try:
        with DelayedInterrupt(deliver=False):
            signal.raise_signal(signal.SIGINT)
        assert calls == [signal.SIGINT]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with DelayedInterrupt() as delayed:
            signal.raise_signal(signal.SIGINT)
        assert delayed.count == 0
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def recorded(switch: Switch) -> Any:
    with nbp.profile(switch, steps=(2, 4)) as p:
        for _ in range(6):
            p.step()
    return p


def interrupted(action: Callable[[Switch], Any], line: Line, times: int) -> str:
    """What is wrong after so many interrupts at a line; empty if all is well."""
    switch, raised = Switch(), False
    with Lines(line, times) as lines:
        try:
            action(switch)
        except KeyboardInterrupt:
            raised = True
    wrong = []
    if lines.fired and not raised:
        wrong.append("the interrupt got lost")
    if switch.on:
        wrong.append("the collector runs")
    if (session := current.running()) is not None:
        session.give_up()
        wrong.append("the session runs")
    return ", ".join(wrong)


@pytest.mark.parametrize("times", [1, 2])
def test_at_every_line_of_a_recording(times: int) -> None:
    """An eighth of the lines: the first is another one every day. People press Ctrl-C twice."""
    with Lines() as lines:
        recorded(Switch())
    assert len(lines.reached) > 200
    lines_of_today = share_of_today(sorted(lines.reached), 8)
    wrong = {line: problem for line in lines_of_today if (problem := interrupted(recorded, line, times))}
    # in the first lines of __exit__ any context manager loses its end
    first = [inspect.getsourcelines(one) for one in (nbp.profile.__exit__, nbp.profile._stop)]
    lost = {number for text, begin in first for number in range(begin, begin + len(text))}
    assert {file for file, _ in wrong} <= {recorder.__file__}, wrong
    assert {number for _, number in wrong} <= lost, wrong
    assert len(wrong) <= 3, wrong
    assert recorded(Switch()).trace.metadata["switched"]


CELLS = """
import contextlib, io, json, os, signal, sys, threading, time
from IPython.core.interactiveshell import InteractiveShell
from tests.unit.test_interrupts import Lines
from notebook_prof.session import current
from notebook_prof.jupyter import cell, run

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "notebook_prof")
BODY = "x = 0\\nfor i in range(3):\\n    x += i\\n"
CELL = "%%profile p --quiet --engine thread --with " + sys.argv[1] + "\\n" + BODY
quick = ("notebook_prof trace", "notebook_prof py-spy")  # they end by themselves
threads = lambda: sorted(t.name for t in threading.enumerate() if t.name not in quick)

def ran(line=None):
    shell.user_ns.pop("p", None)
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told), Lines(line) as lines:
        try:
            result = shell.run_cell(CELL)
        except KeyboardInterrupt:  # IPython's own, before a cell runs
            result = None
    return lines, result, told.getvalue()

for _ in range(3):
    lines, result, told = ran()
assert result.success, told
before, wrong = [name for name in threads() if not name.startswith("notebook_prof")], {}
chosen = sorted(lines.reached)[int(sys.argv[2])::int(sys.argv[3])]
for line in chosen:
    lines, result, told = ran(line)
    found = []
    late = os.path.basename(line[0]) in ("cell.py", "run.py") and "Error in callback" in told
    # in IPython's event, before we can do anything: the next cell ends the recording
    if late:
        if current.running() is not None or cell.watch._waiting:
            shell.run_cell("0")
        told, result = "", None
    if current.running() is not None:
        found.append("a session runs"); current.running().give_up()
    if cell.watch._waiting:
        found.append("somebody waits"); cell.watch._waiting.clear()
    if result is not None and lines.fired:
        if "p" not in shell.user_ns and not isinstance(result.error_in_exec, KeyboardInterrupt):
            found.append("no profile")
        if result.error_in_exec is None and result.error_before_exec is None and "interrupt" not in told:
            found.append("the interrupt got lost")
    if "Error in callback" in told or "the profile is lost" in told:
        found.append(told[-600:])
    until = time.monotonic() + 60
    while (now := threads()) != before and time.monotonic() < until:
        time.sleep(0.01)
    if now != before:
        found.append(f"threads {now}")
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        found.append("the handler stays")
    if found:
        wrong[f"{os.path.basename(line[0])}:{line[1]}"] = found
lines, result, told = ran()
print(json.dumps({"wrong": wrong, "lines": len(chosen), "well": result.success and "p" in shell.user_ns}))
"""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("collectors", "stride"), [("system", 60), ("python", 160)])
def test_at_every_line_of_a_cell(collectors: str, stride: int) -> None:
    """A sixtieth of the lines, or fewer: the first is another one every day."""
    from datetime import date

    begin = date.today().toordinal() % stride
    ran = run_python(CELLS, collectors, begin, stride, cwd=Path(__file__).parents[2], timeout=1700)
    answer = json.loads(ran.stdout.splitlines()[-1])
    assert answer["wrong"] == {}
    assert answer["well"]
    assert answer["lines"] >= 5


UNTOLD = """
from IPython.core.interactiveshell import InteractiveShell
from notebook_prof.session import current
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "notebook_prof")
trigger = shell.events.trigger

def lost(event, *given, **named):
    if event == "post_run_cell":
        shell.events.trigger = trigger
        raise KeyboardInterrupt
    return trigger(event, *given, **named)

shell.events.trigger = lost
try:
    shell.run_cell("%%profile p --quiet --with system\\nx = sum(range(1000))")
except KeyboardInterrupt:
    pass
assert current.running() is not None
shell.run_cell("y = get_ipython().run_cell('1 + 1').result")
assert current.running() is None, "the next cell ends it"
assert shell.user_ns["p"].account()["dur"].sum() > 0
assert shell.user_ns["y"] == 2
assert shell.run_cell("%%profile q --quiet --with system\\n1 + 1").success
assert len(shell.user_ns["q"].account())
print("well")
"""


def test_a_cell_whose_end_is_not_reported_ends_with_the_next() -> None:
    """An interrupt may come after the cell's code and before IPython tells its end."""
    assert run_python(UNTOLD).stdout.splitlines()[-1] == "well"
