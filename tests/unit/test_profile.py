"""Profile: the facade, text, display and saving."""

from __future__ import annotations

import inspect
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bokeh.embed import file_html

from notebook_prof import NotRecordedError, Profile, TraceBuilder, analysis, read_trace
from notebook_prof.analysis.verdict.claims import METHODS as METHOD_NAMES
from notebook_prof.errors import OptionError
from notebook_prof.profiles.namespace import Namespace
from notebook_prof.profiles.plot import VIEWS
from notebook_prof.service import answers
from notebook_prof.service.store import ViewStore
from notebook_prof.testing import draw

NOT_FRAMES = ("Claim", "Verdict", "verdict", "trust", "Overview", "overview", "WhatIf", "what_if")
METHODS = [name for name in analysis.__all__ if name not in NOT_FRAMES]


@pytest.fixture
def profile() -> Profile:
    return Profile(
        draw(
            """
            steps: [0                   ][1            ]
            main:  [net/forward   ][sgd/optimizer][mm   ]
            main:    [mm  ][add ]
            """,
            unit_ns=1000,
        )
    )


def called(profile, name):
    """The method of a Profile that an analysis is."""
    attribute = attrgetter(METHOD_NAMES.get(name, name))(profile)
    return attribute.__call__ if isinstance(attribute, Namespace) else attribute


@pytest.mark.parametrize("name", METHODS)
def test_every_analysis_is_a_method_and_cannot_differ(profile, name):
    function, bound = getattr(analysis, name), called(profile, name)
    method = bound.__func__
    assert inspect.unwrap(method, stop=lambda one: one is function) is function
    assert method.__doc__ == function.__doc__
    own, theirs = inspect.signature(method), inspect.signature(function)
    own = own.replace(parameters=[p for p in own.parameters.values() if p.name != "where"])
    assert list(own.parameters.values())[1:] == list(theirs.parameters.values())[1:]
    assert own.return_annotation == theirs.return_annotation
    assert "self" not in inspect.signature(bound).parameters
    needed = {"why": (5_000,), "sandwich": ("mm",)}
    own, theirs = bound(*needed.get(name, ())), function(profile.trace, *needed.get(name, ()))
    if name == "why":
        assert own.text == theirs.text
        own, theirs = own.pieces, theirs.pieces
    if name == "metrics":
        assert own == theirs
        return
    pd.testing.assert_frame_equal(own, theirs)


def test_methods_pass_their_arguments_on(profile):
    assert profile.operators(name="mm")["count"].tolist() == [2]
    assert profile.memory.live(5).empty
    with pytest.raises(TypeError, match="windw"):
        profile.operators(windw=(1, 2))


def test_selected_follows_the_selection(profile):
    assert len(profile.selected) == len(profile.trace.slices)
    profile.selection.update(name="mm", window=("3us", "9us"))
    selected = profile.selected
    assert selected["name"].tolist() == ["mm"]
    whole = profile.trace.slices.loc[selected.index[0]]
    cut = [max(whole["ts"], 3000), min(whole["ts"] + whole["dur"], 9000)]
    assert selected[["ts", "dur"]].values.tolist() == [[cut[0], cut[1] - cut[0]]]
    selected["dur"] = 0
    assert profile.selected["dur"].tolist() == [cut[1] - cut[0]]


def test_the_page_and_python_agree_on_what_is_selected(data):
    """``p.selected``, ``p.operators(where=p.selection)`` and the page's table sum to the same nanosecond."""
    profile = Profile(read_trace(data / "torch213_cpu/cnn_sgd.pt.trace.json.gz"))
    trace = profile.trace
    store, span = ViewStore(trace), trace.span
    third = (span.start + span.dur // 3, span.start + 2 * span.dur // 3)
    operators = trace.slices[trace.slices["category"] == "operator"]
    heavy = str(operators.groupby("name", observed=True)["self_ns"].sum().idxmax())
    step = {"step": trace.steps["step"].tolist()[1:3]}
    both = {"window": third} | step
    for chosen in ({"window": third}, step, both, {"phase": ["forward"]}, {"name": [heavy]}):
        profile.selection.clear()
        profile.selection.update(**chosen)
        table = profile.operators(where=profile.selection)
        shown = answers.table(store, profile.selection.to_state(), {}).content["self_ns"]
        assert table["self_ns"].sum() == profile.selected["self_ns"].sum() > 0, chosen
        assert shown == table["self_ns"].sum(), chosen


def test_the_verdict_selects_what_it_speaks_of(profile):
    assert profile.verdict is profile.verdict
    profile = Profile(draw("steps: [0           ]\nmain:  [next/data][mm]"))
    verdict = profile.verdict
    profile.selection.update(**verdict.select)
    assert 0 < len(profile.selected) < len(profile.trace.slices)


def test_repr_is_the_verdict_in_five_lines(profile):
    lines = repr(profile).splitlines()
    assert lines == list(profile.verdict.lines)
    assert len(lines) == 5


def test_nothing_recorded_says_so_and_why():
    b = TraceBuilder()
    b.report.add("collector-failed", "error", example="torch: no", advice="look")
    assert repr(Profile(b.seal())) == (
        "Nothing was recorded: the trace has no slices.\n✗ collector-failed: torch: no — look"
    )


def test_summary_is_a_table(profile):
    text = profile.summary(by="name", rows=2)
    assert repr(text) == text
    head, first, second, more = text.splitlines()
    assert head.split() == ["name", "calls", "self", "share", "total"]
    assert first.split()[0] == profile.operators()["name"].iloc[0]
    assert len(head) == len(first) == len(second)
    assert more == f"… and {len(profile.operators()) - 2} more"
    assert "forward" in profile.summary(by="phase")
    with pytest.raises(OptionError, match="'module'"):
        profile.summary(by="modul")


def test_summary_shows_device_time_where_there_is_some():
    profile = Profile(draw("main: [mm]\nstream 7:  [gemm]", launches=[("mm", "gemm")]))
    assert "device self" in profile.summary(by="name").splitlines()[0]


def test_saved_traces_open_again(profile, tmp_path: Path):
    for name in ("run.json", "run.json.gz"):
        profile.save(tmp_path / name)
        again = read_trace(tmp_path / name)
        assert set(again.slices["name"]) >= set(profile.trace.slices["name"])


def test_saving_needs_a_known_suffix(profile, tmp_path: Path):
    with pytest.raises(OptionError, match=r"'run.npz'.*\.json.*\.html"):
        profile.save(tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())


def test_the_report_is_one_file_that_asks_for_nothing(profile, tmp_path: Path):
    profile.save(tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert profile.verdict.sentence.split(":")[0] in text
    assert "<script src" not in text
    assert "<link" not in text


def test_front_ends_without_widgets_get_text_and_html(profile):
    bundle = profile._repr_mimebundle_()
    assert bundle["text/plain"] == repr(profile)
    assert "<table" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]


def test_display_goes_through_the_entry_point(profile, monkeypatch):
    shown = []

    class Entry:
        @staticmethod
        def load():
            return shown.append

    monkeypatch.setattr("notebook_prof.extensions.points", lambda group: {"widget": Entry} if group else {})
    profile._ipython_display_()
    assert shown == [profile]
    monkeypatch.setattr("notebook_prof.extensions.points", lambda group: {})
    with pytest.raises(NotImplementedError):  # IPython goes on to the bundle
        profile._ipython_display_()


def test_a_profile_that_has_not_recorded_says_so():
    class Later(Profile):
        def __init__(self):
            pass

        def __getattr__(self, name):
            raise NotRecordedError(f"{name} was asked too early")

    later = Later()
    for ask in (
        lambda: later.trace,
        lambda: later.operators(),
        lambda: later.verdict,
        lambda: later.selected,
    ):
        with pytest.raises(NotRecordedError):
            ask()
    Profile.__init__(later, draw("main: [mm ]"))
    assert later.operators()["name"].tolist() == ["mm"]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("picture", ["", "main: [mm ]", "steps: [0   ]\nmain: [mm/forward]\nstream 7: [k  ]"])
def test_each_view_is_a_bokeh_model_of_its_own(view, picture):
    profile = Profile(draw(picture))
    profile.selection.update(window=(0, 5), name="mm", step=0, phase="forward")
    models = [getattr(profile.plot, view)() for _ in range(2)]
    assert models[0].id != models[1].id
    assert models[0].id in file_html(models[0], title=view)
    assert view in repr(profile.plot)


def test_the_timeline_draws_a_bounded_number_of_slices():
    b = TraceBuilder()
    n = 10_000
    b.slices(ts=np.arange(n) * 10, dur=np.arange(n) % 7 + 1, name="mm", track=b.track("main"))
    plot = Profile(b.seal()).plot.timeline()
    assert plot.title.text == "the 4,000 longest of 10,000 slices"
    assert len(plot.renderers[0].data_source.data["name"]) == 4000


def test_single_views_follow_the_selection(profile):
    profile.selection.update(window=("2us", "9us"), name="mm")
    table = profile.plot.operators()
    assert list(table.source.data["name"]) == ["mm"]
    assert table.source.data["self"] == ["6 µs"]
    plot = profile.plot.timeline()
    assert (plot.x_range.start, plot.x_range.end) == (2000, 9000)
    faded = dict(zip(*(plot.renderers[0].data_source.data[c] for c in ("name", "alpha")), strict=True))
    assert faded["mm"] == 1
    assert faded["net"] < 1


def test_memory_view_keeps_its_peak_however_long_the_curve():
    b = TraceBuilder()
    n = 50_000
    level = np.arange(n) % 1000
    level[33_333] = 10**6
    b.allocations(ts=np.arange(n), addr=1, bytes=1, device=0, allocated=level, reserved=2 * 10**6)
    plot = Profile(b.seal()).plot.memory()
    heights = [np.max(r.data_source.data["y"]) for r in plot.renderers]
    assert max(heights[:1]) == 10**6
    assert plot.title.text == "peak 977 KiB on device 0"
    assert max(len(r.data_source.data["x"]) for r in plot.renderers) <= 4000
