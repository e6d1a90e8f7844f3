"""What the page says of the timeline's colours, compared with what it draws."""

from __future__ import annotations

import numpy as np
import pytest

from notebook_prof.selection import Selection
from notebook_prof.service.answers import legend, timeline_picture
from notebook_prof.service.palette import CATEGORIES, NAMES, PHASES, UNKNOWN
from notebook_prof.service.store import TINTS, ViewStore

from ..browser.drawn import drawn_trace

STATE = Selection().to_state()


@pytest.mark.parametrize("tint", TINTS)
def test_every_colour_that_is_drawn_is_in_the_legend(tint: str) -> None:
    store = ViewStore(drawn_trace(gpu=True))
    content = legend(store, STATE, {"tint": tint}).content
    rows = list(range(store.columns.n_rows))
    end = float(store.trace.span.end)
    drawn = timeline_picture(
        store, STATE, {"a": 0.0, "b": end, "px": 2000, "rows": rows, "tint": tint}
    ).arrays()["tint"]
    palette = {
        "phase": [PHASES[phase] for phase in store.columns.phases],
        "category": [CATEGORIES[category] for category in store.columns.categories],
    }.get(tint, list(NAMES))
    shown = {UNKNOWN if code == 255 else palette[code] for code in np.unique(drawn).tolist()}
    said = {colour for _, colour, _ in content["items"]}
    assert shown <= said or content["more"] > 0
    assert len(content["items"]) <= 12


def test_shares_are_of_the_own_time_of_all_slices() -> None:
    trace = drawn_trace(gpu=True)
    content = legend(ViewStore(trace), STATE, {"tint": "phase"}).content
    own = trace.slices.groupby(trace.slices["phase"].astype(object).fillna("no phase"))["self_ns"].sum()
    expected = (own / own.sum()).sort_values(ascending=False)
    missing = [word for word in expected.index if word == "no phase"]
    expected = expected.reindex([*expected.index.drop(missing), *missing])
    assert [text for text, _, _ in content["items"]] == expected.index.tolist()
    np.testing.assert_allclose([share for _, _, share in content["items"]], expected)
