"""The filter box against ``where=``: one language, the same rows."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from notebook_prof.errors import NotebookProfError
from notebook_prof.profiles.profile import Profile
from notebook_prof.selection import Query, Selection
from notebook_prof.service.answers import search, table
from notebook_prof.service.store import ViewStore
from notebook_prof.views.page_queries import PageQueries

from ..asking import asked
from ..browser.drawn import drawn_profile
from ..filters import FILTERS


@pytest.fixture(scope="module")
def p() -> Profile:
    return drawn_profile(gpu=True)


@pytest.fixture(scope="module")
def store(p: Profile) -> ViewStore:
    return ViewStore(p.trace)


def _box(store: ViewStore, text: str, scope: str = "host") -> tuple[pd.DataFrame, str]:
    answer = table(store, {}, {"by": "name", "scope": scope, "filter": text, "top": 1000})
    data = answer.arrays()
    rows = pd.DataFrame({name: data[name] for name in ("count", "total_ns", "self_ns", "device_ns", "share")})
    rows.insert(0, "name", answer.content["label"])
    return rows.sort_values("name").reset_index(drop=True), answer.content["error"]


@pytest.mark.parametrize("text", FILTERS)
def test_the_box_keeps_the_rows_of_where(p: Profile, store: ViewStore, text: str) -> None:
    rows, error = _box(store, text)
    try:
        expected = p.operators(where=text)
    except NotebookProfError as refused:
        expected, said = None, str(refused)
    if expected is None:
        # the box has a mean, and "not" of steps and phases; a category is asked of the box, not of the trace
        assert error == said or "its columns are" in said or text in ("category=nothing",)
        return
    assert error == ""
    expected = expected.sort_values("name").reset_index(drop=True)
    assert rows["name"].tolist() == expected["name"].tolist()
    for column in ("count", "total_ns", "self_ns", "device_ns"):
        assert rows[column].tolist() == expected[column].tolist(), column


def test_a_filter_leaves_the_totals_of_the_selection(store: ViewStore) -> None:
    whole = table(store, {}, {"by": "name"}).content
    part = table(store, {}, {"by": "name", "filter": "step=5 conv"}).content
    assert part["rows"] < whole["rows"]
    assert (part["count"], part["self_ns"]) == (whole["count"], whole["self_ns"])


def test_a_filter_and_the_selection_must_both_hold(store: ViewStore) -> None:
    both = table(store, {"step": [4, 5]}, {"by": "name", "filter": "step=5:9"}).arrays()["count"].sum()
    assert both == table(store, {"step": [5]}, {"by": "name"}).arrays()["count"].sum() > 0
    assert table(store, {"step": [4]}, {"by": "name", "filter": "step=5"}).content["rows"] == 0


def test_steps_that_are_not_are_those_that_are_left(store: ViewStore) -> None:
    within, beyond = (_box(store, f"step{sign}4:7")[0]["count"].sum() for sign in ("=", "!="))
    assert within + beyond == _box(store, "step=0:")[0]["count"].sum()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("conv", "name.str.lower().str.contains('conv')"),
        ("/add_$/ dur>80us", "name.str.contains('add_$') and dur > 80_000"),
        ("self<=20us depth>0", "self_ns <= 20_000 and depth > 0"),
        ("step=5 phase=forward", "step == 5 and phase == 'forward'"),
        ("step!=5", "step != 5 and step == step"),
        ("category=kernel", "category == 'kernel'"),
        ("module=layers.1", "module == 'layers.1'"),
        ("name!=aten", "not name.str.contains('aten')"),
    ],
)
def test_find_agrees_with_pandas(p: Profile, store: ViewStore, text: str, query: str) -> None:
    slices = p.trace.slices.assign(
        **{name: p.trace.slices[name].astype(object) for name in ("name", "phase", "category", "module")},
        step=p.trace.slices["step"].astype(float),
    )
    assert search(store, {}, {"text": text}).content["count"] == len(slices.query(query)) > 0


def test_find_says_what_a_slice_has_not(store: ViewStore) -> None:
    error = search(store, {}, {"text": "count>3"}).content["error"]
    assert "a slice has no count: it can be found by name" in error


@pytest.mark.parametrize(
    "request_", [{"t": "search", "text": "/conv|mm/"}, {"t": "table", "by": "name", "filter": "/conv|mm/"}]
)
def test_no_question_waits_while_names_are_compared(
    p: Profile, monkeypatch: pytest.MonkeyPatch, request_: dict[str, str]
) -> None:
    """However long a pattern takes, the timeline goes on."""
    go, began, real = threading.Event(), threading.Event(), Query.finds_in

    def slow(query: Query, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        if query:
            began.set()
            assert go.wait(60)
        return real(query, texts)

    monkeypatch.setattr(Query, "finds_in", slow)
    protocol = PageQueries(p.trace, Selection())
    assert protocol.answer(request_)[0]["pending"]
    assert began.wait(60)
    assert protocol.answer({"t": "table", "by": "name"})[0]["label"], "answered meanwhile"
    go.set()
    assert asked(protocol, **request_)[0]["count"] > 0
