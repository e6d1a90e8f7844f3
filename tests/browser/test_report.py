"""The report: the same views without a kernel. What it answers is in ``tests/unit/test_page_twins.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.trace import TraceBuilder

from .drawn import drawn_profile
from .jupyter_page import Browser, settle


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """An open report of a training run."""
    drawn_profile(gpu=True).export.html(tmp_path / "report.html")
    browser.blank()
    browser.page.goto((tmp_path / "report.html").as_uri())
    browser.page.wait_for_function("() => document.querySelector('.nbp-host')?.nbp?.counts.table")
    yield browser.page
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.page.goto("about:blank")


def test_gestures_link_the_views(page: Any) -> None:
    page.locator("tr[data-name='aten::add_']").click()
    page.wait_for_function("() => document.querySelector('.nbp-host').nbp.timeline.snapshot().filtered")
    page.wait_for_function("() => document.querySelector('.nbp-host').nbp.phases.snapshot().filtered")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('.nbp-host').nbp.timeline.snapshot().filtered")
    settle(page)
    at = page.evaluate("() => document.querySelector('.nbp-host').nbp.timeline.locate('aten::conv2d')")
    page.mouse.click(at["x"], at["y"])
    page.wait_for_function("() => document.querySelector('.nbp-host').nbp.detail()?.name === 'aten::conv2d'")
    assert not page.locator("#nbp-static").is_visible()


def test_the_selection_is_kept(browser: Browser, tmp_path: Path) -> None:
    profile = drawn_profile()
    profile.selection.update(step=5, name="aten::relu")
    profile.save(tmp_path / "report.html")
    browser.page.goto((tmp_path / "report.html").as_uri())
    browser.page.wait_for_function("() => document.querySelector('.nbp-host')?.nbp?.counts.table")
    assert browser.page.locator(".nbp-chip").all_inner_texts() == ["aten::relu\n×", "step 5\n×"]


def test_a_profile_of_nothing_is_a_page_too(browser: Browser, tmp_path: Path) -> None:
    Profile(TraceBuilder().seal()).export.html(tmp_path / "nothing.html")
    browser.page.goto((tmp_path / "nothing.html").as_uri())
    assert "Nothing was recorded" in browser.page.locator("body").inner_text()
