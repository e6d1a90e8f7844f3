"""What the first picture is drawn from while the index of all slices is being built."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof.selection import Selection
from notebook_prof.service import executor
from notebook_prof.service.cached import locked_cached_property
from notebook_prof.service.detail import DrawnIndex, EarlyIndex, RowIndex, density
from notebook_prof.views.page_queries import PageQueries

from ..browser.drawn import drawn_trace
from .test_detail import Drawn, rows_of_slices, windows


@given(rows_of_slices(), windows, st.integers(1, 40), st.lists(st.booleans(), min_size=4, max_size=4))
def test_its_bins_and_slices_are_those_of_all(
    drawn: Drawn, window: tuple[int, int], bins: int, in_rows: list[bool]
) -> None:
    ts, dur, row, n_rows = drawn
    mask = np.array(in_rows[:n_rows])
    early, rows = EarlyIndex(ts, dur, row, mask), np.flatnonzero(mask)
    assert early.holds(rows)
    assert early.holds(np.arange(n_rows)) == mask.all()
    some, whole = early.drawn, DrawnIndex.of(RowIndex(ts, dur, row, n_rows))
    a = density(some.rows, some.blocks, rows, window, bins)
    b = density(whole.rows, whole.blocks, rows, window, bins)
    assert (a.start, a.width) == (b.start, b.width)
    assert np.array_equal(a.busy_ns, b.busy_ns)
    assert np.array_equal(a.count, b.count)
    assert np.array_equal(_slices(some, a.longest), _slices(whole, b.longest))
    for index in (some, whole):
        first, stop = index.rows.stretch(rows, *window)
        in_window = [index.rows.order[i:j].tolist() for i, j in zip(first, stop, strict=True)]
        assert in_window == [
            np.flatnonzero(
                (row == r) & (ts < window[1]) & ((ts >= window[0]) | (ts + dur > window[0]))
            ).tolist()
            for r in rows
        ]


def _slices(index: DrawnIndex, at: Any) -> Any:
    order = np.append(index.rows.order, -1)
    return np.where(at >= 0, order[np.maximum(at, 0)], -1)


def test_the_first_picture_is_the_one_that_stays() -> None:
    request = {"t": "timeline", "a": 0, "b": 2e8, "px": 500, "rows": [0, 1]}
    early, late = PageQueries(drawn_trace(), Selection()), PageQueries(drawn_trace(), Selection())
    in_rows = np.arange(early.store.columns.n_rows) < 2
    c = early.store.columns
    early.store._early = EarlyIndex(c.ts, c.dur, c.row, in_rows)
    first, second = early.answer(request), late.answer(request)
    assert "rows" not in early.store.__dict__, "nothing else was indexed for it"
    drop = ("ms", "revision")
    assert {k: v for k, v in first[0].items() if k not in drop} == {
        k: v for k, v in second[0].items() if k not in drop
    }
    assert first[1] == second[1]
    early.selection.step = 4
    assert early.answer(request)[0]["filtered"], "what is selected is found in the index of all"
    assert early.store.drawn(np.arange(2)).rows is early.store.rows


def test_what_a_page_asks_next_is_computed_while_it_mounts_its_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[Any] = []
    monkeypatch.setattr(executor, "start_thread", lambda work, name: threads.append(work))
    ahead, fresh = PageQueries(drawn_trace(), Selection()), PageQueries(drawn_trace(), Selection())
    for _ in range(2):
        ahead.answer({"t": "names", "start": 0})
    (work,) = threads
    assert not ahead.store.has_groups("name", ())
    work()
    assert ahead.store.has_groups("name", ())
    kept = len(ahead.store._cache)
    for question in ({"t": "table", "top": 60}, {"t": "phases"}, {"t": "account"}):
        (content, buffers), (other, others) = ahead.answer(question), fresh.answer(question)
        assert {**content, "ms": 0} == {**other, "ms": 0}
        assert buffers == others
    assert len(ahead.store._cache) == kept, "all of it was there"


def test_doubts_come_apart_where_they_are_asked_so() -> None:
    protocol = PageQueries(drawn_trace(gpu=True), Selection())
    assert "doubts" not in protocol.answer({"t": "meta", "doubts": "later"})[0]
    doubts = protocol.answer({"t": "meta"})[0]["doubts"]
    while "doubts" not in (answer := protocol.answer({"t": "doubts"})[0]):
        assert answer["pending"] is True
    assert answer["doubts"] == doubts


class _Counted:
    def __init__(self) -> None:
        self.made = 0
        self.go_on = threading.Event()

    @locked_cached_property
    def value(self) -> int:
        """Made slowly."""
        assert self.go_on.wait(60)
        self.made += 1
        return self.made


def test_threads_wait_for_what_another_builds() -> None:
    one, values = _Counted(), []
    threads = [threading.Thread(target=lambda: values.append(one.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    one.go_on.set()
    for thread in threads:
        thread.join(60)
    assert values == [1, 1, 1, 1]
