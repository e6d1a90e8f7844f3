"""The report of many ranks: linked figures, timelines in the file, and no stranger's text that runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import notebook_prof as nbp
from notebook_prof import Selection
from notebook_prof.ranks.profiles import Ranks
from notebook_prof.views.page_queries import PageQueries

from ..ranks.strange import write_strange
from .conftest import SIZE
from .jupyter_page import Browser

PAGE = "document.getElementById('nbp-report').nbpRanks"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    return nbp.read_ranks(write_strange(tmp_path_factory.mktemp("strange")), progress=False)


@pytest.fixture(scope="module")
def file(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report, with two timelines in it."""
    path = tmp_path_factory.mktemp("ranks") / "ranks.html"
    ranks.to_html(path, timelines=[1, 4])
    return path


@pytest.fixture
def report(browser: Browser, file: Path) -> Iterator[Browser]:
    browser.blank()
    browser.page.bring_to_front()
    browser.page.set_viewport_size(SIZE)
    browser.page.goto(file.as_uri())
    browser.page.wait_for_function(f"() => {PAGE}?.draws > 0")
    yield browser
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.page.goto("about:blank")


def page_point(report: Browser, panel: str, x: float, y: float) -> list[float]:
    """Where on the page a point of a figure is, when the page has come to rest."""
    ask = f"([p, x, y]) => {PAGE}.panels[p].place(x, y)"
    before: list[float] = []
    while (point := report.page.evaluate(ask, [panel, x, y])) != before:
        before = point
        report.page.wait_for_timeout(100)  # between two looks
    return before


def test_a_click_selects_a_group_and_nothing_strange_runs(report: Browser) -> None:
    """Figures stay as they are, and the page says so."""
    page = report.page
    labels = page.evaluate(f"() => {PAGE}.panels.talk.drawn().labels")
    at = labels.index("send · 1")
    page.mouse.click(*page_point(report, "talk", 1_000, at))
    page.wait_for_function(f"() => {PAGE}.store.get().group?.join() === '1'")
    assert page.evaluate(f"() => {PAGE}.store.get().rank") == [0, 1, 2, 3]
    assert "figures and table stay as they are" in page.locator(".nbp-rank-bar .nbp-hint").inner_text()
    assert page.locator(".nbp-rank-title strong", has_text="process group 1").count() == 0
    assert page.locator(".nbp-chip[data-dimension=group]").inner_text().startswith("process group 1")
    page.locator(".nbp-chip[data-dimension=group] button").click()
    page.locator(".nbp-chip[data-dimension=rank] button").click()
    for panel in ("late", "talk"):
        for y in range(3):
            page.mouse.move(*page_point(report, panel, y, y))
    page.locator("tr[data-rank='4']").click()
    page.wait_for_function(f"() => {PAGE}.store.get().rank?.join() === '4'")
    page.locator("tr[data-rank='4']").dblclick()
    page.wait_for_function(f"() => {PAGE}.timeline?.counts.timeline && {PAGE}.timeline.counts.table")
    assert page.evaluate("() => window.hacked") is None
    assert page.locator("img").count() == 0
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content") or ""
    assert "default-src 'none'" in policy
    assert "'sha256-" in policy
    assert "unsafe" not in next(part for part in policy.split(";") if "script-src" in part)


def test_timelines_in_the_file_are_opened_and_others_are_reported(report: Browser, ranks: Ranks) -> None:
    page, button = report.page, report.page.locator(".nbp-rank-bar > button")
    sentence = "This file has the timelines of ranks 1, 4: those asked for."
    assert page.locator(".nbp-notice").inner_text().startswith(sentence)
    page.locator("tr[data-rank='2']").dblclick()
    page.wait_for_function("() => document.querySelector('.nbp-trouble').textContent.includes('rank 2')")
    page.evaluate(f"() => {PAGE}.store.set({{rank: [2]}}, 'test')")
    assert button.is_disabled()
    page.evaluate(f"() => {PAGE}.store.set({{rank: [2, 4]}}, 'test')")
    assert button.inner_text() == "Open the timeline of rank 4"
    page.locator("tr[data-rank='4']").dblclick()
    page.wait_for_function(f"() => {PAGE}.timeline?.counts.timeline && {PAGE}.timeline.counts.table")
    assert page.evaluate(f"() => {PAGE}.store.get().rank") == [4]
    names = page.locator(".nbp-timeline").inner_text()
    assert "rank 4" in names
    assert "rank 1" not in names
    assert page.evaluate(f"() => {PAGE}.timeline.meta.hidden") == [1]
    page.evaluate(f"() => {PAGE}.store.set({{rank: [1, 4]}}, 'test')")
    button.click()
    page.wait_for_function(f"() => {PAGE}.timeline?.meta.hidden.length === 0 && {PAGE}.timeline.counts.table")
    # the stack is that of the kernel
    ours, _ = PageQueries(ranks.timeline([1, 4]).trace, Selection()).answer({"t": "meta"})
    assert page.evaluate(f"() => {PAGE}.timeline.meta.span") == ours["span"]
    assert page.evaluate(f"() => {PAGE}.timeline.meta.tracks") == ours["tracks"]
