"""What is shown while a cell is recorded: what it says, how much, when not, and what a stop does."""

from __future__ import annotations

import json
import threading
import time
from array import array
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from notebook_prof.jupyter import live as live_module
from notebook_prof.jupyter.live import PERIOD_S, LiveDisplay, LiveState, loop_length
from notebook_prof.jupyter.options import parse
from notebook_prof.jupyter.run import _live_display
from notebook_prof.session.records import EarlyEnd, Run
from notebook_prof.session.schedule import ScheduleFunction, WholeRun, step_range
from notebook_prof.session.window import StepWindow, TickSource

from .test_window import Log

MS = 1_000_000
SOURCE = {5: "for i, x in enumerate(rows):", 6: "y = model(x)", 7: "loss.backward()", 8: "optimizer.step()"}


class Recording:
    """A session whose loop takes 10 ms a step: 2 for data, 4 for line 6, 3 for 7 and 1 for 8."""

    def __init__(self, schedule: ScheduleFunction, until: float | None = None, text: str = "") -> None:
        self.ns = 1_000 * MS
        self.plan, self.early_end = SimpleNamespace(schedule=schedule), EarlyEnd(until)
        texts = {line: text or words for line, words in SOURCE.items()}
        self.cell = SimpleNamespace(marks=SimpleNamespace(rows=array("q")), text=texts.__getitem__)
        self.window = StepWindow(schedule, Log(), now=lambda: self.ns, early_end=self.early_end)
        self.window.open()
        self.run = Run("loop", 5, SOURCE[5], self.ns)

    def step(self, count: int) -> None:
        for _ in range(count):
            for line, spent in ((5, 2), (6, 4), (7, 3), (8, 1)):
                self.cell.marks.rows.extend((self.ns, line))
                self.ns += spent * MS
            self.window.tick(TickSource.LOOP, run=self.run)


def state_of(session: Recording, **names: Any) -> LiveState:
    return LiveState(session, names, 1_000 * MS)  # type: ignore[arg-type]


def test_it_tells_steps_phases_rate_and_the_end() -> None:
    session = Recording(WholeRun())
    state = state_of(session, rows=[0] * 400)
    first = state.at(session.ns)
    assert (first["state"], first["steps"], first["lines"]) == ("recording", 0, [])
    session.step(40)
    message = state.at(session.ns)
    assert (message["steps"], message["recorded"], message["rate"]) == (40, 40, 100.0)
    assert (message["of"], message["step"], message["left"]) == (400, 40, 3.6)
    assert message["median"] == 10_000
    assert message["last"] == [10_000] * 40
    assert message["lines"][0][:2] == [6, "y = model(x)"]
    assert sum(message["phases"].values()) == pytest.approx(1, abs=0.002)
    assert message["phases"]["backward"] == pytest.approx(0.3, abs=0.01)
    assert message["phases"]["data"] == pytest.approx(0.2, abs=0.01)
    assert message["phases"]["optimizer"] == pytest.approx(0.1, abs=0.01)


def test_a_window_is_waited_for_and_told_when_it_is_over() -> None:
    session = Recording(step_range((3, 6)))
    state = state_of(session)
    assert (state.at(session.ns)["state"], state.at(session.ns)["window"]) == ("before", [3, 6])
    session.step(4)
    assert state.at(session.ns)["state"] == "recording"
    session.step(4)
    message = state.at(session.ns)
    assert (message["state"], message["recorded"], message["steps"], message["of"]) == ("after", 3, 8, None)


def test_a_message_is_short_whatever_the_cell() -> None:
    session = Recording(WholeRun(), text="größe = " + "ü" * 500)
    state = state_of(session, rows=list(range(10**6)))
    session.step(3000)
    message = state.at(session.ns)
    assert len(message["last"]) == 60
    assert len(json.dumps(message, ensure_ascii=False).encode()) <= 1500
    assert PERIOD_S >= 0.2


class Hostile:
    """A dataset whose length costs something."""

    def __len__(self) -> int:
        raise AssertionError("code of the user's ran")


@pytest.mark.parametrize(
    ("head", "length"),
    [
        ("for x in rows:", 3),
        ("for x in rows", 3),
        ("for i, x in enumerate(rows):", 3),
        ("for x in tqdm.tqdm(rows, desc='a'):", 3),
        ("for a, b in zip(rows, range(2)):", 2),
        ("for a, b in zip(rows, hostile):", None),
        ("for i in range(1, n, 2):", 4),
        ("for i in range(1, n, 0):", None),
        ("for i in range(m):", None),
        ("for x in array:", 7),
        ("for x in point:", None),
        ("for x in hostile:", None),
        ("for x in make():", None),
        ("for x in f(rows):", None),
        ("for x in loader(", None),
        ("while True:", None),
        ("async for x in rows:", None),
        ("", None),
    ],
)
def test_the_length_of_a_loop_is_told_without_running_code(head: str, length: int | None) -> None:
    names = {
        "rows": [1, 2, 3], "n": 8, "m": True, "hostile": Hostile(), "array": np.zeros((7, 2)),
        "point": np.float64(3), "make": Hostile,
    }  # fmt: skip
    assert loop_length(head, names) == length


def test_the_length_of_a_loader_is_told_if_its_parts_are_pytorchs_own() -> None:
    data = pytest.importorskip("torch.utils.data")
    torch = pytest.importorskip("torch")

    class Own(data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 10

        def __getitem__(self, index: int) -> int:
            return index

    class Stream(data.IterableDataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            raise AssertionError("code of the user's ran")

        def __iter__(self) -> Any:
            return iter(range(3))

    plain = data.DataLoader(data.TensorDataset(torch.zeros(10)), batch_size=4, shuffle=True)
    names = {"plain": plain, "own": data.DataLoader(Own(), batch_size=4), "stream": data.DataLoader(Stream())}
    assert loop_length("for x in plain:", names) == 3
    assert loop_length("for x in own:", names) is None
    assert loop_length("for x in stream:", names) is None


def test_what_was_shown_goes_with_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short cell shows nothing; of another one nothing is left but an empty output."""
    shown: list[tuple[dict[str, Any], bool]] = []
    there = threading.Event()

    def note(data: dict[str, Any], raw: bool, display_id: str, update: bool = False) -> None:
        shown.append((data, update))
        there.set()

    monkeypatch.setattr(live_module, "display", note)
    short = LiveDisplay(Recording(WholeRun()), {})  # type: ignore[arg-type]
    short.begin()
    short.end()
    assert shown == []
    monkeypatch.setattr(live_module, "AFTER_S", 0.01)
    longer = LiveDisplay(Recording(WholeRun()), {})  # type: ignore[arg-type]
    longer.begin()
    assert there.wait(60)
    longer.end()
    longer.end()
    longer._thread.join(60)
    assert [update for _, update in shown] == [False, True]
    assert "application/vnd.jupyter.widget-view+json" in shown[0][0]
    assert shown[1][0] == {"text/plain": ""}


def test_a_display_that_fails_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no front-end")

    monkeypatch.setattr(live_module, "display", fail)
    monkeypatch.setattr(live_module, "AFTER_S", 0.0)
    display = LiveDisplay(Recording(WholeRun()), {})  # type: ignore[arg-type]
    display.begin()
    display._thread.join(60)
    assert not display._thread.is_alive()
    began = time.monotonic()
    display.end()
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("line", "cell", "kernel", "shown"),
    [
        ("p", "c1", True, True),
        ("p --quiet", "c1", True, False),
        ("p", "", True, False),
        ("p", "c1", False, False),
    ],
)
def test_it_is_shown_only_where_somebody_sees_it(line: str, cell: str, kernel: bool, shown: bool) -> None:
    """Not with --quiet, in terminals, nor where no front-end tells the cell (nbclient, papermill)."""
    parent = {"metadata": {"cellId": cell}}
    shell = SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda _: parent) if kernel else None)
    assert (_live_display(shell, parse(line)) is LiveDisplay) is shown
