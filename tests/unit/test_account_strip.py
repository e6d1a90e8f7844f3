"""The account on top of the views, the lines and the links of the headline, without a browser."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof import analysis
from notebook_prof.analysis import Claim
from notebook_prof.selection import Selection
from notebook_prof.service.answers import account
from notebook_prof.service.answers.account import MOST_SPANS_DRAWN
from notebook_prof.service.headline import headline_pieces
from notebook_prof.service.store import ViewStore
from notebook_prof.testing import draw
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.dashboard import dashboard_settings, rail
from notebook_prof.views.page_queries import PageQueries
from notebook_prof.views.pictures.account import STRIP, has_strip
from notebook_prof.views.pictures.images import pixels
from notebook_prof.views.pictures.views import timeline
from notebook_prof.views.report.static_html import fragment
from notebook_prof.views.tab_answers import panel

from ..asking import asked
from ..browser.drawn_cell import MS, SOURCE, drawn_cell

EVERYTHING = Selection().to_state()


@pytest.fixture(scope="module")
def trace() -> Trace:
    return drawn_cell()


def test_the_strip_shows_every_part_and_every_nanosecond(trace: Trace) -> None:
    queries = PageQueries(trace, Selection())
    assert "pending" not in queries.answer({"t": "account"})[0], "of a short recording it is answered at once"
    content, data = asked(queries, t="account")
    table = analysis.account(trace)
    assert [part["part"] for part in content["parts"]] == table["part"].tolist()
    assert data["dur"].sum() == table["dur"].sum() == 1950 * MS
    np.testing.assert_array_equal(data["ts"][1:], (data["ts"] + data["dur"])[:-1], "without gaps")
    of_part = np.bincount(data["part"], weights=data["dur"])
    np.testing.assert_array_equal(of_part, table["dur"])
    np.testing.assert_array_equal(np.bincount(data["part"], weights=data["steps"]), table["steps"])
    assert len(data["ts"]) == 9, "twenty steps without a gap are one segment"
    assert content["parts"][0]["cpu_ns"] is None, "not recorded is not zero"


def test_very_many_segments_keep_their_shares_of_the_picture() -> None:
    n = 50_000
    table = pd.DataFrame(
        {
            "ts": np.arange(2 * n) * 10 + np.tile([0, -4], n),
            "dur": np.tile([6, 14], n),
            "kind": np.tile(["steps", "code"], n),
            "line": np.tile([2, 3], n),
            "text": "x",
            "loop": np.tile([0, -1], n),
            "steps": np.tile([1, 0], n),
        }
    )
    builder = TraceBuilder(metadata={"tables": {"account": table}})
    builder.slices(ts=0, dur=20 * n, name="main", track=builder.track("main"))
    answer = account(ViewStore(builder.seal()), EVERYTHING, {})
    assert answer.content["thinned"]
    data = answer.arrays()
    assert 100 < len(data["ts"]) <= MOST_SPANS_DRAWN
    shares = np.bincount(data["part"], weights=data["dur"]) / data["dur"].sum()
    np.testing.assert_allclose(shares, [0.3, 0.7], atol=0.01)
    assert sum(map(len, answer.buffers)) < 100_000
    assert [part["steps"] for part in answer.content["parts"]] == [n, 0]


def test_one_part_is_no_strip() -> None:
    store = ViewStore(draw("steps: [0 ][1 ]\nmain:  [mm ][a]", unit_ns=1000))
    assert len(account(store, EVERYTHING, {}).content["parts"]) == 1
    assert not has_strip(store)
    plain = timeline(store, Selection(), 900).height
    assert timeline(ViewStore(drawn_cell()), Selection(), 900).height >= plain + STRIP
    assert "account of" not in fragment(store.trace, Selection())


def test_static_forms_show_account_and_lines(trace: Trace) -> None:
    store = ViewStore(trace)
    assert has_strip(store)
    scene = timeline(store, Selection(), 1000)
    texts = [part.text for part in scene.parts if hasattr(part, "text")]
    assert "account of 1.95 s" in texts
    assert any(text.startswith("line 8 · 1.35 s") for text in texts)
    image = pixels(scene, 1)
    shown = {tuple(pixel) for pixel in image[4].tolist()}
    assert (0x77, 0xAA, 0xDD) in shown, "the loop's colour"
    html = fragment(trace, Selection())
    assert "20 steps of line 4: 320 ms, 16.4 %" in html
    assert html.index("acc = accuracy(model, test_set)</code>") < html.index("self share"), "lines come first"
    assert html.count("█") > 15
    assert "and 1 more line<" in html


def test_operators_are_open_first_where_there_are_steps_and_else_the_source(trace: Trace) -> None:
    """Timeline, operators, memory and phases are in sight first; the source is a cell's first tab."""
    for cell, first in ((trace, "operators"), (drawn_cell(steps=False), "source")):
        assert [tab["name"] for tab in rail(cell)][:4] == ["source", "overview", "operators", "lines"]
        assert dashboard_settings(cell, "")["open"] == first
    read = drawn_cell(text=False)
    assert [tab["name"] for tab in rail(read)][:3] == ["overview", "operators", "source"], "a file with steps"
    without = draw("main: [mm ]")
    assert dashboard_settings(without, "")["open"] == "operators"
    for name in ("source", "lines"):
        missing = next(tab for tab in rail(without) if tab["name"] == name)["missing"]
        assert "No lines were recorded" in missing


def test_the_lines_tab_carries_the_table_and_selects_slices(trace: Trace) -> None:
    answer = panel(ViewStore(trace), EVERYTHING, {"name": "lines"})
    json.dumps(answer.content, allow_nan=False)
    table, expected = answer.content["parts"][0], analysis.lines(trace)
    assert table["texts"]["text"] == expected["text"].tolist()
    np.testing.assert_array_equal(answer.arrays()["0.total_ns"], expected["total_ns"])
    assert (table["bars"], {k: u for k, _, u in table["heads"]}["text"]) == (["total_ns", "self_ns"], "code")
    assert "file" not in [key for key, _, _ in table["heads"]], "all of it is the cell"
    for patch, line in zip(table["select"], expected["line"], strict=True):
        chosen = trace.slices[Selection(**patch).mask(trace.slices)]
        assert set(chosen["line"]) == {f"cell:{line}"}, "all that ran for the line"
        assert f"cell:{line}  {SOURCE[line].strip()}" in set(chosen["name"])
    half = Selection(window=(0, 60 * MS)).to_state()
    assert panel(ViewStore(trace), half, {"name": "lines"}).content["parts"][0]["size"] == 1


def _claim(text: str, line: int, start: int, **select: Any) -> Claim:
    return Claim("account", "dur", text=text, value=1.0, select=select, line=line, start=start)


def test_a_headline_in_pieces_is_the_headline() -> None:
    text = "Half: 50 % of 50 %.\n\nSteps: 3."
    claims = [
        _claim("50 %", 0, 14, window=(0, 5)),
        _claim("50 %", 0, 6, step=2),
        _claim("3", 2, 7),
        _claim("nowhere", 2, 0, step=1),
        _claim("0 %.", 0, 16, step=1),
    ]
    pieces = headline_pieces(draw("main: [mm ]"), text, claims)
    assert ["".join(piece for piece, *_ in line) for line in pieces] == ["Half: 50 % of 50 %.", "Steps: 3."]
    assert [piece[:2] for line in pieces for piece in line if piece[1]] == [
        ("50 %", {"step": [2]}),
        ("50 %", {"window": [0, 5]}),
    ]
    json.dumps(pieces)


def test_claims_about_the_account_and_the_steps_select_them_too(trace: Trace) -> None:
    loop = {"kind": ("steps", "outside-window")}
    claims = [
        Claim("account", "dur", {"line": 8}, text="1", value=1350 * MS, start=0),
        Claim("account", "dur", loop, text="2", value=440 * MS, start=1),
        Claim("account", "dur", {}, text="3", value=1950 * MS, start=2),
        Claim("steps", "step", {}, text="4", value=20, reduce="count", start=3),
        Claim("steps", "step", {}, text="5", value=6, reduce="min", start=4),
    ]
    (line,) = headline_pieces(trace, "12345", claims)
    assert [piece[2] for piece in line][1] == (
        'p.account().loc[lambda t: t["kind"].isin(["steps", "outside-window"]), "dur"].sum()'
    )
    assert [piece[:2] for piece in line] == [
        ("1", {"window": [560 * MS, 1910 * MS]}),
        ("2", {"window": [60 * MS, 500 * MS]}),
        ("3", None),
        ("4", {"step": list(range(6, 26))}),
        ("5", {"step": [6]}),
    ]
