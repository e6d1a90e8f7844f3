"""Phases come down from what a slice lies in, not from what only overlaps its beginning."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import TraceBuilder
from notebook_prof.testing import draw


def test_a_line_that_is_reported_too_early_is_not_of_what_ran_before() -> None:
    trace = draw(
        """
        main: [next/data ]
        main:          [line                    ]
        main:              [mm   ][relu/forward]
        main:  [collate]
        """
    )
    phase = dict(zip(trace.slices["name"], trace.slices["phase"].astype(object), strict=True))
    assert phase["next"] == phase["collate"] == "data"
    assert phase["relu"] == "forward"
    assert not isinstance(phase["line"], str)
    assert not isinstance(phase["mm"], str)


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 60))
def test_the_middle_decides(dur: int, begin: int, own: int) -> None:
    builder = TraceBuilder()
    track = builder.track("main")
    builder.slices(ts=0, dur=dur, name="next", phase="data", track=track)
    builder.slices(ts=begin, dur=own, name="line", track=track)
    line = builder.seal().slices.set_index("name").loc["line"]
    inside = begin < dur and begin + own // 2 <= dur
    assert (line["phase"] == "data") is (inside and not (begin == 0 and own > dur))
