"""Profile: the facade, text, display and saving."""

from __future__ import annotations

import inspect
from operator import attrgetter

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Profile, TraceBuilder, analysis
from notebook_prof.analysis.verdict.claims import METHODS as METHOD_NAMES
from notebook_prof.errors import OptionError
from notebook_prof.profiles.namespace import Namespace
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


def test_the_verdict_selects_what_it_speaks_of(profile):
    assert profile.verdict is profile.verdict
    profile = Profile(draw("steps: [0           ]\nmain:  [next/data][mm]"))
    verdict = profile.verdict
    profile.selection.update(**verdict.select)
    assert 0 < len(profile.selected) < len(profile.trace.slices)


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
    step, peak = (renderer.data_source.data for renderer in plot.renderers[1:3])
    assert peak["tip1"] == ["977 KiB"]
    assert np.max(step["y"]) == peak["y"][0] == 10**6 / 2**20
    assert max(len(r.data_source.data["x"]) for r in plot.renderers) <= 4000
