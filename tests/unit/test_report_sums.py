"""What a report holds of the slices that are not in it one by one: sums that lose nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof.service.store import ViewStore
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.report.report_columns import FilePart, longest_slices
from tests.strategies import traces

Rows = npt.NDArray[np.int64]


def _busy_by_hand(store: ViewStore, slices: Rows, edges: Rows) -> Rows:
    """Busy ns of every row between edges, slice by slice."""
    c = store.columns
    out = np.zeros((c.n_rows, len(edges) - 1), np.int64)
    for i in slices.tolist():
        start, end = c.ts[i], c.ts[i] + c.dur[i]
        out[c.row[i]] += np.clip(np.minimum(end, edges[1:]) - np.maximum(start, edges[:-1]), 0, None)
    return out


def _busy_in_file(part: FilePart, n_rows: int) -> Rows:
    """Of the cells, shape (rows, cells)."""
    out = np.zeros(n_rows * part.cells.per_row, np.int64)
    out[part.cells.at] = part.cells.busy_ns
    return out.reshape(n_rows, part.cells.per_row)


def _edges(part: FilePart) -> Rows:
    return part.cells.origin + part.cells.width_ns * np.arange(part.cells.per_row + 1)


@given(traces(), st.integers(1, 12))
def test_slices_and_cells_are_as_busy_as_the_recording(trace: Trace, most: int) -> None:
    """The law of every level of detail: between edges, nothing appears and nothing is lost."""
    store = ViewStore(trace)
    part = FilePart.of(store, most)
    if part is None:
        assert longest_slices(store, most).all()
        return
    kept, edges, every = np.flatnonzero(part.keep), _edges(part), np.arange(store.columns.n)
    assert not part.keep.all()
    busy = _busy_by_hand(store, kept, edges) + _busy_in_file(part, store.columns.n_rows)
    np.testing.assert_array_equal(busy, _busy_by_hand(store, every, edges))
    assert part.cells.count.sum() + len(kept) == store.columns.n
    _assert_longest(store, part.keep)
    assert edges[0] <= store.columns.ts.min()
    assert edges[-1] >= (store.columns.ts + store.columns.dur).max()


def test_nothing_is_summed_up_where_the_longest_and_what_is_around_them_are_all() -> None:
    """A slice that outlasts the one around it brings that with it."""
    builder = TraceBuilder()
    builder.slices(ts=[0, 1], dur=[10, 20], name=["outer", "inner"], track=builder.track("main"))
    store = ViewStore(builder.seal())
    assert store.columns.n == 2
    assert FilePart.of(store, 1) is None


def _assert_longest(store: ViewStore, keep: npt.NDArray[np.bool_]) -> None:
    """The longest of every track are kept, and whatever is around a slice that is."""
    c, around = store.columns, store.columns.parent[keep]
    assert keep[around[around >= 0]].all()
    needed = np.isin(np.arange(len(keep)), around)
    for track in np.unique(c.track):
        left, there = (c.track == track) & ~keep, (c.track == track) & keep & ~needed
        assert c.dur[left].max(initial=0) <= c.dur[there].min(initial=2**62)
