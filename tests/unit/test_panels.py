"""Tabs of the dashboard without a browser: their numbers, what they select, why they are absent, reports."""

from __future__ import annotations

import base64
import json
import re
import threading
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bokeh.embed import file_html

import notebook_prof as nbp
from notebook_prof import analysis
from notebook_prof.profiles.display import VIEWS
from notebook_prof.profiles.profile import Profile
from notebook_prof.selection import Selection
from notebook_prof.service.packing import Answer
from notebook_prof.service.palette import NAMES, name_styles
from notebook_prof.service.store import ViewStore
from notebook_prof.testing import draw
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.page_queries import PageQueries
from notebook_prof.views.report import tabs as embedding
from notebook_prof.views.tab_answers import MOST_ROWS, TEXTS, packed, panel
from notebook_prof.views.tab_models import PLOTS
from notebook_prof.views.tabs import TABS, Facts, Note, Panel, Tab, Table
from notebook_prof.views.tabs.analyses import followed

from ..asking import asked
from ..browser.drawn import drawn_trace
from ..browser.drawn_gpu import drawn_training

EMPTY = TraceBuilder().seal()
EVIL = "<img src=x onerror=alert(1)>$$x^2$$"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return drawn_trace(gpu=True)


def _ask(trace: Trace, name: str, selection: Selection | None = None, **request: Any) -> Answer:
    state = (selection or Selection()).to_state()
    answer = panel(ViewStore(trace), state, {"name": name, **request})
    json.dumps(answer.content, allow_nan=False)
    return answer


def _tables(answer: Answer) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    """Each table with its columns put together again."""
    arrays, out = answer.arrays(), []
    for number, part in enumerate(answer.content["parts"]):
        if part["kind"] == "table":
            columns = {
                key: arrays[f"{number}.{key}"] if unit not in TEXTS else part["texts"][key]
                for key, _, unit in part["heads"]
            }
            out.append((part, pd.DataFrame(columns)))
    return out


@pytest.mark.parametrize("name", TABS)
@pytest.mark.parametrize(
    "picture",
    [
        "",
        "main: [mm ]",
        "steps: [0   ][1   ]\nmain: [load/data][mm/forward]\nstream 7: [k  ]  [ncclAllReduce:collective]",
    ],
)
def test_every_tab_answers_or_says_why_not(name: str, picture: str) -> None:
    trace = draw(picture) if picture else EMPTY
    for selection in (Selection(), Selection(window=(0, 5), name="mm", step=0, phase="forward")):
        content = _ask(trace, name, selection).content
        if sentence := content.get("absent"):
            assert sentence.endswith("."), sentence
        else:
            assert content["parts"], "a tab with nothing in it should say why"
    missing = TABS[name].missing(trace)
    assert not missing or _ask(trace, name).content["absent"] == missing


def test_tables_carry_the_numbers_of_the_analyses(trace: Trace) -> None:
    (part, steps), (_, parts) = _tables(_ask(trace, "steps"))
    expected = analysis.step_trace(trace)
    for column in ("step", "total_ns", "gap_ns", "fp_bp_ns", "tail_ns", "data_ns"):
        np.testing.assert_array_equal(steps[column], expected[column])
    assert part["select"] == [{"step": [int(number)]} for number in expected["step"]]
    np.testing.assert_array_equal(parts["kernel_ns"], analysis.step_breakdown(trace)["kernel_ns"])
    gaps = _tables(_ask(trace, "device"))[-1][1]["dur"].tolist()
    assert gaps == sorted(analysis.device_idle(trace)["dur"].tolist(), reverse=True)[: len(gaps)]
    operators = _tables(_ask(trace, "memory"))[-1][1]
    np.testing.assert_array_equal(
        operators["allocated_bytes"], analysis.memory_operators(trace)["allocated_bytes"]
    )


@pytest.mark.parametrize(
    "selected",
    [{"step": [4, 5]}, {"window": (20_000_000, 90_000_001), "phase": "forward"}, {"name": "gemm"}],
    ids=str,
)
def test_a_number_of_a_table_is_what_its_code_gives(selected: dict[str, Any]) -> None:
    """`C` copies the call of the table, with the label of the row and the column."""
    profile, compared = Profile(drawn_training()), 0
    state = Selection(**selected).to_state()
    for name, tab in TABS.items():
        if tab.missing(profile.trace):
            continue
        answer = panel(ViewStore(profile.trace), state, {"name": name})
        arrays = answer.arrays()
        for number, part in enumerate(answer.content.get("parts", [])):
            if part["kind"] not in ("table", "tree") or not part["call"]:
                continue
            table = eval(part["call"], {"p": profile, "nbp": nbp})
            for key in (key for key, _, unit in part["heads"] if unit not in TEXTS):
                expected = table.loc[part["labels"] or range(part["size"]), key]
                shown = arrays[f"{number}.{key}"]
                np.testing.assert_array_equal(
                    shown, expected.to_numpy(float, na_value=np.nan), err_msg=part["call"]
                )
                compared += len(shown)
    assert compared > 500


def test_tabs_follow_the_selection_except_what_they_set_themselves(trace: Trace) -> None:
    chosen = Selection(step=[4, 6])
    assert _tables(_ask(trace, "steps", chosen))[0][1]["step"].tolist() == [4, 6]
    assert len(_tables(_ask(trace, "steps", chosen, own=["step"]))[0][1]) == len(trace.steps)
    start = int(trace.steps["ts"].iloc[2])
    half = Selection(window=(start, int(trace.span.end)))
    assert len(_tables(_ask(trace, "steps", half))[0][1]) == len(trace.steps) - 2
    assert "window" in _ask(trace, "steps").content["under"]
    assert followed(analysis.advice) == ("window",)


def test_the_evidence_of_advice_is_what_its_card_selects(trace: Trace) -> None:
    profile = Profile(trace)
    profile.selection.name = "aten::relu"  # must not narrow the evidence
    cards = _ask(trace, "advice").content["parts"][1]["cards"]
    table = analysis.advice(trace)
    assert [card["title"] for card in cards] == [rule.replace("-", " ") for rule in table["rule"]]
    assert len(cards) >= 3
    for card, rows in zip(cards, table["rows"], strict=True):
        if card["select"] is None:  # what has no slices has nothing to show
            assert not len(rows)
            continue
        profile.selection.apply_patch(card["select"])
        assert set(rows.tolist()) <= set(profile.selected.index), card["title"]
        if len(rows):
            assert profile.selection.focus == int(rows[0])


def test_units_come_from_names_and_missing_numbers_are_reported() -> None:
    frame = pd.DataFrame(
        {
            "name": ["a", None],
            "self_ns": [5, 7],
            "peak_bytes": pd.array([None, 4096], dtype="Int64"),
            "share": [0.5, np.nan],
            "calls": [1, 2],
            "ts": [0, 9],
            "gone": [np.nan, np.nan],
            "hidden": [1, 2],
        }
    )
    answer = packed(
        "x",
        Panel("X", (Table(frame, {"hidden": ""}, {"calls": "how often"}, [{"step": 1}, None]),)),
        name_styles(EMPTY),
    )
    ((part, table),) = _tables(answer)
    assert part["heads"] == [
        ["name", "name", "text"],
        ["self_ns", "self", "ns"],
        ["peak_bytes", "peak", "bytes"],
        ["share", "share", "share"],
        ["calls", "how often", "count"],
        ["ts", "at", "instant"],
    ]
    assert table["name"].tolist() == ["a", ""]
    assert np.isnan(table["peak_bytes"][0])
    assert table["peak_bytes"][1] == 4096
    assert part["select"] == [{"step": [1]}, None]


@pytest.mark.parametrize("name", ["kernels", "memory"])
def test_names_are_written_and_coloured_as_in_the_timeline(trace: Trace, name: str) -> None:
    store = ViewStore(trace)
    looks = zip(store.name_styles.labels, store.name_styles.codes, strict=True)
    look = dict(zip(store.columns.names, looks, strict=True))
    shown = 0
    for part in _ask(trace, name).content["parts"]:
        for key, written in part.get("names", {}).items():
            for whole, label, colour in zip(part["texts"][key], *written.values(), strict=True):
                assert (label, colour) == (look[whole][0], NAMES[look[whole][1]])
                shown += label != whole
    assert shown, "some label should be shorter than its name"


def test_long_tables_are_cut_and_say_how_long_they_were() -> None:
    frame = pd.DataFrame({"step": np.arange(5 * MOST_ROWS)})
    many = Panel("X", (Table(frame, select=[{"step": k} for k in range(5 * MOST_ROWS)]),))
    ((part, table),) = _tables(packed("x", many, name_styles(EMPTY)))
    assert (part["size"], part["rows"]) == (MOST_ROWS, 5 * MOST_ROWS)
    assert len(table) == len(part["select"]) == MOST_ROWS


def test_a_slow_tab_holds_up_no_other_question(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    go, began = threading.Event(), threading.Event()

    def slow(trace: Trace, state: Mapping[str, Any]) -> Panel:
        began.set()
        assert go.wait(60)
        return Panel("Slow", (Note("done"),))

    monkeypatch.setitem(TABS, "slow", Tab("Slow", slow))
    protocol = PageQueries(trace, Selection())
    assert protocol.answer({"t": "panel", "name": "slow", "seq": 3})[0]["pending"]
    assert began.wait(60)
    assert protocol.answer({"t": "table", "by": "name"})[0]["label"], "answered meanwhile"
    assert protocol.answer({"t": "panel", "name": "slow", "seq": 4})[0]["pending"]
    go.set()
    assert asked(protocol, t="panel", name="slow")[0]["title"] == "Slow"


def _unpacked(text: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    return content


def test_a_report_holds_the_tabs_of_the_whole_recording(trace: Trace) -> None:
    tabs = embedding.embedded(trace)
    assert set(tabs) == set(TABS)
    assert tabs["distributed"] == {"missing": TABS["distributed"].missing(trace)}
    steps = _unpacked(tabs["steps"]["data"])
    number = [part["kind"] for part in steps["content"]["parts"]].index("table")
    assert steps["data"][f"{number}.total_ns"] == analysis.step_trace(trace)["total_ns"].tolist()
    assert sum(len(one.get("data", "")) for one in tabs.values()) < 150_000


def test_a_picture_too_large_for_a_report_is_named(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "MOST_BYTES", 3000)
    monkeypatch.setattr(embedding, "TABS", {"device": TABS["device"]})
    parts = _unpacked(embedding.embedded(trace)["device"]["data"])["content"]["parts"]
    assert not [part for part in parts if part["kind"] == "picture"]
    (note,) = [part["text"] for part in parts if part["kind"] == "note"]
    assert "by its causes: too large for this file" in note


def test_one_tab_that_fails_does_not_cost_the_report(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(trace: Trace, state: Mapping[str, Any]) -> Panel:
        raise ZeroDivisionError("no time at all")

    monkeypatch.setattr(embedding, "TABS", {"steps": Tab("Steps", failing), "advice": TABS["advice"]})
    tabs = embedding.embedded(trace)
    assert "ZeroDivisionError: no time at all" in tabs["steps"]["missing"]
    assert "data" in tabs["advice"]


@pytest.mark.parametrize("name", [*PLOTS, *VIEWS])
@pytest.mark.parametrize(
    "picture", ["", "main: [mm ]", "steps: [0   ]\nmain: [load/data][mm/forward]\nstream 7: [k  ]  [l ]"]
)
def test_what_is_drawn_is_also_a_model_for_python(name: str, picture: str) -> None:
    profile = Profile(draw(picture) if picture else EMPTY)
    profile.selection.update(step=0, window=(0, 5))
    models = [getattr(profile.plot, name)() for _ in range(2)]
    assert models[0].id != models[1].id
    assert models[0].id in file_html(models[0], title=name)
    assert name in repr(profile.plot)


def test_names_of_strangers_are_text_in_the_documents_of_pictures() -> None:
    builder = TraceBuilder()
    main = builder.track("main")
    stream = builder.track(EVIL, "stream", device=0, stream=7)
    builder.slices(ts=[0, 10], dur=[10, 10], name=EVIL, track=main, phase=["data", "forward"], step=0)
    builder.slices(ts=[2, 12], dur=[2, 3], name=EVIL, track=stream, category="kernel", device=0, stream=7)
    builder.steps(step=[0], ts=[0], dur=[20], source="loop")
    sizes = {"bytes": [64, -64], "allocated": [64, 0], "reserved": 64}
    builder.allocations(ts=[0, 8], addr=[1, 1], device=0, track=main, **sizes)
    trace = builder.seal()
    for name in TABS:
        for part in _ask(trace, name).content.get("parts", ()):
            if part["kind"] == "picture":
                assert "{safe}" not in part["document"], "Bokeh inserts such a column as markup"
                assert not re.search(r'"type":"object","name":"CustomJS[^"]*"', part["document"]), name


def test_busy_and_idle_of_a_device_are_the_whole_of_what_is_named() -> None:
    trace = draw("stream 7: [gemm][gemm]    [copy]", categories={"copy": "memcpy"})
    made = TABS["device"].build(trace, {})
    assert isinstance(made, Panel)
    facts = next(part for part in made.parts if isinstance(part, Facts)).facts
    shares = {fact.label: float(fact.value.removesuffix(" %")) for fact in facts}
    table = analysis.device(trace).iloc[0]
    assert shares["busy"] == round(100 * table["busy_ns"] / table["window_ns"], 1)
    assert shares["busy"] + shares["idle"] == pytest.approx(100, abs=0.1)
    assert shares["kernels run"] < shares["busy"], "copies are no kernels"
    assert all("of " in fact.note for fact in facts if fact.label in ("busy", "idle", "kernels run"))
