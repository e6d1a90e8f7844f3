"""The critical path over the tracks, in a notebook and in a report: what is drawn, what is said."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from notebook_prof import Profile

from .dashboard import Dashboard, Report
from .drawn import drawn_profile
from .drawn_gpu import drawn_training
from .jupyter_page import NotebookPage

DRAWN = """(s => s && {tracks: [...new Set(s.track)], from: s.start[0], to: s.end.at(-1)})(
    v.timeline.path.segments)"""
BARS = "v.timeline.path.picture.bars.length"


def toggle(shown: Dashboard) -> None:
    """Press the button, and wait for what it shows or hides."""
    button = shown.part(".nbp-bar button", has_text="path")
    before = button.get_attribute("aria-pressed")
    button.click()
    shown.wait_views(f"(v.timeline.path.segments !== null) === {str(before == 'false').lower()}")
    assert button.get_attribute("aria-pressed") != before


def test_it_is_drawn_as_python_lists_it_and_goes_with_esc(shown: NotebookPage) -> None:
    shown.settle()
    plain = shown.timeline.screenshot()
    toggle(shown)
    shown.wait_views(f"{BARS} > 0")
    said, call = shown.detail.inner_text().split(" · in Python: ")
    assert said.startswith("Critical path, ")
    shown.kernel(f"c = {call}; k = c.groupby('class', observed=True)['dur_ns'].sum().sort_values()")
    share = shown.kernel("print(f'{k.iloc[-1] / k.sum():.1%}')").strip()
    assert f" {share.replace('%', ' %')}" in said
    tracks = shown.kernel("print(sorted(map(int, c['track'].dropna().unique())))").strip()
    window = shown.kernel("print(int(c['start_ns'].min()), int(c['end_ns'].max()))").split()
    drawn = shown.views(DRAWN)
    assert str(sorted(drawn["tracks"])) == tracks
    assert [drawn["from"], drawn["to"]] == [int(word) for word in window]
    assert shown.timeline.screenshot() != plain
    shown.page.keyboard.press("Escape")
    shown.wait_views("v.timeline.path.segments === null")
    assert "Click a slice" in shown.detail.inner_text()
    shown.page.keyboard.press("p")
    shown.wait_views(f"v.timeline.path.segments !== null && {BARS} > 0")
    shown.page.keyboard.press("p")
    shown.wait_views("v.timeline.path.segments === null")
    shown.page.mouse.move(5, 5)
    shown.settle()
    assert shown.timeline.screenshot() == plain


def test_why_draws_the_path_of_what_it_explains(shown: NotebookPage) -> None:
    toggle(shown)
    whole = shown.views(DRAWN)
    shown.page.mouse.click(*shown.slice("aten::conv2d", 2))
    shown.page.keyboard.press("y")
    call = shown.part(".nbp-why code").inner_text()
    explained = shown.views(DRAWN)
    assert shown.kernel(f"w = {call}; print(w.start_ns, w.end_ns)").split() == [
        str(explained["from"]),
        str(explained["to"]),
    ]
    shown.page.keyboard.press("Escape")
    shown.wait_views(f"v.timeline.path.segments.start[0] === {whole['from']}")
    assert shown.views(DRAWN) == whole
    toggle(shown)


def test_a_report_draws_it_without_a_kernel(report: Callable[..., Report]) -> None:
    shown = report(drawn_profile(gpu=True))
    toggle(shown)
    shown.wait_views(f"{BARS} > 0")
    assert "in Python: p.critical_path(window=(" in shown.detail.inner_text()
    toggle(shown)


@pytest.mark.skipif(not os.environ.get("NBP_UPDATE_IMAGES"), reason="only to take docs/images anew")
def test_take_a_picture(report: Callable[..., Report]) -> None:
    shown = report(Profile(drawn_training()))
    shown.page.set_viewport_size({"width": 1200, "height": 900})
    shown.views("v.setView(...v.meta.stepColumns.ts.slice(2, 4))")
    shown.settle()
    toggle(shown)
    shown.wait_views(f"{BARS} > 0")
    shown.page.mouse.move(2, 2)
    path = Path(__file__).parents[2] / "docs" / "images" / "critical-path.png"
    head, foot = shown.host.bounding_box(), shown.detail.bounding_box()
    assert head is not None
    assert foot is not None
    height = foot["y"] + foot["height"] - head["y"]
    shown.page.screenshot(path=path, clip={**head, "height": height})
