"""The linked page of a comparison: what it shows stands in public tables, and both sides answer."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof import analysis
from notebook_prof.analysis.source.stack_nodes import working_threads
from notebook_prof.comparison.comparison import Comparison, compare
from notebook_prof.comparison.page.flame import flame_picture, stacks_of_both
from notebook_prof.comparison.page.panel import compared
from notebook_prof.comparison.page.queries import ComparisonProtocol, can_be_shown, page_document
from notebook_prof.comparison.page.report import comparison_report
from notebook_prof.comparison.parts import name_key
from notebook_prof.comparison.run import TraceRun, summary_of
from notebook_prof.testing import draw

from ..node import node
from .test_selected import LINES_A, LINES_B, A, B, step_loop


@pytest.fixture
def drawn() -> Comparison:
    return compare(step_loop(A, LINES_A), step_loop(B, LINES_B, 2, first=70_000), names=("old", "<new>"))


@pytest.fixture(scope="module")
def recorded(data: Path) -> Comparison:
    folder = data / "torch213_cpu"
    return compare(*(folder / f"{name}.pt.trace.json.gz" for name in ("cnn_sgd", "cnn_adam")))


def test_tables_of_the_page_are_those_of_the_comparison(drawn: Comparison, recorded: Comparison) -> None:
    for c in (drawn, recorded):
        answer = compared(c)
        part, columns = answer.content["parts"][0], answer.arrays()
        assert part["texts"]["name"] == c.operators["name"].tolist()
        for name in ("delta_ns", "a_ns", "b_ns"):
            assert columns[f"0.{name}"].tolist() == c.operators[name].tolist()
        pale = [text == "≈" for text in part["texts"]["change"]]
        assert pale == (c.operators["change"] == "same").tolist()
        assert sum(row["delta_ns"] for row in answer.content["phases"]) == c.delta_ns


def test_lines_of_the_source_add_up_to_the_difference(drawn: Comparison) -> None:
    rows = compared(drawn).content["source"]
    table = pd.DataFrame(rows)
    outside = drawn.lines.loc[drawn.lines["file"] == "", "delta_ns"].sum()
    assert table["delta_ns"].sum() + outside == drawn.delta_ns
    assert outside == 300, "between the statements"
    assert dict(zip(table["line"].dropna(), table.loc[table["line"].notna(), "change"], strict=True)) == {
        "cell:2 of b": "new",
        "cell:2": "same",
        "cell:3": "gone",
        "cell:4": "same",
    }
    for row in rows:
        if row["line"]:
            shown = drawn.select(line=row["line"])
            assert bool(len(shown.a)) == (row["a_line"] is not None), row
            assert bool(len(shown.b)) == (row["b_line"] is not None), row


def test_stacks_of_both_sides_hold_their_self_times(recorded: Comparison) -> None:
    """Roots sum to the self time of a mean step, and what the other side took is divided without a rest."""
    sides = stacks_of_both(recorded)
    for number, table in enumerate(sides):
        steps = recorded.counted_steps(number)
        trace = recorded.shown[number].trace
        by_thread = analysis.flame(trace, step=steps, track=working_threads(trace))
        own = by_thread.loc[by_thread["depth"] == 0, "total"].sum()
        roots = table.loc[table["depth"] == 0, "total"].sum()
        assert roots == pytest.approx(own / len(steps), rel=1e-9)
        other = sides[1 - number]
        both = set(table["path"]) & set(other["path"])
        assert len(both) > 100
        divided = table[table["path"].isin(both)].groupby("path")["other"].sum()
        whole = other[other["path"].isin(both)].groupby("path")["total"].sum()
        pd.testing.assert_series_equal(divided, whole, check_names=False, rtol=1e-9)
        assert table.loc[~table["path"].isin(both), "other"].isna().all()
    keys = [dict(zip(table["path"], map(name_key, table["name"]), strict=True)) for table in sides]
    assert all(keys[0][path] == keys[1][path] for path in set(keys[0]) & set(keys[1]))
    same = compare(recorded.shown[0], recorded.shown[0])
    _, b = stacks_of_both(same)
    assert np.allclose(b["other"], b["total"], rtol=1e-12)


@pytest.mark.parametrize("inner", ["", "\nmain:       [h]"])
def test_what_is_gone_is_summed_once(inner: str) -> None:
    """Also where no stack is two deep, as of a short cell that few samples saw: no node has a parent."""
    long, short = draw(f"main: [f   ][g   ]{inner}"), draw("main: [f   ]")
    picture, back = flame_picture(compare(long, short)), flame_picture(compare(short, long))
    assert picture is not None
    assert picture.title.endswith("gone: 6 ns")
    assert back is not None
    assert "gone" not in back.title


def test_the_page_asks_and_selects_through_each_side(drawn: Comparison) -> None:
    page = ComparisonProtocol(drawn)
    assert page.answer({"t": "meta", "of": "a"})[0]["steps"] == 6
    table = {"t": "table", "by": "name", "of": "b"}
    before = page.answer(table)[0]["count"]
    state = page.select({"name": ["work(x)"]}, "difference", None)["state"]
    assert state["a"]["name"] == ["cell:2  work(x)"]
    content, _ = page.answer(table)
    assert content["count"] == 6 < before
    assert content["revision"] == state["b"]["revision"] == drawn.selection.b.revision
    own = page.answer({"t": "own", "of": "b", "patch": {"track": [0]}, "origin": "tracks"})[0]
    assert own["state"]["track"] == [0]
    assert (drawn.selection.a.track, drawn.selection.track) == (None, None)
    moved = page.answer({"t": "align", "a": 0, "b": 5})[0]["state"]
    assert [one.step for one in drawn.aligned] == [0, 5]
    assert moved["starts"] == [one.ts for one in drawn.aligned]
    revisions: list[int] = []
    drawn.selection.watch(lambda selection, patch, source: revisions.append(selection.revision))
    drawn.align(a=3)
    assert revisions == [drawn.selection.revision], "pages hear of it"
    failed = page.answer({"t": "align", "a": 0, "b": 99})[0]["failed"]
    assert "<new> has no step 99 in run 0: there are 0, 1" in failed
    assert "no question 'nothing'" in page.answer({"t": "nothing"})[0]["failed"]
    assert page.select({"track": [1]}, "x", None)["failed"].startswith("track is of one recording")


def test_what_was_not_recorded_has_no_page(data: Path) -> None:
    trace = draw("main: [mm   ]")
    totals = summary_of(TraceRun(nbp.Profile(trace)))
    assert can_be_shown(compare(trace, trace))
    assert not can_be_shown(compare(trace, totals))
    empty = data / "torch213_cpu/empty.pt.trace.json.gz"
    assert not can_be_shown(compare(trace, empty))


def test_each_side_has_its_figures_and_no_data(recorded: Comparison) -> None:
    documents = page_document(recorded)
    assert [len(documents[side]["roots"]) for side in ("a", "b")] == [2, 1]
    assert len(json.dumps(documents)) < 80_000


def test_the_file_is_bounded_and_names_nothing_as_markup(drawn: Comparison) -> None:
    text = comparison_report(drawn)
    assert "<new>" not in text
    assert "\\u003cnew>" in text
    assert len(text) < 4_000_000
    assert math.isclose(drawn.delta_ns, drawn.operators["delta_ns"].sum())


def test_words_of_the_page_are_those_of_python(drawn: Comparison, tmp_path: Path) -> None:
    """The twin in js/src/compare/words.js gives every row's selection as Python does, on both sides."""
    states = []
    for label in drawn.attribution("line")["line"]:
        drawn.select(line=label, window=(-5, 90))
        states.append(drawn.selection.to_state())
    for name in drawn.operators["name"]:
        drawn.select(name=[name, "work(x)"])
        states.append(drawn.selection.to_state())
    words = {
        key: [{word: list(raws) for word, raws in side.items()} for side in sides]
        for key, sides in drawn.selection.counterparts.words.items()
    }
    script = tmp_path / "words.mjs"
    source = Path(__file__).parents[2] / "js/src/compare/words.js"
    script.write_text(
        f"import {{Counterparts}} from {json.dumps(source.as_uri())};\n"
        f"const words = new Counterparts({json.dumps(words)}), states = {json.dumps(states)};\n"
        "console.log(JSON.stringify(states.map((s) => [0, 1].map((i) => words.ofSide(s, i, s.starts[i])))));"
    )
    done = node("node", script)
    assert not done.returncode, done.stderr
    for state, sides in zip(states, json.loads(done.stdout), strict=True):
        for name, side in zip(("a", "b"), sides, strict=True):
            assert side == {key: state[name][key] for key in side}, state
