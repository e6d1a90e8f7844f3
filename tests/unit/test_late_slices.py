"""Slices that their own group covers at first, found by walking up, against every pair of slices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof.selection import Selection
from notebook_prof.service.lod.launched import late_inside
from notebook_prof.service.store import ViewStore
from notebook_prof.trace import nest
from notebook_prof.views.page_queries import PageQueries

from ..browser.drawn import drawn_trace

slices = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(0, 1), st.integers(-1, 2), st.booleans()),
    max_size=14,
)


@given(slices, st.booleans())
def test_covers_are_those_of_every_earlier_slice(
    drawn: list[tuple[int, int, int, int, bool]], narrowed: bool
) -> None:
    drawn.sort(key=lambda one: (one[0], -one[1]))
    table = np.array(drawn, np.int64).reshape(-1, 5)
    ts, dur, track, code, picked = table.T
    around = nest(track, ts, dur).parent
    chosen = np.flatnonzero(picked) if narrowed else None
    late, until = late_inside(code, around, ts, dur, chosen)
    expected = {}
    for i in range(len(drawn)):
        covers = [
            min(ts[k] + dur[k], ts[i] + dur[i])
            for k in range(i)
            if (track[k], code[k]) == (track[i], code[i])
            and code[i] >= 0
            and ts[k] + dur[k] > ts[i]
            and (chosen is None or (picked[k] and picked[i]))
        ]
        if covers:
            expected[i] = max(covers)
    assert dict(zip(late.tolist(), until.tolist(), strict=True)) == expected
    assert late.tolist() == sorted(expected)


def test_tables_are_the_same_either_way() -> None:
    walked, sorted_ = (PageQueries(drawn_trace(gpu=True), Selection()) for _ in range(2))
    assert ViewStore(walked.store.trace).shallow
    sorted_.store.__dict__["shallow"] = False
    for state in ({}, {"step": [4]}, {"phase": ["forward"]}, {"window": [10**6, 5 * 10**7]}):
        for protocol in (walked, sorted_):
            protocol.selection.clear()
            protocol.selection.update(**state)
        for by in ("name", "module", "shapes", "category"):
            first, second = (p.answer({"t": "table", "by": by, "top": 900}) for p in (walked, sorted_))
            assert first[0]["label"] == second[0]["label"]
            assert first[1] == second[1]
