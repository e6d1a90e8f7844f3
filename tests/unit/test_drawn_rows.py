"""Rows in which slices are drawn: work of a stream in the same row with and without ranges around it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof.selection import Selection
from notebook_prof.service.answers import table
from notebook_prof.service.answers.find import neighbour
from notebook_prof.service.columns import SliceColumns
from notebook_prof.service.executor import QueryService
from notebook_prof.service.store import ViewStore
from notebook_prof.testing import draw
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.pictures import scene, single

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


a_slice = st.tuples(st.integers(0, 40), st.integers(0, 20), st.booleans(), st.integers(0, 2))


@settings(max_examples=draws(60))
@given(st.lists(a_slice, min_size=1, max_size=25))
def test_slices_of_a_row_never_overlap(drawn: list[tuple[int, int, bool, int]]) -> None:
    b = TraceBuilder()
    tracks = [*(b.track(name, "stream", device=0, stream=n) for n, name in enumerate("ab", 1)), b.track("t")]
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


LIBRARY = "/lib/site-packages/pandas/core/frame.py"


def folded_trace() -> Trace:
    """A library between two lines of the user's, one function of which takes time itself."""
    b = TraceBuilder()
    calls = [("a.py", "run"), (LIBRARY, "apply"), (LIBRARY, "passes"), ("a.py", "f"), (LIBRARY, "takes")]
    names = [f"{file}({line}): {name}" for line, (file, name) in enumerate(calls, 1)]
    ts, dur = [0, 10, 12, 14, 500], [10_000, 9_900, 9_890, 9_880, 9_000]
    work = {"track": b.track("main"), "step": 0, "phase": "forward"}
    b.slices(ts=ts, dur=dur, name=names, category="python", **work)
    b.steps(step=0, ts=0, dur=10_000, source="loop")
    b.slices(ts=600, dur=300, name="aten::mm", shapes="[[2, 2], [2, 2]]", module="net", **work)
    return b.seal()


def test_frames_of_a_library_are_not_drawn_unless_they_take_time_themselves() -> None:
    trace = folded_trace()
    columns = SliceColumns(trace, fold=True)
    (track,) = columns.tracks
    assert columns.row.tolist() == [0, 1, 5, 2, 3, 4]
    assert (track.depths, track.folded, columns.shown_rows.tolist()) == (6, 1, [0, 1, 2, 3, 4])
    assert columns.nested_row.tolist() == [0, 1, 2, 3, 4, 5]
    store = ViewStore(trace, fold=True)
    assert neighbour(store, {}, {"id": 1, "to": "child"}).content["id"] == 2
    assert neighbour(store, {}, {"id": 2, "to": "child"}).content["id"] == 3


def test_all_drawings_fold_libraries_and_a_page_may_ask_for_all_frames() -> None:
    trace = folded_trace()
    plot = single.timeline(trace, Selection())
    (drawn,) = [one.data_source.data for one in plot.renderers]
    assert np.floor(drawn["top"]).tolist() == [0, 1, 2, 3, 4]
    assert plot.y_range.start == 5
    picture = scene(trace, Selection(), "timeline", 2000).svg()
    assert "passes" not in picture
    assert "takes" in picture
    service = QueryService(trace, Selection())
    told, _ = service.answer({"t": "meta"})
    assert [(track["depths"], track["folded"]) for track in told["tracks"]] == [(6, 1)]
    assert [(track["depths"], track["folded"]) for track in told["unfolded"]] == [(6, 0)]
    for asked, row in ({}, 5), ({"unfolded": True}, 2):
        assert service.answer({"t": "detail", "id": 2, **asked})[0]["row"] == row


def test_marks_of_steps_are_not_drawn_below_the_steps() -> None:
    def rows(steps: bool) -> list[int]:
        b = TraceBuilder()
        main, stream = b.track("main"), b.track("stream 7", "stream", device=0, stream=7)
        for track in (main, stream):
            names = ["ProfilerStep#0", "aten::mm", "ProfilerStep#1"]
            b.slices(ts=[0, 2, 10], dur=[10, 5, 10], name=names, track=track, category="annotation")
        if steps:
            b.steps(step=[0, 1], ts=[0, 10], dur=[10, 10], source="file")
        return SliceColumns(b.seal(), fold=True).row.tolist()

    assert rows(steps=True) == [3, 0, 2, 1, 3, 0], "the host below what ran, the stream as it is"
    assert rows(steps=False) == [2, 0, 3, 1, 2, 0]


files = st.sampled_from(["a.py", LIBRARY, "op"])
frame = st.tuples(st.integers(0, 40), st.integers(0, 30), files, st.integers(0, 1))


@settings(max_examples=draws(60))
@given(st.lists(frame, min_size=1, max_size=25), st.tuples(st.integers(0, 30), st.integers(31, 70)))
def test_sums_are_the_same_with_libraries_folded(
    drawn: list[tuple[int, int, str, int]], window: tuple[int, int]
) -> None:
    b = TraceBuilder()
    tracks = [b.track("a"), b.track("b")]
    for ts, dur, file, track in drawn:
        frame = {"name": f"{file}(1): f{dur}", "category": "python"} if file != "op" else {"name": "aten::mm"}
        b.slices(ts=ts, dur=dur, track=tracks[track], **frame)
    b.slices(ts=0, dur=10_000, name="aten::big", track=b.track("c"))  # all others take no time beside it
    trace = b.seal()
    plain, folded = ViewStore(trace), ViewStore(trace, fold=True)
    c = folded.columns
    assert c.track_of_row[c.row].tolist() == c.track.tolist()
    for row in range(c.n_rows):
        own = np.flatnonzero((c.row == row) & (c.drawn_ns > 0))
        assert (c.ts[own][1:] >= (c.ts + c.drawn_ns)[own][:-1]).all()
    state = Selection(window=window).to_state()
    answers = [table(store, state, {"by": "name"}) for store in (plain, folded)]
    assert answers[0].content == answers[1].content
    assert answers[0].buffers == answers[1].buffers
