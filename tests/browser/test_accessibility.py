"""Who has no mouse, or no eyes: axe-core finds nothing, few stops of Tab, arrows inside of them."""

import json
from collections.abc import Callable
from pathlib import Path

import notebook_prof as nbp

from ..node import JS, install_packages
from .dashboard import Report

AXE = JS / "node_modules" / "axe-core" / "axe.min.js"
VIOLATIONS = """(part) => axe.run(part, {resultTypes: ['violations']}).then((told) =>
    told.violations.map(({id, nodes}) => [id, nodes.map((one) => one.html.slice(0, 200))]))"""
STOP = """() => {
    const e = document.activeElement;
    return [Boolean(e.closest('.nbp-table tbody')), e.getAttribute('aria-label') || e.title || e.textContent];
}"""
TABS = "() => [...document.querySelectorAll('.nbp-rail [data-tab]')].map((one) => one.dataset.tab)"
MOST_STOPS = 12


def axe_of_every_tab(
    opened: Report, tabs: set[str] | None = None, rules: list[str] | None = None
) -> set[str]:
    """Ask axe about the page and the views of each tab, or of these; gives which tabs have a recording."""
    page, ask, shown = opened.page, VIOLATIONS, set()
    if rules:
        ask = ask.replace("{resultTypes", f"{{runOnly: {json.dumps(rules)}, resultTypes")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for more in opened.part(".nbp-rail .nbp-more").all():
        more.evaluate("(more) => more.click()")  # hidden where the tabs are a menu
    assert page.evaluate(ask, ".nbp") == []
    for name in page.evaluate(TABS):
        if tabs is not None and name not in tabs:
            continue
        opened.rail_of(name).evaluate("(button) => button.click()")
        opened.wait_views("!['asked', 'failed'].includes(v.panels.snapshot().state)")
        assert page.evaluate(ask, ".nbp-tabs") == [], name
        if not opened.is_missing(name):
            shown.add(name)
        for view in opened.part(".nbp-views button").all()[1:]:
            view.click()
            opened.wait_views("!['asked', 'failed'].includes(v.panels.snapshot().state)")
            assert page.evaluate(ask, ".nbp-tab") == [], view.get_attribute("data-value")
    return shown


def test_axe_finds_nothing_in_any_tab(report: Callable[..., Report], data: Path, drawn_file: Path) -> None:
    """A recording of training, wide and light; a drawn one, narrow and dark, then its colours in light."""
    install_packages()
    opened = report(nbp.open_profile(data / "torch213_cpu/cnn_sgd.pt.trace.json.gz"))
    opened.page.set_viewport_size({"width": 1280, "height": 900})
    light = axe_of_every_tab(opened)
    opened = report(drawn_file)
    try:
        opened.page.emulate_media(color_scheme="dark")
        opened.page.set_viewport_size({"width": 390, "height": 900})
        dark = axe_of_every_tab(opened)
        opened.page.emulate_media(color_scheme="light")
        assert axe_of_every_tab(
            opened, dark - light, ["color-contrast"]
        )  # all that another scheme can change
        opened.page.emulate_media(forced_colors="active")
        opened.wait_views("v.theme().accent !== v.theme().text")
        assert len(set(opened.views("[v.theme().background, v.theme().text, v.theme().accent]"))) == 3
        assert axe_of_every_tab(opened, {"operators", "calls", "steps"}, ["color-contrast"]) is not None
    finally:
        opened.page.emulate_media(color_scheme="light", forced_colors="none")


def stops_before_the_table(opened: Report) -> list[str]:
    """Press Tab from the beginning of the page until a row of the table has the focus."""
    opened.keys.focus()
    stops: list[str] = []
    while len(stops) < 40:
        opened.page.keyboard.press("Tab")
        in_table, label = opened.page.evaluate(STOP)
        if in_table:
            break
        stops.append(label)
    return stops


def test_few_stops_lie_before_the_table_and_arrows_walk_inside_of_them(
    report: Callable[..., Report], drawn_file: Path
) -> None:
    opened = report(drawn_file)
    keyboard = opened.page.keyboard
    assert 8 <= len(stops_before_the_table(opened)) <= MOST_STOPS
    opened.views("v.store.set({phase: ['backward'], step: [3, 4], focus: 40}, 'test')")
    opened.part(".nbp-detail button").first.wait_for()
    stops = stops_before_the_table(opened)
    assert len(stops) <= MOST_STOPS, stops
    opened.part(".nbp-detail button").first.focus()
    keyboard.press("ArrowRight")
    assert opened.page.evaluate(STOP)[1] == "select this name"
    opened.part(".nbp-bar button").first.focus()
    for tooltip in ("drag to select a window", "zoom in", "zoom out"):
        keyboard.press("ArrowRight")
        assert opened.page.evaluate(STOP)[1].startswith(tooltip)
    opened.part(".nbp-gutter-top input").focus()
    keyboard.press("ArrowDown")
    for told in ("close", "open", "close"):
        assert opened.page.evaluate(STOP)[1] == f"{told} this group"
        keyboard.press("Enter")  # the focus stays at the button, whose row is made anew
    keyboard.press("Enter")
    keyboard.press("ArrowDown")
    assert ": track " in opened.page.evaluate(STOP)[1]
    keyboard.press(" ")
    assert len(opened.views("v.store.get().track")) == 1


OVERPRINTED = """() => {
    const texts = [...document.querySelectorAll('.nbp *')].filter((one) => one.checkVisibility()
        && [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())
        && !one.closest('.nbp-table-scroll, .nbp-tab-body, .nbp-timeline, .nbp-memory, .nbp-help, option'));
    const parts = texts.map((one) => [one, one.getBoundingClientRect()])
        .filter(([, box]) => box.width && box.height);
    const clash = (p, q) => Math.min(p.right, q.right) - Math.max(p.left, q.left) > 2
        && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 4;
    return parts.flatMap(([one, box], i) => parts.slice(i + 1)
        .filter(([other, its]) => !one.contains(other) && !other.contains(one) && clash(box, its))
        .map(([other]) => `${one.innerText} | ${other.innerText}`));
}"""
"""Texts that lie over one another, apart from names of tracks in narrow pages, which lie over their rows."""


def test_a_narrow_page_keeps_names_and_has_a_menu_of_tabs(
    report: Callable[..., Report], drawn_file: Path
) -> None:
    opened = report(drawn_file)
    page = opened.page
    page.set_viewport_size({"width": 390, "height": 900})
    opened.wait_views("v.timeline.view.frame.bbox.width > 300")
    for width in (390, 560, 820, 900, 1280, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        opened.wait_views(f"Math.abs(v.timeline.element.offsetWidth - {width}) < 60")
        # each figure is laid out on its own, some later than others
        opened.wait_views(f"document.scrollingElement.scrollWidth <= {width}")
        opened.wait_views(f"({OVERPRINTED})().length === 0")
        opened.wait_views("document.querySelector('.nbp-name-cell')?.getBoundingClientRect().width > 120")
    page.set_viewport_size({"width": 290, "height": 900})  # an output of JupyterLab in a window of 390
    opened.wait_views("v.timeline.element.offsetWidth < 290")
    opened.wait_views(f"!({OVERPRINTED})().some((text) => text.startsWith('Everything'))")
    page.evaluate(
        "document.querySelector('.nbp-verdict code, .nbp-verdict span').append('a_long_call('.repeat(9))"
    )
    line = "document.querySelector('.nbp-line')"
    opened.wait_views(f"{line}.innerText.includes('a_long') && {line}.scrollWidth <= {line}.clientWidth")
    page.set_viewport_size({"width": 390, "height": 900})
    menu = opened.part(".nbp-tabs-menu")
    menu.select_option("steps")
    opened.wait_tab("Steps")
    assert not opened.rail.first.is_visible()
    ticks = opened.views("v.doc.get_model_by_name('timeline').above[0].ticker.desired_num_ticks")
    page.set_viewport_size({"width": 1280, "height": 900})
    opened.wait_views("v.timeline.view.frame.bbox.left > 100")
    assert opened.views("v.doc.get_model_by_name('timeline').above[0].ticker.desired_num_ticks") > ticks


def test_the_verdict_and_the_selection_stay_in_sight(report: Callable[..., Report], drawn_file: Path) -> None:
    opened = report(drawn_file)
    page = opened.page
    page.set_viewport_size({"width": 1280, "height": 620})
    page.evaluate("window.scrollTo(0, 300)")
    box = opened.clear.bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 120
