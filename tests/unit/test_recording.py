"""A Recording isolates what its collectors do wrong."""

from __future__ import annotations

from typing import ClassVar

import pytest

from notebook_prof.collectors.base import Collector, Recording
from notebook_prof.trace import TraceBuilder

from ..fake_clock import FakeClock
from ..noting import Noting
from ..recorded import sealed


class Fake(Noting):
    """Leaves a slice."""

    def result(self, builder: TraceBuilder) -> None:  # type: ignore[override]
        super().result(builder)
        builder.slices(ts=0, dur=1, track=builder.track(self.label, tid=1), name=self.label)


class Other(Fake):
    name: ClassVar[str] = "other"


def run(*collectors: Collector) -> tuple[Recording, TraceBuilder]:
    recording, builder = Recording(collectors), TraceBuilder()
    recording.warm()
    recording.start()
    recording.stop()
    recording.result(builder)
    return recording, builder


def test_an_interrupt_while_stopping_comes_after_all_have_stopped() -> None:
    log: list[str] = []
    recording = Recording([Fake(None, log, "a."), Other({"stop": KeyboardInterrupt()}, log, "b.")])
    recording.start()
    with pytest.raises(KeyboardInterrupt):
        recording.stop()
    assert log[-3:] == ["b.stop", "b.stop", "a.stop"]
    assert len(sealed(recording).slices) == 2


def test_an_interrupt_while_making_tables_keeps_the_others() -> None:
    log: list[str] = []
    _, builder = run(Fake(None, log, "a."), Other({"result": KeyboardInterrupt()}, log, "b."))
    assert "other" in builder.report["interrupted"].example
    assert len(builder.seal().slices) == 1


def test_two_collectors_cannot_hold_one_thing() -> None:
    class Holder(Fake):
        holds: ClassVar[frozenset[str]] = frozenset({"trace function"})

    class Rival(Holder):
        name: ClassVar[str] = "rival"

    recording, builder = run(Holder(), Rival())
    assert recording.names == ["noting"]
    assert "trace function" in builder.report["collector-conflict"].example


@pytest.mark.parametrize(
    ("passed_s", "slew_s", "example"),
    [
        (2, 3600, "by +3600.000 s in 2.000 s"),
        (2, -1, "by -1.000 s in 2.000 s"),
        (600, 0.3, ""),  # steered by NTP
        (0.1, 0.005, ""),
    ],
)
def test_a_clock_that_was_set_meanwhile_is_reported(passed_s: float, slew_s: float, example: str) -> None:
    clock = FakeClock()
    recording, builder = Recording([Fake()], clock), TraceBuilder()
    recording.start()
    clock.advance(round(passed_s * 1e9), slew_ns=round(slew_s * 1e9))
    recording.stop()
    recording.result(builder)
    assert [issue.example for issue in builder.report if issue.code == "clock-jumped"] == [example][
        : bool(example)
    ]
    assert builder.metadata.get("clock_jump_ns", 0) == (round(slew_s * 1e9) if example else 0)
