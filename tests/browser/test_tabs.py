"""The rail of tabs: asked for when looked at, joined to the selection, by keyboard too."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from notebook_prof import Profile

from .conftest import start_over
from .dashboard import Report
from .drawn_gpu import drawn_training
from .goldens import IMAGES, takes_pictures
from .jupyter_page import NotebookPage

ASKED = "v.panels.snapshot().asked"
DOCUMENTS = "() => window.Bokeh.documents.length"


def test_a_tab_is_asked_for_when_it_is_looked_at(shown: NotebookPage) -> None:
    """And gone with its pictures when it is left; one without a recording is grey and says why."""
    before = shown.views(ASKED)
    shown.kernel("p.selection.name = 'aten::relu'")
    shown.wait_views("v.store.get().name !== null")
    assert shown.views(ASKED) == before, "the table is open, the tabs are not"
    assert shown.page.evaluate(DOCUMENTS) == 1
    shown.open_tab("steps", "Steps")
    assert shown.views(ASKED) == before + 1
    assert shown.page.evaluate(DOCUMENTS) == 3, "two pictures"
    assert shown.timeline.bounding_box() is not None
    narrow = shown.tab.bounding_box()
    shown.widen.click()
    wide = shown.tab.bounding_box()
    assert narrow
    assert wide
    assert wide["width"] > 1.3 * narrow["width"]
    shown.widen.click()
    again = shown.tab.bounding_box()
    assert again
    assert again["width"] == narrow["width"]
    shown.views("v.panels.show('operators')")
    assert shown.page.evaluate(DOCUMENTS) == 1, "and gone with the tab"
    requests = shown.views(ASKED)
    assert "No communication was recorded" in (shown.not_recorded.get_attribute("title") or "")
    assert not shown.rail_of("distributed").is_visible()
    shown.not_recorded.click()
    assert "No communication was recorded" in (shown.rail_of("distributed").get_attribute("title") or "")
    shown.rail_of("distributed").click()
    shown.wait_views("v.panels.snapshot().state === 'absent'")
    assert "No communication was recorded" in shown.views("v.panels.snapshot().text")
    assert shown.views(ASKED) == requests


def test_a_card_selects_its_evidence(shown: NotebookPage) -> None:
    """In Python and in the views: by a click, and by keyboard from the rail on."""
    shown.open_tab("advice", "Advice")
    card = shown.cards.first
    card.click()
    shown.wait_views("v.store.get().category?.[0] === 'sync' && v.timeline.snapshot().filtered")
    shown.wait_kernel(
        "print(p.selection.category, len(p.selected), p.selection.focus in p.selected.index)",
        "('sync',) 10 True",
    )
    shown.part(".nbp-card[aria-selected=true]").wait_for()
    assert card.get_attribute("aria-selected") == "true"
    card.click()
    shown.wait_views("v.store.isEmpty() && !v.timeline.snapshot().filtered")
    shown.wait_kernel("print(p.selection.describe())", "everything")
    start_over(shown)
    page = shown.page
    shown.part(".nbp-rail [aria-selected=true]").focus()
    active = "() => document.activeElement.dataset.tab"
    page.keyboard.press("ArrowUp")
    assert page.evaluate(active) == "overview"
    assert shown.views("v.panels.snapshot().open") == "operators", "walking computes nothing"
    page.keyboard.press("End")
    assert page.evaluate(active) == shown.rail.all()[-1].get_attribute("data-tab")
    shown.rail_of("advice").focus()
    page.keyboard.press("Enter")
    shown.wait_tab("Advice")
    assert shown.part(".nbp-rail [tabindex='0']").count() == 1
    panel = shown.part(".nbp-tab[role=tabpanel]")
    assert panel.get_attribute("aria-labelledby") == shown.rail_of("advice").get_attribute("id")
    shown.cards.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    shown.wait_views("v.store.get().category?.[0] === 'launch'")
    shown.part(".nbp-card[aria-selected=true]").wait_for()
    assert shown.cards.nth(1).get_attribute("aria-selected") == "true"
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "one sees where one is"


def test_rows_and_bars_select_steps_and_the_tab_follows_the_others(shown: NotebookPage) -> None:
    """And a click on a head sorts: largest first, smallest first, as it was given."""
    shown.open_tab("steps", "Steps")
    requests = shown.views(ASKED)
    shown.tab_rows.nth(2).click()
    shown.wait_kernel("print(p.selection.step)", "(5,)")
    assert shown.tab_rows.count() == 20, "what it set itself does not filter it"
    assert shown.views(ASKED) == requests
    shown.views("void (document.querySelector('.nbp-tab-body').scrollTop = 0)")
    x, y = shown.wait_point("v.panels.locate(0, 4)")
    shown.page.mouse.move(x, y)
    shown.tooltip.filter(has_text="step 7").wait_for()
    shown.page.mouse.click(x, y)
    shown.wait_kernel("print(p.selection.step)", "(7,)")
    shown.kernel("p.selection.step = [4, 6]")
    shown.wait_tab_rows(4)
    shown.wait_views("v.panels.snapshot().scope === 'of the selected step'")
    shown.kernel("p.selection.update(step=None, name='aten::relu')")
    shown.wait_tab_rows(20)
    shown.wait_views("v.panels.snapshot().scope === 'all names'")
    shown.kernel("p.selection.clear()")
    shown.wait_views("v.store.isEmpty()")
    shown.settle()
    table = shown.tab_tables.first
    steps, totals = (table.locator(f"tbody tr td:nth-child({column})") for column in (1, 2))
    texts = steps.all_inner_texts()
    head = table.locator("th button", has_text="total")
    head.click()
    table.locator("tbody tr:first-child td:nth-child(2)", has_text="21.9 ms").wait_for()
    assert totals.all_inner_texts()[-1] == "19.1 ms"
    assert table.locator("th[aria-sort=descending]").count() == 1
    head.click()
    assert totals.first.inner_text() == "19.1 ms"
    head.click()
    assert steps.all_inner_texts() == texts


def test_a_slow_tab_says_so_and_a_failing_one_may_be_tried_again(shown: NotebookPage) -> None:
    shown.kernel(
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
        shown.wait_views("v.store.get().window !== null")
        shown.rail_of("steps").click()
        problem = shown.tab.locator(".nbp-problem")
        problem.wait_for()
        assert "ValueError: no luck" in problem.inner_text()
        problem.locator("button").click()
        shown.tab.filter(has_text=re.compile("working it out", re.IGNORECASE)).wait_for()
        shown.views("v.setView(0, 1e7)")
        shown.wait_views("v.range.end === 1e7")
        shown.kernel("go.set()")
        shown.wait_tab("Steps")
        shown.wait_views("v.panels.snapshot().scope === 'of the selected time'")
        shown.kernel("go.clear()")
        shown.views("void v.store.set({step: [4]}, 'test')")
        shown.wait_views("v.panels.snapshot().scope === 'of what was selected before: working it out …'")
        assert shown.tab_rows.count() > 0, "not blank"
        shown.views("v.panels.show('operators')")
        shown.views("v.panels.show('steps')")
        shown.wait_views("v.panels.snapshot().scope === 'of what was selected before: working it out …'")
        assert shown.tab_rows.count() > 0, "nor if it was left meanwhile"
        shown.kernel("go.set()")
        shown.wait_views("v.panels.snapshot().scope === 'of the selected time, step'")
    finally:
        shown.kernel("go.set(); TABS['steps'] = real")


@takes_pictures
@pytest.mark.parametrize(("scheme", "suffix"), [("light", ""), ("dark", "-dark")])
def test_take_a_picture_of_each_tab(report: Callable[..., Report], scheme: Any, suffix: str) -> None:
    opened = report(Profile(drawn_training()))
    page = opened.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 1240, "height": 1300})
    settle = "() => new Promise(done => setTimeout(done, 500))"
    try:
        for tab in opened.rail.all():
            name = tab.get_attribute("data-tab")
            if not name or opened.is_missing(name) or (suffix and name not in ("overview", "advice")):
                continue
            tab.click()
            opened.wait_views("!['asked', 'failed'].includes(v.panels.snapshot().state)")
            page.mouse.move(2, 2)
            page.evaluate(settle)
            opened.part(".nbp-row").screenshot(path=IMAGES / f"tab-{name}{suffix}.png")
        opened.rail_of("advice").click()
        opened.cards.nth(1).click()
        page.mouse.move(2, 2)
        page.evaluate(settle)
        opened.host.screenshot(path=IMAGES / f"tab-evidence{suffix}.png")
    finally:
        page.emulate_media(color_scheme="light")
