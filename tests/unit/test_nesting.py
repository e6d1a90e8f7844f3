"""Order of slices, intervals at their limits, inherited phases; the laws are in tests/properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import TraceBuilder
from notebook_prof.errors import OptionError
from notebook_prof.testing import draw
from notebook_prof.trace import Window, nest, union
from notebook_prof.trace.nesting import order_by_start


@pytest.mark.parametrize("starts", [1, 7, 1_000_000])
@pytest.mark.parametrize("tracks", [1, 5, 100_000])
def test_rows_are_sorted_as_by_all_keys_at_once(starts, tracks):
    rng = np.random.default_rng(starts)
    ts, dur = rng.integers(0, starts, 2000), rng.integers(0, 5, 2000)
    track = rng.integers(0, tracks, 2000)
    np.testing.assert_array_equal(order_by_start(ts, dur), np.lexsort((-dur, ts)))
    order = np.lexsort((-dur, ts, track))
    for column, expected in zip(nest(track, ts, dur), nest(track[order], ts[order], dur[order]), strict=True):
        if expected.dtype == np.int64 and (expected < 0).any():  # parents are rows
            expected = np.where(expected >= 0, order[expected], -1)
        np.testing.assert_array_equal(column[order], expected)


def test_times_beyond_what_a_float_can_hold_stay_exact():
    big = 2**62 + 1
    starts, ends = union(np.array([big, big + 3]), np.array([big + 2, big + 4]))
    assert (ends - starts).tolist() == [2, 1]


def test_a_window_is_a_pair_in_order():
    assert Window.of((3, 9)).dur == 6
    with pytest.raises(OptionError, match="ends before"):
        Window.of((9, 3))
    with pytest.raises(OptionError, match="not a window"):
        Window.of("all")


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
