"""The calls tab without a browser: its views, what is left out of a long one, choices, and its report."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof import analysis
from notebook_prof.profiles.profile import Profile
from notebook_prof.selection import Selection
from notebook_prof.service.packing import Answer
from notebook_prof.service.store import ViewStore
from notebook_prof.testing import draw
from notebook_prof.trace import Trace
from notebook_prof.views.figures.flame import flame_figure
from notebook_prof.views.report import tabs as embedding
from notebook_prof.views.report.tabs import choice_key
from notebook_prof.views.tab_answers import panel
from notebook_prof.views.tabs import TABS

from ..browser.drawn import drawn_trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    return drawn_trace(gpu=True)


def _ask(trace: Trace, selection: Selection | None = None, **choices: str) -> Answer:
    state = (selection or Selection()).to_state()
    return panel(ViewStore(trace), state, {"name": "calls", "choices": choices})


def _table(answer: Answer, number: int = 0) -> tuple[dict[str, Any], pd.DataFrame]:
    part, arrays = answer.content["parts"][number], answer.arrays()
    columns = {
        key: arrays[f"{number}.{key}"] for key, _, unit in part["heads"] if unit not in ("text", "name")
    }
    if part["kind"] == "tree":
        columns |= {key: arrays[f"{number}.{key}"] for key in ("parent", "depth", "more", "more_weight")}
    return part, pd.DataFrame({"name": part["texts"]["name"], **columns})


@pytest.mark.parametrize("mode", ["call_tree", "bottom_up"])
def test_a_tree_has_the_rows_of_its_analysis(trace: Trace, mode: str) -> None:
    part, shown = _table(_ask(trace, mode=mode))
    options = {"fold_libraries": True} if mode == "call_tree" else {"least_share": 1e-4}
    expected = getattr(analysis, mode)(trace, **options)
    assert part["call"] == f"p.{mode}({', '.join(f'{key}={value}' for key, value in options.items())})"
    assert shown["name"].tolist() == expected["name"].tolist()
    assert shown["parent"].tolist() == expected["parent"].fillna(-1).tolist()
    for column in ("total_ns", "self_ns", "count", "device_ns", "share"):
        np.testing.assert_allclose(shown[column], expected[column])
    assert not shown["more"].any()
    assert part["more_roots"] == [0, 0]


def test_a_tree_follows_the_selection(trace: Trace) -> None:
    start = int(trace.steps["ts"].iloc[1])
    for selection in (
        Selection(step=4),
        Selection(window=(start, start + 10**6)),
        Selection(phase="backward"),
    ):
        state = {
            key: value for key, value in selection.to_state().items() if key in ("step", "window", "phase")
        }
        _, shown = _table(_ask(trace, selection, mode="every_frame"))
        assert shown["total_ns"].tolist() == analysis.call_tree(trace, **state)["total_ns"].tolist()
        _, stack = _table(_ask(trace, selection, mode="every_frame"), 1)
        assert stack["name"].tolist() == analysis.heaviest_stack(trace, **state)["name"].tolist()
    assert _ask(trace, Selection(step=999)).content["absent"] == "There is no stack in the selection."


def test_the_event_log_begins_with_the_first_and_says_how_many_there_are(trace: Trace) -> None:
    part, shown = _table(_ask(trace, Selection(step=4), mode="event_log"))
    expected = analysis.event_log(trace, step=4)
    assert part["rows"] == len(expected)
    assert shown["ts"].tolist() == expected["ts"].head(len(shown)).tolist()
    assert part["select"][:2] == [{"focus": int(row)} for row in expected["slice"][:2]]
    assert "stream 7" in " ".join(part["texts"]["track"])
    profile = Profile(trace)
    profile.selection.step = 4
    assert expected["slice"].tolist() == profile.selected.index.tolist()
    (named, stack) = _ask(trace, Selection(name="aten::relu"), mode="event_log").content["parts"][:2]
    assert named["rows"] == (trace.slices["name"] == "aten::relu").sum()
    assert stack["call"] == "p.heaviest_stack(name='aten::relu')"
    assert stack["texts"]["name"] == analysis.heaviest_stack(trace, name="aten::relu")["name"].tolist()
    alone = _ask(draw("stream 7: [gemm]"), mode="event_log").content
    assert "this trace has only device work" in alone["absent"]


def test_threads_without_operators_are_left_out_as_the_call_says() -> None:
    trace = draw("main: [aten::mm ]\nidle: [wait      ]", categories={"wait": "python"})
    part, shown = _table(_ask(trace))
    assert shown["name"].tolist() == ["aten::mm"]
    assert part["call"] == "p.call_tree(fold_libraries=True, track=[0])"
    assert any("left out" in one.get("text", "") for one in _ask(trace).content["parts"])
    _, chosen = _table(_ask(trace, Selection(track=1)))
    assert chosen["name"].tolist() == ["wait"]


def test_a_report_has_the_tab_for_every_choice(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "TABS", {"calls": TABS["calls"]})
    texts = embedding.embedded(trace)["calls"]
    kinds = {"call_tree": "tree", "every_frame": "tree", "bottom_up": "tree", "event_log": "table"}
    assert len(texts) == len(kinds)
    for mode, kind in kinds.items():
        text = texts[choice_key({"mode": mode})]
        content = json.loads(zlib.decompress(base64.b64decode(text)))["content"]
        assert content["parts"][0]["kind"] == kind
        assert content["parts"][1]["kind"] == "stack"


def test_a_flame_draws_the_boxes_of_its_table_in_every_order(trace: Trace) -> None:
    selection = Selection(step=[4, 5])
    heaviest = analysis.bottom_up(trace, step=[4, 5])["name"].iloc[0]
    for order, table in (
        ("left_heavy", analysis.flame(trace, step=[4, 5])),
        ("time", analysis.flame(trace, step=[4, 5], order="time")),
        ("sandwich", analysis.sandwich(trace, heaviest, step=[4, 5])),
    ):
        drawn = flame_figure(trace, selection, order=order)
        assert drawn is not None
        data = drawn.figure.renderers[0].data_source.data
        boxes = table[table["total"] > 0]
        scale = (data["right"] - data["left"]).max() / boxes["total"].max()
        np.testing.assert_allclose(data["left"], boxes["start"] * scale)
        np.testing.assert_allclose(data["middle"], boxes["depth"] + 0.5)
    around = flame_figure(trace, Selection(name="aten::conv2d"), order="sandwich")
    assert around is not None
    assert around.title.startswith("Time on the host of conv2d")
    assert flame_figure(trace, Selection(name="no such name"), order="sandwich") is None
    panel_of = TABS["flame"].build(trace, Selection(name="no such name").to_state(), order="sandwich")
    assert "the selected name" in panel_of.sentence
