"""Interval arithmetic on drawn cases; the laws are in tests/properties."""

import numpy as np
import pytest

from notebook_prof.errors import OptionError
from notebook_prof.trace import Window, clip, contains, length, union


def lists(intervals):
    return [list(map(int, part)) for part in intervals]


def test_union_joins_what_overlaps_or_touches():
    assert lists(union([0, 5, 10, 30], [6, 10, 12, 40])) == [[0, 30], [12, 40]]


def test_clip_and_length():
    assert length(clip(union([0, 20], [10, 30]), (5, 22))) == 7


def test_contains_is_half_open():
    assert contains(union([2], [4]), [1, 2, 3, 4]).tolist() == [False, True, True, False]


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
