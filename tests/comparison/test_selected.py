"""One selection over both sides: what each Profile's own filter selects, and differences that add up."""

from __future__ import annotations

import doctest
import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.comparison.comparison import Comparison, compare
from notebook_prof.comparison.run import TraceRun
from notebook_prof.errors import OptionError, SelectionError
from notebook_prof.selection import Selection
from notebook_prof.testing import draw
from notebook_prof.trace import Trace, TraceBuilder

A, B = "before = 1\nwork(x)\nold(x)\nafter(x)\n", "before = 1\nextra = 2\nwork(x)\nafter(x)\n"
ADDRESS = re.compile(r" object at 0x[0-9a-f]+")
LINES_A, LINES_B = {2: "work", 3: "old", 4: "after"}, {2: "extra", 3: "work", 4: "after"}


def step_loop(source: str, lines: dict[int, str], factor: int = 1, first: int = 1_000) -> Trace:
    """Six steps, in each a statement a line with an operator in it; where it stands is in its name."""
    builder = TraceBuilder()
    main, now = builder.track("main", tid=1), first
    spans = []
    for step in range(6):
        begin = now
        for number, word in lines.items():
            name = f"cell:{number}  {word}(x)"
            builder.slices(ts=now, dur=900 * factor, name=name, category="python", track=main)
            builder.slices(
                ts=now + 50, dur=(300 + step) * factor, name=f"op_{word}", category="operator", track=main,
                phase="forward",
            )  # fmt: skip
            now += 1_000 * factor
        spans.append((begin, now - begin))
    ts, dur = zip(*spans, strict=True)
    builder.steps(list(range(6)), ts, dur, "loop")
    builder.metadata["cell_source"] = source
    return builder.seal()


@pytest.fixture(scope="module")
def drawn() -> Comparison:
    return compare(step_loop(A, LINES_A), step_loop(B, LINES_B, 2, first=70_000))


@pytest.fixture(scope="module")
def recorded(data: Path) -> Comparison:
    folder = data / "torch213_cpu"
    return compare(*(folder / f"{name}.pt.trace.json.gz" for name in ("cnn_sgd", "cnn_adam")))


def names_in(trace: Trace, selection: Selection) -> set[str]:
    return set(map(str, trace.slices.loc[selection.mask(trace.slices), "name"]))


def traces(c: Comparison) -> tuple[Trace, Trace]:
    runs = c._a.runs[0], c._b.runs[0]
    assert isinstance(runs[0], TraceRun)
    assert isinstance(runs[1], TraceRun)
    return runs[0].trace, runs[1].trace


def test_a_name_selects_what_each_side_calls_so(drawn: Comparison) -> None:
    drawn.select(name="work(x)")
    a, b = traces(drawn)
    assert names_in(a, drawn.selection.a) == {"cell:2  work(x)"}
    assert names_in(b, drawn.selection.b) == {"cell:3  work(x)"}
    drawn.select(name="op_old")
    assert names_in(a, drawn.selection.a) == {"op_old"}
    assert names_in(b, drawn.selection.b) == set(), "b has nothing of that name"


def test_a_line_selects_the_line_that_it_became(drawn: Comparison) -> None:
    a, b = traces(drawn)
    expected = {
        "cell:2": ({"op_work"}, {"op_work"}),
        "cell:3": ({"op_old"}, set()),
        "cell:4": ({"op_after"}, {"op_after"}),
        "cell:2 of b": (set(), {"op_extra"}),
    }
    labels = set(drawn.attribution("line")["line"])
    assert set(expected) <= labels, "these are the comparison's own rows"
    for label, (of_a, of_b) in expected.items():
        drawn.select(line=label, category="operator")
        assert names_in(a, drawn.selection.a) == of_a, label
        assert names_in(b, drawn.selection.b) == of_b, label


def test_a_selected_window_lies_as_far_from_the_start_of_each_aligned_step(drawn: Comparison) -> None:
    drawn.align(a=1, b=4)
    selection = drawn.selection
    selection.clear()
    ts_a, ts_b = (one.ts for one in drawn.aligned)
    selection.a.apply_patch({"focus": 3}, "page")
    drawn.select(window=(100, 700))
    assert selection.a.window == (ts_a + 100, ts_a + 700)
    assert selection.b.window == (ts_b + 100, ts_b + 700)
    assert (selection.a.focus, selection.b.focus, selection.focus) == (3, None, None)
    drawn.align(a=2)
    assert drawn.aligned[1].step == 4, "a side that is left out keeps its step"
    assert selection.a.window == (drawn.aligned[0].ts + 100, drawn.aligned[0].ts + 700)
    state = selection.to_state()
    assert state["a"]["window"] == list(selection.a.window)
    selection.clear()
    assert selection.a.window is None
    assert names_in(traces(drawn)[0], selection.a) == names_in(traces(drawn)[0], Selection())


def test_tables_are_what_each_profile_selects_itself(recorded: Comparison) -> None:
    """Of the aligned step: through `operators` of the recording, and through its rows of slices."""
    a, b = traces(recorded)
    keys = recorded.operators.loc[recorded.operators["phase"] == "forward", "name"].head(12)
    for name in keys:
        if name == "outside of what was recorded":
            continue
        shown = recorded.select(name=name, phase="forward")
        for trace, table, selection, at in zip(
            (a, b), (shown.a, shown.b), (recorded.selection.a, recorded.selection.b), recorded.aligned,
            strict=True,
        ):  # fmt: skip
            raw = [one for one in trace.slices["name"].cat.categories if ADDRESS.sub("", one) == name]
            own = nbp.Profile(trace).operators(name=raw, phase="forward", step=at.step)
            assert table["time_ns"].sum() == own["self_ns"].sum(), name
            assert table["count"].sum() == own["count"].sum(), name
            assert selection.mask(trace.slices).any() == bool(
                (trace.slices["name"].isin(raw) & trace.slices["phase"].eq("forward")).any()
            )
        delta = shown.delta
        assert delta["delta_ns"].sum() == shown.delta_ns == delta["b_ns"].sum() - delta["a_ns"].sum()
        assert (np.diff(delta["delta_ns"].abs()) <= 0).all()


def test_windows_that_divide_the_step_add_up_to_it(recorded: Comparison) -> None:
    """Self times are cut at the edges of a window, so parts of a step sum to the whole, on both sides."""
    whole_ns = min(one.dur_ns for one in recorded.aligned)
    whole = recorded.select(window=(0, whole_ns))
    edges = [0, 1_000_003, 7_777_777, whole_ns // 2, whole_ns]
    parts = [recorded.select(window=pair) for pair in itertools.pairwise(edges)]
    assert sum(part.delta_ns for part in parts) == whole.delta_ns
    for side in ("a", "b"):
        summed = pd.concat([getattr(part, side) for part in parts]).groupby(["name", "on"])["time_ns"].sum()
        own = getattr(whole, side).set_index(["name", "on"])["time_ns"]
        pd.testing.assert_series_equal(summed.sort_index(), own.sort_index())
    assert whole.delta_ns == sum(part.delta["delta_ns"].sum() for part in parts)


def test_the_other_way_round_every_difference_is_the_opposite(data: Path, recorded: Comparison) -> None:
    folder = data / "torch213_cpu"
    back = nbp.compare(*(folder / f"{name}.pt.trace.json.gz" for name in ("cnn_adam", "cnn_sgd")))
    key = ["name", "on"]
    forth = recorded.select(phase="optimizer").delta.set_index(key)
    other = back.select(phase="optimizer").delta.set_index(key).loc[forth.index]
    assert len(forth) > 3
    assert (forth["delta_ns"] + other["delta_ns"] == 0).all()
    assert (forth["a_ns"] == other["b_ns"]).all()


def test_steps_nearest_to_the_medians_are_aligned_first(recorded: Comparison) -> None:
    for name, at in zip(recorded.names, recorded.aligned, strict=True):
        used = recorded.steps[(recorded.steps["side"] == name) & recorded.steps["used"]]
        far = (used["dur_ns"] - used["dur_ns"].median()).abs()
        assert abs(at.dur_ns - used["dur_ns"].median()) == far.min()
        assert at.ts == used.loc[used["step"] == at.step, "ts"].iloc[0]


def test_what_cannot_be_selected_or_aligned_is_refused_in_words(drawn: Comparison) -> None:
    with pytest.raises(SelectionError, match=r"a comparison cannot select by 'lines'.*line"):
        drawn.select(lines="cell:2")
    with pytest.raises(SelectionError, match="track belongs to one recording; both sides share window"):
        drawn.selection.track = 1
    assert drawn.selection.revision == (before := drawn.selection.revision)
    with pytest.raises(OptionError, match="b has no step 77: there are 0, 1, 2"):
        drawn.align(b=77)
    assert drawn.selection.revision == before
    whole = nbp.compare(draw("main: [mm   ]"), draw("main: [mm ]"))
    assert whole.aligned[0].step == -1
    assert whole.select(name="mm").delta["delta_ns"].tolist() == [-2]


def test_the_guide_does_what_it_says() -> None:
    text = (Path(__file__).parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
    worked = doctest.DocTestParser().get_doctest(text, {}, "docs/compare.md", "docs/compare.md", 0)
    assert len(worked.examples) == 5
    assert doctest.DocTestRunner().run(worked).failed == 0
