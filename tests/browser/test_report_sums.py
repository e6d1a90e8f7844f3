"""A report of more slices than one file holds: the page says what is a sum, and what an estimate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.views.dashboard import AXIS_PX, LANE_PX
from notebook_prof.views.report import report

from ..many import KEPT, many_slices
from .jupyter_page import Browser


@pytest.fixture
def opened(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    """An open report that holds a part of its slices; no complaint may come."""
    monkeypatch.setattr(report, "MOST_SLICES", KEPT)
    Profile(many_slices()).export.html(tmp_path / "many.html")
    browser.blank()
    browser.page.set_viewport_size({"width": 1280, "height": 900})
    browser.page.goto((tmp_path / "many.html").as_uri())
    browser.page.wait_for_function(
        "() => document.querySelector('.nbp-host')?.nbp?.counts.table", timeout=30_000
    )
    yield browser
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.page.goto("about:blank")


def test_an_estimate_says_so(opened: Browser) -> None:
    page = opened.page
    page.evaluate("() => document.querySelector('.nbp-host').nbp.store.set({step: [1, 2]}, 'test')")
    page.wait_for_function("() => document.querySelector('.nbp-totals').textContent.startsWith('≈')")
    assert "≈ estimates" in page.locator(".nbp-table").inner_text()


@pytest.mark.parametrize("zoom", ["out", "in"])
def test_sums_are_seen_and_explained(opened: Browser, zoom: str) -> None:
    page = opened.page
    notice = page.locator(".nbp-notice").inner_text()
    assert "holds 8,000 of 33,600 slices one by one" in notice
    assert "how busy they keep every row" in notice
    if zoom == "in":
        page.evaluate("() => document.querySelector('.nbp-host').nbp.setView(4.0e7, 4.04e7)")
    page.wait_for_function(
        "() => { const v = document.querySelector('.nbp-host').nbp;"
        " return v.timeline.snapshot().mode === 'dense'; }"
    )
    page.evaluate("() => new Promise(done => setTimeout(done, 300))")
    box = page.locator(".nbp-timeline").bounding_box()
    assert box is not None
    place = page.evaluate("() => document.querySelector('.nbp-host').nbp.timeline.lanes.placeOfRow(2)")
    y = box["y"] + AXIS_PX + (place + 0.5) * LANE_PX
    tip = page.locator(".nbp-tooltip")
    for share in np.linspace(0.4, 0.6, 21):
        page.mouse.move(box["x"] + box["width"] * share, y)
        if tip.is_visible() and "longest: operator_" in tip.inner_text():
            break
    words = tip.inner_text()
    assert "slices in" in words
    assert "busy" in words
    assert ("this file holds them as a sum only" in words) == (zoom == "in")
