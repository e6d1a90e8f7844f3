"""Depth, parent and self time on drawn cases."""

import numpy as np
import pytest

from notebook_prof.trace import nest
from notebook_prof.trace.nesting import climb, order_by_start


def nested(*slices, track=None):
    ts, end = np.array(slices).T
    result = nest(np.zeros(len(ts), int) if track is None else track, ts, end - ts)
    return [part.tolist() for part in result]


def test_a_tree():
    depth, parent, self_ns = nested((0, 100), (10, 60), (20, 30), (30, 50), (70, 90))
    assert depth == [0, 1, 2, 2, 1]
    assert parent == [-1, 0, 1, 1, 0]
    assert self_ns == [30, 20, 10, 20, 20]


def test_of_two_that_start_together_the_longer_is_outside():
    assert nested((0, 5), (0, 10))[1] == [1, -1]


def test_of_two_that_are_the_same_the_first_given_is_outside():
    assert nested((0, 5), (0, 5))[1] == [-1, 0]


def test_an_instant_belongs_to_what_is_open():
    depth, parent, self_ns = nested((0, 10), (4, 4), (10, 10))
    assert (depth, parent, self_ns) == ([0, 1, 0], [-1, 0, -1], [10, 0, 0])


def test_a_slice_that_outlives_its_parent_owns_the_rest():
    # 0----10
    #    5-----15
    #         12-14
    depth, parent, self_ns = nested((0, 10), (5, 15), (12, 14))
    assert depth == [0, 1, 2]
    assert parent == [-1, 0, 1]
    assert self_ns == [5, 8, 2]


def test_a_grandchild_that_outlives_its_parent_takes_from_the_grandparent():
    # 0----------10
    #   2--5
    #     4---8
    assert nested((0, 10), (2, 5), (4, 8))[2] == [4, 2, 4]


def test_climbing_stops_at_the_first_that_counts_or_at_the_top() -> None:
    parent = [-1, 0, 1, 2, -1, 4]
    passed = np.array([False, True, True, True, True, True])
    rows = np.array([3, 5, 0, -1])
    assert climb(parent, rows, passed).tolist() == [0, 4, 0, -1]
    assert rows.tolist() == [3, 5, 0, -1]
    assert climb([], [], np.zeros(0, bool)).tolist() == []


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
