"""The rail of tabs: asked for when looked at, joined to the selection, by keyboard too, safe, in a report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.trace import TraceBuilder

from .drawn import drawn_profile
from .drawn_gpu import drawn_training
from .jupyter_page import Browser, NotebookPage

SHOWN = "v.panels.snapshot().state === 'shown' && v.panels.snapshot().title === {title!r}"
ROWS = ".nbp-tab tbody tr"


@pytest.fixture
def tabs(shown: NotebookPage) -> Iterator[NotebookPage]:
    """The notebook, with the operator table open before and after."""
    shown.views("v.panels.show('operators')")
    yield shown
    shown.views("v.panels.show('operators')")
    shown.kernel("p.selection.clear()")


def _open(page: NotebookPage, name: str, title: str) -> None:
    page.page.locator(f".nbp-rail [data-tab={name}]").click()
    page.wait_views(SHOWN.format(title=title))


def test_nothing_is_asked_until_a_tab_is_looked_at(tabs: NotebookPage) -> None:
    before = tabs.views("v.panels.snapshot().asked")
    tabs.kernel("p.selection.name = 'aten::relu'")
    tabs.wait_views("v.store.get().name !== null")
    assert tabs.views("v.panels.snapshot().asked") == before, "the table is open, the tabs are not"
    assert tabs.page.evaluate("() => window.Bokeh.documents.length") == 1
    _open(tabs, "steps", "Steps")
    assert tabs.views("v.panels.snapshot().asked") == before + 1
    assert tabs.page.evaluate("() => window.Bokeh.documents.length") == 3, "two pictures"
    assert tabs.page.locator(".nbp-timeline").bounding_box() is not None
    tabs.views("v.panels.show('operators')")
    assert tabs.page.evaluate("() => window.Bokeh.documents.length") == 1, "and gone with the tab"


def test_a_card_selects_its_evidence_in_python_and_in_the_views(tabs: NotebookPage) -> None:
    _open(tabs, "advice", "Advice")
    card = tabs.page.locator(".nbp-card").first
    card.click()
    tabs.wait_views("v.store.get().category?.[0] === 'sync' && v.timeline.snapshot().filtered")
    tabs.wait_kernel("print(p.selection.category, len(p.selected), p.selection.focus in p.selected.index)",
                     "('sync',) 10 True")  # fmt: skip
    tabs.page.locator(".nbp-card[aria-selected=true]").wait_for()
    assert card.get_attribute("aria-selected") == "true"
    card.click()
    tabs.wait_views("v.store.isEmpty() && !v.timeline.snapshot().filtered")
    tabs.wait_kernel("print(p.selection.describe())", "everything")


def test_rows_and_bars_select_steps_and_the_tab_follows_the_others(tabs: NotebookPage) -> None:
    _open(tabs, "steps", "Steps")
    asked = tabs.views("v.panels.snapshot().asked")
    tabs.page.locator(ROWS).nth(2).click()
    tabs.wait_kernel("print(p.selection.step)", "(5,)")
    assert tabs.page.locator(ROWS).count() == 20, "what it set itself does not filter it"
    assert tabs.views("v.panels.snapshot().asked") == asked
    tabs.views("void (document.querySelector('.nbp-tab-body').scrollTop = 0)")
    x, y = tabs.wait_place("v.panels.locate(0, 4)")
    tabs.page.mouse.move(x, y)
    tabs.page.locator(".nbp-tooltip:not([hidden])", has_text="step 7").wait_for()
    tabs.page.mouse.click(x, y)
    tabs.wait_kernel("print(p.selection.step)", "(7,)")
    tabs.kernel("p.selection.step = [4, 6]")
    tabs.page.wait_for_function(f"() => document.querySelectorAll('{ROWS}').length === 4")
    tabs.wait_views("v.panels.snapshot().scope === 'of the selected step'")
    tabs.kernel("p.selection.update(step=None, name='aten::relu')")
    tabs.page.wait_for_function(f"() => document.querySelectorAll('{ROWS}').length === 20")
    tabs.wait_views("v.panels.snapshot().scope === 'whatever the selected name'")


def test_a_click_on_a_head_sorts(tabs: NotebookPage) -> None:
    _open(tabs, "steps", "Steps")
    cells = ".nbp-part-table:first-of-type tbody tr td:first-child"
    first = tabs.page.locator(".nbp-part-table").first
    given = first.locator("tbody tr td:first-child").all_inner_texts()
    head = first.locator("th button", has_text="total")
    head.click()
    first.locator("tbody tr:first-child td:nth-child(2)", has_text="21.9 ms").wait_for()
    totals = first.locator("tbody tr td:nth-child(2)").all_inner_texts()
    assert totals[0] == "21.9 ms"
    assert totals[-1] == "19.1 ms"
    assert first.locator("th[aria-sort=descending]").count() == 1
    head.click()
    assert first.locator("tbody tr td:nth-child(2)").first.inner_text() == "19.1 ms"
    head.click()
    assert first.locator("tbody tr td:first-child").all_inner_texts() == given, cells


def test_the_rail_is_walked_by_keyboard(tabs: NotebookPage) -> None:
    page = tabs.page
    page.locator(".nbp-rail [aria-selected=true]").focus()
    active = "() => document.activeElement.dataset.tab"
    page.keyboard.press("ArrowUp")
    assert page.evaluate(active) == "overview"
    assert tabs.views("v.panels.snapshot().open") == "operators", "walking computes nothing"
    page.keyboard.press("End")
    assert page.evaluate(active) == "advice"
    page.keyboard.press("Enter")
    tabs.wait_views(SHOWN.format(title="Advice"))
    assert page.locator(".nbp-rail [tabindex='0']").count() == 1
    panel = page.locator(".nbp-tab[role=tabpanel]")
    assert panel.get_attribute("aria-labelledby") == page.locator("[data-tab=advice]").get_attribute("id")
    page.locator(".nbp-card").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    tabs.wait_views("v.store.get().category?.[0] === 'launch'")
    page.locator(".nbp-card[aria-selected=true]").wait_for()
    assert page.locator(".nbp-card").nth(1).get_attribute("aria-selected") == "true"
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "one sees where one is"


def test_a_tab_with_nothing_recorded_is_grey_and_says_why(tabs: NotebookPage) -> None:
    button = tabs.page.locator(".nbp-rail [data-tab=distributed]")
    asked = tabs.views("v.panels.snapshot().asked")
    assert "No communication was recorded" in (button.get_attribute("title") or "")
    button.click()
    tabs.wait_views("v.panels.snapshot().state === 'absent'")
    assert "No communication was recorded" in tabs.views("v.panels.snapshot().text")
    assert tabs.views("v.panels.snapshot().asked") == asked


def test_a_slow_tab_says_so_and_a_failing_one_may_be_tried_again(tabs: NotebookPage) -> None:
    tabs.kernel(
        "import threading\nfrom notebook_prof.views.tabs import TABS, Tab\n"
        "real, go, tries = TABS['steps'], threading.Event(), []\n"
        "def slow(trace, state):\n"
        "    tries.append(1)\n"
        "    if len(tries) == 1: raise ValueError('no luck')\n"
        "    go.wait(200)\n"
        "    return real.build(trace, state)\n"
        "TABS['steps'] = Tab('Steps', slow)\n"
        "p.selection.window = (0, 10**8)"
    )
    try:
        tabs.wait_views("v.store.get().window !== null")
        tabs.page.locator(".nbp-rail [data-tab=steps]").click()
        problem = tabs.page.locator(".nbp-tab .nbp-problem")
        problem.wait_for()
        assert "ValueError: no luck" in problem.inner_text()
        problem.locator("button").click()
        tabs.page.locator(".nbp-working").wait_for()
        tabs.views("v.setView(0, 1e7)")
        tabs.wait_views("v.range.end === 1e7")
        tabs.kernel("go.set()")
        tabs.wait_views(SHOWN.format(title="Steps"))
        tabs.wait_views("v.panels.snapshot().scope === 'of the selected time'")
    finally:
        tabs.kernel("go.set(); TABS['steps'] = real")


def test_wide_gives_the_tab_the_whole_width(tabs: NotebookPage) -> None:
    _open(tabs, "steps", "Steps")
    panel = tabs.page.locator(".nbp-tab")
    narrow = panel.bounding_box()
    tabs.page.locator(".nbp-widen").click()
    wide = panel.bounding_box()
    assert narrow
    assert wide
    assert wide["width"] > 1.3 * narrow["width"]
    tabs.page.locator(".nbp-widen").click()
    again = panel.bounding_box()
    assert again
    assert again["width"] == narrow["width"]


EVIL = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>{{7*7}}$$x^2$$\\(y\\)"


def _hostile() -> Profile:
    b = TraceBuilder()
    main = b.track(EVIL, pid=1, tid=1)
    stream = b.track(EVIL + "stream", "stream", device=0, stream=7)
    host = b.slices(
        ts=[0, 10**5, 6 * 10**5],
        dur=[4 * 10**5, 10**5, 3 * 10**5],
        name=[EVIL, EVIL + "inner", EVIL + "data"],
        track=main,
        shapes=EVIL,
        module=EVIL,
        phase=["forward", "forward", "data"],
        step=0,
    )
    work = b.slices(
        ts=[2 * 10**5, 5 * 10**5], dur=[10**5, 10**5], name=[EVIL + "kernel", EVIL + "all"],
        device=0, stream=7,
        category=["kernel", "collective"], track=stream,
    )  # fmt: skip
    b.flows("launch", host[:2], work)
    b.steps(step=[0], ts=[0], dur=[10**6], source="loop")
    b.allocations(ts=[10**5, 9 * 10**5], addr=[1, 1], bytes=[4096, -4096], device=0, track=main,
                  allocated=[4096, 0], reserved=[8192, 8192])  # fmt: skip
    return Profile(b.seal())


@pytest.fixture
def report(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """Opens the report of a Profile."""

    def opened(profile: Profile) -> Browser:
        profile.export.html(tmp_path / "report.html")
        browser.blank()
        browser.page.goto((tmp_path / "report.html").as_uri())
        browser.page.wait_for_function("() => document.querySelector('.nbp-host')?.nbp?.counts.table")
        return browser

    yield opened
    browser.page.goto("about:blank")


VIEW = "document.querySelector('.nbp-host').nbp"


def test_markup_in_names_stays_text_in_every_tab(report: Any) -> None:
    browser = report(_hostile())
    page = browser.page
    for tab in page.locator(".nbp-rail button").all():
        if (
            "nbp-missing" in (tab.get_attribute("class") or "")
            or tab.get_attribute("data-tab") == "operators"
        ):
            continue
        tab.click()
        page.wait_for_function(f"() => {VIEW}.panels.snapshot().state === 'shown'")
        for box in page.locator(".nbp-tab .nbp-picture").all()[:1]:
            place = box.bounding_box()
            assert place
            for share in (0.2, 0.5, 0.8):
                page.mouse.move(place["x"] + share * place["width"], place["y"] + share * place["height"])
    assert page.evaluate("() => window.hacked") is None
    assert page.locator(".nbp img, .nbp script").count() == 0
    assert browser.errors == []
    assert browser.elsewhere == [], "mathematics would be fetched"


def test_a_report_has_the_tabs_of_the_whole_recording(report: Any) -> None:
    profile = drawn_profile(gpu=True)
    browser = report(profile)
    page = browser.page
    page.locator(".nbp-rail [data-tab=steps]").click()
    page.wait_for_function(f"() => {VIEW}.panels.snapshot().state === 'shown'")
    assert page.locator(ROWS).count() == 20
    page.evaluate(f"() => {VIEW}.store.set({{phase: ['forward']}}, 'test')")
    page.wait_for_function(f"() => {VIEW}.panels.snapshot().scope.startsWith('of the whole recording')")
    page.locator(ROWS).nth(3).click()
    assert page.evaluate(f"() => {VIEW}.store.get().step") == [6]
    assert "nbp-missing" in (page.locator("[data-tab=distributed]").get_attribute("class") or "")
    assert browser.errors == []
    assert browser.elsewhere == []


IMAGES = Path(__file__).parents[2] / "docs" / "images"


@pytest.mark.skipif(not os.environ.get("NBP_UPDATE_IMAGES"), reason="only to take docs/images anew")
@pytest.mark.parametrize(("scheme", "suffix"), [("light", ""), ("dark", "-dark")])
def test_take_a_picture_of_each_tab(report: Any, scheme: Any, suffix: str) -> None:
    browser = report(Profile(drawn_training()))
    page = browser.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 1240, "height": 1300})
    settle = "() => new Promise(done => setTimeout(done, 500))"
    try:
        for tab in page.locator(".nbp-rail button").all():
            name = tab.get_attribute("data-tab")
            if suffix and name not in ("overview", "advice"):
                continue
            tab.click()
            page.wait_for_function(f"() => !['asked', 'failed'].includes({VIEW}.panels.snapshot().state)")
            page.mouse.move(2, 2)
            page.evaluate(settle)
            page.locator(".nbp-row").screenshot(path=IMAGES / f"tab-{name}{suffix}.png")
        page.locator(".nbp-card").nth(1).click()
        page.mouse.move(2, 2)
        page.evaluate(settle)
        page.locator(".nbp-host").screenshot(path=IMAGES / f"tab-evidence{suffix}.png")
    finally:
        page.emulate_media(color_scheme="light")
