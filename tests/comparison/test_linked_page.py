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
from notebook_prof.comparison.page.queries import (
    ComparisonProtocol,
    can_be_shown,
    compared,
    comparison_report,
    flame_picture,
    page_document,
    stacks_of_both,
)
from notebook_prof.comparison.parts import name_key
from notebook_prof.comparison.run import TraceRun, summary_of
from notebook_prof.labels import merged_name
from notebook_prof.testing import draw

from ..asking import asked
from ..browser.drawn import drawn_profile
from ..draws import draws
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
    changes = table.dropna(subset="line").set_index("line")["change"].to_dict()
    assert changes == {"cell:2 of b": "new", "cell:2": "same", "cell:3": "gone", "cell:4": "same"}
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
    assert page.select({"track": [1]}, "x", None)["failed"].startswith("track belongs to one recording")


def test_what_a_slice_corresponds_to_is_what_each_profile_sums(recorded: Comparison) -> None:
    """Calls and totals of both steps; slices are matched by their order where both sides have as many."""
    on_devices = drawn_profile(gpu=True)
    for c, device in ((recorded, False), (compare(on_devices, on_devices), True)):
        page = ComparisonProtocol(c)
        tables = [own.kernels if device else own.operators for own in c.shown]
        names = [{name_key(name) for name in table()["name"]} - {"ProfilerStep*"} for table in tables]
        words = c.selection.counterparts
        keys = sorted(names[0] & names[1])
        assert len(keys) >= (1 if device else 30)
        for key in keys[: draws(40)]:
            slices = []
            for number, (side, at) in enumerate(zip(("a", "b"), c.aligned, strict=True)):
                raw = list(words.of_side(number, "name", [key]))
                question = {"t": "calls", "of": side, "names": raw, "step": at.step, "device": device}
                answer = asked(page, **question, place=0)[0]
                own = tables[number](step=at.step)
                own = own[own["name"].isin([merged_name(name) for name in raw])]
                self_ns = own["total_ns" if device else "self_ns"].sum()
                assert answer["count"] == own["count"].sum(), key
                assert (answer["total_ns"], answer["self_ns"]) == (own["total_ns"].sum(), self_ns), key
                rows = c.shown[number].trace.slices
                assert answer["slices"] >= answer["count"]
                if answer["slice"]:
                    row = answer["slice"]["id"]
                    assert rows.loc[row, "name"] in raw
                    assert asked(page, **question, id=row)[0]["place"] == 0
                slices.append(answer["slice"])
            same = c.select(name=key).delta
            counts = same.loc[same["on"] == ("device" if device else "host"), ["a_count", "b_count"]].sum()
            assert counts.astype(bool).tolist() == [one is not None for one in slices], key


def test_another_run_is_shown_with_its_steps_and_words() -> None:
    """Its number is that of Python; what was selected on both sides stays, what was of a run alone not."""
    runs = [step_loop(A, LINES_A), step_loop(A, LINES_A, 3)]
    c = compare(runs, [step_loop(B, LINES_B, 2, first=70_000)] * 2)
    page = ComparisonProtocol(c)
    settings = page.settings()
    assert settings["delta"] == c.delta_words == "Δ a step"
    assert settings["shown"] == [at.run for at in c.aligned] == c.selection.to_state()["runs"]
    for number, name in enumerate(("a", "b")):
        table = c.steps[(c.steps["side"] == name) & c.steps["used"]].set_index(["run", "step"])
        medians = table.groupby("run")["dur_ns"].median()
        for run, step, dur in settings["runs"][name]:
            assert table.loc[(run, step), "dur_ns"] == dur
            assert abs(dur - medians[run]) == (table.loc[run]["dur_ns"] - medians[run]).abs().min()
        assert [run for run, _, _ in settings["runs"][name]] == [0, 1], number
    c.align(a=(0, 2))
    own = {"t": "own", "of": "a", "patch": {"focus": 3, "pinned": [0]}, "origin": "timeline"}
    page.answer(own)
    page.select({"name": ["work(x)"]}, "difference", None)
    state = page.answer({"t": "align", "a": [1, 4], "b": 1})[0]["state"]
    assert state["runs"] == [1, c.aligned[1].run]
    assert (c.aligned[0].run, c.aligned[0].step, c.aligned[1].step) == (1, 4, 1)
    assert state["a"]["name"] == ["cell:2  work(x)"]
    assert (state["a"]["focus"], state["a"]["pinned"]) == (None, None)
    shown = page.answer({"t": "shown"})[0]
    assert shown["settings"]["shown"] == state["runs"]
    steps = c.steps[(c.steps["side"] == "a") & (c.steps["run"] == 1)].sort_values("ts")
    assert shown["settings"]["steps"]["a"] == steps[["step", "ts", "dur_ns"]].to_numpy().tolist()
    spans = [page.answer({"t": "meta", "of": "a", "run": run})[0]["span"][1] for run in (0, 1)]
    assert spans == [trace.span.end for trace in runs]
    assert page.answer({"t": "meta", "of": "a"})[0]["span"][1] == spans[1]
    assert (
        c.selected.a["time_ns"].sum() == c.shown[0].operators(name="cell:2  work(x)", step=4)["self_ns"].sum()
    )


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
