"""The testing room: drawn traces and the clock that stands still."""

from __future__ import annotations

import pytest

from notebook_prof.errors import OptionError
from notebook_prof.testing import draw

from ..fake_clock import FakeClock


def test_a_drawing_is_read_by_columns():
    trace = draw(
        """
        steps:    [7         ]
        main:     [mm/forward]  |mark
        stream 3:    [gemm]
        """,
        unit_ns=10,
        launches=[("mm", "gemm")],
    )
    rows = trace.slices[["name", "ts", "dur", "category"]].values.tolist()
    assert rows == [["mm", 0, 120, "operator"], ["gemm", 30, 60, "kernel"], ["mark", 140, 0, "operator"]]
    assert trace.slices["phase"].tolist()[:2] == ["forward", "forward"]
    assert trace.steps[["step", "ts", "dur"]].values.tolist() == [[7, 0, 120]]
    assert trace.flows[["src", "dst"]].values.tolist() == [[0, 1]]
    assert trace.tracks["stream"].dropna().tolist() == [3]


def test_a_launch_of_nothing_is_refused():
    with pytest.raises(OptionError, match="no slice 'mm' launches 'gem'"):
        draw("main: [mm ]", launches=[("mm", "gem")])


def test_the_clock_moves_when_told():
    clock = FakeClock(wall_ns=1_000, monotonic_ns=5)
    clock.mark()
    clock.advance(100, slew_ns=10)
    clock.mark()
    assert clock.now_ns() == 1_110
    assert clock.drift_ns == 10
    assert clock.from_monotonic([5, 55, 105]).tolist() == [1000, 1055, 1110]
