"""The level-of-detail indexes against the plain definition, slice by slice; and the first picture."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof.selection import Selection
from notebook_prof.service.detail.chosen import Chosen
from notebook_prof.service.detail.curve import StepCurve
from notebook_prof.service.detail.density import LongestBlocks, density
from notebook_prof.service.detail.drawn import DrawnIndex, EarlyIndex, WideSlices
from notebook_prof.service.detail.rows import RowIndex
from notebook_prof.views.page_queries import PageQueries

from ..asking import asked
from ..browser.drawn import drawn_trace

Drawn = tuple[Any, Any, Any, int]


@st.composite
def rows_of_slices(draw: st.DrawFn) -> Drawn:
    """Rows of slices that do not overlap, instants among them; sorted by start."""
    n_rows = draw(st.integers(1, 4))
    parts = []
    for row in range(n_rows):
        gaps = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), max_size=12))
        at = draw(st.integers(0, 20))
        for gap, dur in gaps:
            at += gap
            parts.append((at, dur, row))
            at += max(dur, 1)
    parts.sort()
    table = np.array(parts, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2], n_rows


windows = st.tuples(st.integers(-5, 150), st.integers(1, 120)).map(lambda w: (w[0], w[0] + w[1]))


def _clipped(ts: Any, dur: Any, a: int, b: int) -> Any:
    return np.clip(np.minimum(ts + dur, b) - np.maximum(ts, a), 0, None)


def _touches(ts: Any, dur: Any, a: int, b: int) -> Any:
    return (ts < b) & ((ts >= a) | (ts + dur > a))


def _chosen(index: RowIndex, mask: Any, joined: bool = True) -> Chosen:
    """Runs of a mask by position, as long as can be or one a slice."""
    at = np.flatnonzero(mask)
    heads = np.append(True, np.diff(at) > 1) if joined and len(at) else np.ones(len(at), bool)
    stops = np.append(heads[1:], True) if len(at) else heads
    return Chosen(index, at[heads], at[stops] + 1)


@given(rows_of_slices(), windows, st.integers(1, 40))
def test_density_conserves_busy_time(drawn: Drawn, window: tuple[int, int], bins: int) -> None:
    ts, dur, row, n_rows = drawn
    index = RowIndex(ts, dur, row, n_rows)
    d = density(index, LongestBlocks(index), np.arange(n_rows), window, bins)
    edges = np.rint(d.start + d.width * np.arange(d.busy_ns.shape[1] + 1)).astype(int)
    assert edges[0] <= window[0]
    assert edges[-1] >= window[1]
    for r in range(n_rows):
        in_row = row == r
        for k in range(len(edges) - 1):
            a, b = int(edges[k]), int(edges[k + 1])
            part = _clipped(ts[in_row], dur[in_row], a, b)
            assert d.busy_ns[r, k] == part.sum()
            touching = np.flatnonzero(in_row & _touches(ts, dur, a, b))
            assert d.count[r, k] == len(touching)
            if len(touching):
                longest = index.order[d.longest[r, k]]
                assert longest in touching
                assert dur[longest] == dur[touching].max()
            else:
                assert d.longest[r, k] == -1


@given(rows_of_slices(), windows, st.integers(0, 12), st.integers(1, 8))
def test_wide_slices_are_the_longest(drawn: Drawn, window: tuple[int, int], least: int, limit: int) -> None:
    ts, dur, row, n_rows = drawn
    index = RowIndex(ts, dur, row, n_rows)
    first, stop = index.stretch(np.arange(n_rows), *window)
    at = WideSlices(index).find(first, stop, least, limit)
    lengths = np.sort(dur[_touches(ts, dur, *window) & (dur >= least)])[::-1][:limit]
    assert np.sort(index.lengths(at))[::-1].tolist() == lengths.tolist()
    assert (np.diff(at) > 0).all()


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), min_size=1, max_size=60),
    windows,
    st.integers(1, 30),
)
def test_curve_keeps_extremes(points: list[tuple[int, int]], window: tuple[int, int], px: int) -> None:
    ts = np.cumsum([p[0] for p in points])
    value = np.array([float(p[1]) for p in points])
    x, y = StepCurve(ts, value).sample(*window, px)
    before = np.flatnonzero(ts <= window[0])
    values = value[(ts > window[0]) & (ts < window[1])]
    values = np.append(values, value[before[-1]]) if len(before) else values
    assert (len(x) == 0) == (len(values) == 0)
    if len(values):
        assert y.max() == values.max()
        assert y.min() == values.min()
        assert x[0] >= window[0]
        assert x[-1] == window[1]
        assert (np.diff(x) >= 0).all()


def test_a_curve_stays_at_its_last_value() -> None:
    """Five thousand changes within a pixel, then nothing: the level after them is not their highest."""
    curve = StepCurve(np.arange(5_000), np.append(np.tile([9.0, 1.0], 2_499), [9.0, 4.0]))
    x, y = curve.sample(0, 10_000_000, 100)
    assert y.tolist() == [1.0, 9.0, 4.0, 4.0]
    assert x.tolist() == [0, 0, 0, 10_000_000]


@given(rows_of_slices(), windows, st.integers(1, 30), st.integers(2, 5), st.booleans(), st.data())
def test_selected_time_is_that_of_the_selected_slices(
    drawn: Drawn, window: tuple[int, int], bins: int, every: int, joined: bool, data: st.DataObject
) -> None:
    """In any rows, in any order, at any level, whatever ranges the selection is made of."""
    ts, dur, row, n_rows = drawn
    index = RowIndex(ts, dur, row, n_rows)
    mask = np.arange(len(ts)) % every != 0
    chosen = _chosen(index, mask[index.order], joined)
    assert chosen.count == mask.sum()
    rows = np.array(data.draw(st.permutations(range(n_rows)))[: data.draw(st.integers(1, n_rows))])
    d = density(index, LongestBlocks(index), rows, window, bins)
    edges = np.rint(d.start + d.width * np.arange(d.busy_ns.shape[1] + 1)).astype(int)
    for slot, r in enumerate(rows.tolist()):
        selected = mask & (row == r)
        expected = [
            _clipped(ts[selected], dur[selected], int(a), int(b)).sum() for a, b in itertools.pairwise(edges)
        ]
        assert d.matched(chosen)[slot].tolist() == expected


@given(rows_of_slices(), windows, st.integers(1, 40), st.lists(st.booleans(), min_size=4, max_size=4))
def test_it_is_as_made_of_all(drawn: Drawn, window: tuple[int, int], bins: int, in_rows: list[bool]) -> None:
    ts, dur, row, n_rows = drawn
    mask = np.array(in_rows[:n_rows])
    early, rows = EarlyIndex(ts, dur, row, mask, np.flatnonzero(mask[row])), np.flatnonzero(mask)
    assert early.holds(rows)
    assert early.holds(np.arange(n_rows)) == mask.all()
    every = RowIndex(ts, dur, row, n_rows)
    some, whole = early.drawn, DrawnIndex(every, WideSlices(every), LongestBlocks(every))
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
    early.store._early = EarlyIndex(c.ts, c.dur, c.row, in_rows, np.flatnonzero(in_rows[c.row]))
    first, second = early.answer(request), late.answer(request)
    assert "rows" not in early.store.__dict__, "nothing else was indexed for it"
    drop = ("ms", "revision")
    assert {k: v for k, v in first[0].items() if k not in drop} == {
        k: v for k, v in second[0].items() if k not in drop
    }
    assert first[1] == second[1]
    early.selection.step = 4
    assert early.answer(request)[0]["filtered"], "what is selected is found in the index of all"
    assert early.store.drawn(np.arange(2), ()).rows is early.store.rows


def test_doubts_come_apart_where_they_are_asked_so() -> None:
    protocol = PageQueries(drawn_trace(gpu=True), Selection())
    assert "doubts" not in protocol.answer({"t": "meta", "doubts": "later"})[0]
    doubts = protocol.answer({"t": "meta"})[0]["doubts"]
    assert asked(protocol, t="doubts")[0]["doubts"] == doubts
