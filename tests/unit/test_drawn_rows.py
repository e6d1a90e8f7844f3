"""Rows in which slices are drawn: work of a stream in the same row with and without ranges around it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof.service.columns import SliceColumns
from notebook_prof.testing import draw
from notebook_prof.trace import TraceBuilder

from ..draws import draws


def test_kernels_stay_in_one_row_where_a_range_begins() -> None:
    trace = draw(
        "stream 7: [gemm][add]                  [mul]\n"
        "stream 7:            [ProfilerStep#1  ]\n"
        "stream 7:              [conv][relu]",
        categories={"ProfilerStep#1": "annotation"},
    )
    columns = SliceColumns(trace)
    (track,) = columns.tracks
    rows = dict(zip(trace.slices["name"].astype(str), columns.row.tolist(), strict=True))
    assert rows == {"gemm": 1, "add": 1, "conv": 1, "relu": 1, "mul": 1, "ProfilerStep#1": 0}
    assert (track.marks, track.depths, columns.n_rows) == (1, 2, 2)


def test_ranges_of_the_host_stay_around_their_work() -> None:
    trace = draw("main: [ProfilerStep#1 ]\nmain: [mm ]", categories={"ProfilerStep#1": "annotation"})
    columns = SliceColumns(trace)
    assert columns.row.tolist() == [0, 1]
    assert columns.tracks[0].marks == 0


slices = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20), st.booleans(), st.integers(0, 2)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=draws(60))
@given(slices)
def test_slices_of_a_row_never_overlap(drawn: list[tuple[int, int, bool, int]]) -> None:
    b = TraceBuilder()
    tracks = [
        b.track("a", "stream", device=0, stream=1),
        b.track("b", "stream", device=0, stream=2),
        b.track("t"),
    ]
    for ts, dur, marks, track in drawn:
        b.slices(ts=ts, dur=dur, name="x", category="annotation" if marks else "kernel", track=tracks[track])
    trace = b.seal()
    c = SliceColumns(trace)
    assert sum(track.depths for track in c.tracks) == c.n_rows
    assert c.track_of_row[c.row].tolist() == c.track.tolist()
    for row in range(c.n_rows):
        own = np.flatnonzero(c.row == row)
        own = own[c.dur[own] > 0]
        assert (c.ts[own][1:] >= (c.ts + c.dur)[own][:-1]).all()
    for track in c.tracks:
        own = c.track == track.track
        marks = np.isin(np.arange(c.n_rows), range(track.first_row, track.first_row + track.marks))
        if track.kind == "stream":
            assert (marks[c.row[own]] == (trace.slices["category"] == "annotation").to_numpy()[own]).all()
