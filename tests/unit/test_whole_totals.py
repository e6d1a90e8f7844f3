"""Totals of the whole recording are plain sums; those of a window come from running sums. Both must agree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Final

import numpy as np
import pytest

from notebook_prof import Selection, TraceBuilder
from notebook_prof.service.answers import table
from notebook_prof.service.lod import GroupTotals
from notebook_prof.service.store import GROUPINGS, ViewStore
from notebook_prof.trace import Trace
from notebook_prof.views.page_queries import PageQueries

from ..browser.drawn import drawn_trace


def _overlapping(seed: int) -> Trace:
    """Three tracks of slices at random, so that names lie in themselves, whole and in part."""
    rng = np.random.default_rng(seed)
    b = TraceBuilder()
    for k in range(3):
        n = 400
        b.slices(
            ts=np.sort(rng.integers(0, 3_000, n)),
            dur=rng.integers(0, 90, n),
            name=[f"op {i}" for i in rng.integers(0, 5, n)],
            track=b.track(f"thread {k}"),
        )
    return b.seal()


TRACES: Final[dict[str, Callable[[], Trace]]] = {
    "drawn": lambda: drawn_trace(gpu=True),
    "overlapping": lambda: _overlapping(0),
}


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("shallow", [True, False])
def test_both_ways_agree(trace: str, shallow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ViewStore, "shallow", shallow)
    store = ViewStore(TRACES[trace]())
    c = store.columns
    start, end = int(c.ts.min()), int((c.ts + c.dur).max())
    assert (c.dur[c.ts == end] > 0).all(), "a window up to the end leaves out no instant"
    for by in GROUPINGS:
        for side in ("host", "device"):
            for key in ((), (("name", (c.names[0], c.names[1])),)):
                groups = store.groups(by, key, side)
                whole = groups.totals(start, end + 1, c.row_below)
                assert groups.is_ready(windowed=False)
                assert not groups.is_ready(windowed=True), "nothing was sorted for it"
                window = groups.totals(start, end, c.row_below)
                assert groups.is_ready(windowed=True)
                for field in fields(GroupTotals):
                    np.testing.assert_array_equal(
                        getattr(whole, field.name), getattr(window, field.name), f"{by} {side} {field.name}"
                    )


def test_a_first_window_of_a_long_recording_is_made_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of everything is there, the running sums for a brush are not: other questions go on."""
    monkeypatch.setattr(sys.modules[table.__module__], "_MANY", 100)
    queries = PageQueries(drawn_trace(gpu=True), Selection())
    while queries.answer({"t": "table"})[0].get("pending"):
        pass
    assert queries.store.has_groups("name", ())
    assert not queries.store.has_groups("name", (), windowed=True)
    queries.selection.window = (0, 50_000_000)
    while (answer := queries.answer({"t": "table"})[0]).get("pending"):
        assert "failed" not in queries.answer({"t": "lod", "a": 0, "b": 1e9, "px": 10, "rows": [0]})[0]
    assert answer["rows"] > 0
    assert queries.store.has_groups("name", (), windowed=True)
