"""What a selection keeps, found by index, against a look at every slice."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from notebook_prof.selection import Selection
from notebook_prof.service.selected_rows import Choices, matching_key, matching_mask
from notebook_prof.service.store import ViewStore
from notebook_prof.views.page_queries import PageQueries

from ..browser.drawn import drawn_trace

CLAUSES: dict[str, list[Any]] = {
    "name": [["aten::conv2d"], ["aten::conv2d", "aten::addmm", "no such name"], ["no such name"]],
    "category": [["kernel"], ["operator", "kernel"]],
    "track": [[0], [0, 1]],
    "step": [[4], [4, 5, 9]],
    "phase": [["forward"], ["backward", "optimizer"]],
}
PAIRS = [{name: value} for name, values in CLAUSES.items() for value in values]
PAIRS += [{a: CLAUSES[a][0], b: CLAUSES[b][-1]} for a, b in combinations(CLAUSES, 2)]


@pytest.fixture(scope="module")
def store() -> ViewStore:
    return ViewStore(drawn_trace(gpu=True))


@pytest.mark.parametrize("clauses", PAIRS, ids=str)
def test_choices_are_those_of_a_mask(store: ViewStore, clauses: dict[str, Any]) -> None:
    key = matching_key(clauses)
    mask = matching_mask(store.columns, key)
    kept = store.choices.effective(key)
    rows = store.choices.slices(kept)
    assert np.array_equal(np.arange(store.columns.n) if rows is None else rows, np.flatnonzero(mask))
    chosen = store.chosen(key)
    by_position = mask[store.rows.order]
    assert np.array_equal(
        np.arange(len(mask)) if chosen is None else chosen.positions(), np.flatnonzero(by_position)
    )
    some = np.arange(0, store.columns.n, 7)
    assert np.array_equal(store.matches(key, some), mask[some])


def test_many_names_are_found_like_few(monkeypatch: pytest.MonkeyPatch, store: ViewStore) -> None:
    key = matching_key({"name": store.columns.names[::2]})
    expected = np.flatnonzero(matching_mask(store.columns, key))
    for few in (10**9, 1):  # a look at all slices, and a sort of the chosen
        monkeypatch.setattr("notebook_prof.service.selected_rows._FEW", few)
        choices = Choices(store.columns, store.rows)
        rows = choices.slices(key)
        assert rows is not None
        assert np.array_equal(rows, expected)
        chosen = choices.chosen(key)
        assert chosen is not None
        assert np.array_equal(np.sort(store.rows.order[chosen.positions()]), expected)


def test_selected_memory_is_that_of_the_selected_slices() -> None:
    protocol = PageQueries(drawn_trace(gpu=True), Selection(name="aten::conv2d"))
    store = protocol.store
    for device in store.memory_devices:
        curve = store.selected_memory(device, matching_key(protocol.selection.to_state()))
        assert curve is not None
        owner, size = store.memory_owners(device)
        events = store.trace.allocations
        ts = events.loc[events["device"] == device, "ts"].to_numpy()
        selected = (owner >= 0) & matching_mask(store.columns, (("name", ("aten::conv2d",)),))[owner]
        for instant in ts[:: max(len(ts) // 40, 1)].tolist():
            alive = int(size[selected & (ts <= instant)].sum())
            assert curve.value[np.searchsorted(curve.ts, instant, "right") - 1] == alive
