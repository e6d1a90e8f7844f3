"""The account on top, the lines, and links of the headline: by mouse, by keyboard, in a report and live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from notebook_prof.analysis import Claim
from notebook_prof.profiles.profile import Profile
from notebook_prof.views.report.static_html import write_report

from .drawn_cell import MS, cell_profile, drawn_cell
from .hostile import EVIL
from .jupyter_page import Browser, NotebookPage, Server, settle, write_notebook

VIEW = "document.querySelector('.nbp-host').nbp"
TEXT = "1.95 s = evaluation 1.35 s (line 8) + 20 steps 320 ms.\n20 steps of 16 ms\n! Trust: lost\nadvice"
EVALUATION = [560 * MS, 1910 * MS]


def _claim(text: str, line: int = 0, **select: Any) -> Claim:
    start = TEXT.split("\n")[line].index(text)
    return Claim(text, "account", {}, "dur", 1, select=select, line=line, start=start)


CLAIMS = (
    _claim("1.35 s", window=tuple(EVALUATION)),
    _claim("320 ms", step=range(6, 26)),
    _claim("16 ms", 1, step=7),
)


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens the report of a Profile; nothing may complain."""
    path = tmp_path / "report.html"

    def show(profile: Profile, **headline: Any) -> Any:
        headline = headline or {"verdict": TEXT, "claims": CLAIMS}
        write_report(profile.trace, profile.selection, path, **headline)
        browser.blank()
        browser.page.goto(path.as_uri())
        browser.page.wait_for_function(f"() => {VIEW}?.counts.table")
        settle(browser.page)
        return browser.page

    yield show
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.page.goto("about:blank")


def _window(page: Any) -> Any:
    return page.evaluate(f"() => {VIEW}.store.get().window")


def _place(page: Any, stretch: int) -> tuple[float, float]:
    at = page.evaluate(f"() => {VIEW}.account.locate({stretch})")
    return at["x"], at["y"]


def test_a_click_selects_a_stretch_and_shift_extends_it(opened: Callable[..., Any]) -> None:
    page = opened(cell_profile())
    told = page.evaluate(f"() => {VIEW}.account.snapshot()")
    assert told["shown"]
    assert (told["stretches"], len(told["parts"])) == (9, 8)
    assert any(label.startswith("line 8 · 1.35 s · acc = accuracy") for label in told["labels"])
    assert "20 steps of line 4 · 320 ms" in told["labels"]
    x, y = _place(page, 6)
    page.mouse.move(x, y)
    tip = page.locator(".nbp-tooltip:not([hidden])")
    assert "line 8: 1.35 s · 69.2 %\nacc = accuracy(model, test_set)" in tip.inner_text()
    page.mouse.click(x, y)
    assert _window(page) == EVALUATION
    page.wait_for_function(f"() => {VIEW}.table.snapshot().labels.length === 2")
    page.keyboard.down("Shift")
    page.mouse.click(*_place(page, 3))
    page.keyboard.up("Shift")
    assert _window(page) == [180 * MS, 1910 * MS]
    page.mouse.click(x, y)
    page.mouse.move(5, 5)
    page.wait_for_timeout(600)  # the next click is not the second of a double click
    page.mouse.click(x, y)
    assert _window(page) is None, "the same again takes it away"
    page.wait_for_timeout(600)
    page.mouse.dblclick(x, y)
    seen = page.evaluate(f"() => [{VIEW}.range.start, {VIEW}.range.end]")
    assert abs(seen[0] - EVALUATION[0]) < 30 * MS
    assert abs(seen[1] - EVALUATION[1]) < 30 * MS


def test_it_stands_over_the_same_instants_of_the_timeline(opened: Callable[..., Any]) -> None:
    page = opened(cell_profile())
    for width in (1600, 700):
        page.set_viewport_size({"width": width, "height": 1000})
        settle(page)
        page.wait_for_timeout(100)
        canvas = page.locator(".nbp-account canvas").bounding_box()
        slice_ = page.evaluate(f"() => {VIEW}.timeline.locate('cell:8  acc = accuracy(model, test_set)')")
        assert canvas
        left = canvas["x"] + canvas["width"] * EVALUATION[0] / (1950 * MS)
        right = canvas["x"] + canvas["width"] * EVALUATION[1] / (1950 * MS)
        assert left < slice_["x"] < right
        x, _ = _place(page, 6)
        assert abs(slice_["x"] - x) < 3
        assert 14 <= canvas["height"] <= 18
    page.set_viewport_size({"width": 1400, "height": 1250})


def test_what_is_too_thin_does_not_interrupt(opened: Callable[..., Any]) -> None:
    """Steps with a hair between each two are one stretch, until there is room for the hair."""
    from notebook_prof.testing import draw

    steps = "".join(f"[{k:<50}]" + "  " for k in range(40))
    page = opened(Profile(draw(f"steps: {steps}\nmain:  [{'mm':<2200}]", unit_ns=1000)), verdict="40 steps.")
    told = page.evaluate(f"() => {VIEW}.account.snapshot()")
    assert told["labels"][0] == "40 steps · 2.16 ms", told
    assert told["stretches"] == 2


def test_it_is_walked_by_keyboard(opened: Callable[..., Any]) -> None:
    page = opened(cell_profile())
    strip = page.locator(".nbp-account")
    assert "line 8 1.35 s" in (strip.get_attribute("aria-label") or "")
    strip.focus()
    for key in ("Home", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert _window(page) == [60 * MS, 180 * MS]
    assert page.locator(".nbp-hint").inner_text() == "6 steps not recorded, line 4, 120 ms"
    page.keyboard.press("Shift+ArrowRight")
    assert _window(page) == [60 * MS, 500 * MS]
    page.keyboard.press("Escape")
    assert _window(page) is None


def test_one_part_is_no_strip(opened: Callable[..., Any]) -> None:
    from .drawn import drawn_profile

    page = opened(drawn_profile(), verdict="Nothing to say.")
    page.wait_for_function("() => document.querySelector('.nbp-account').hidden")
    assert page.locator(".nbp-account").bounding_box() is None


def test_links_of_the_headline_select_their_rows(opened: Callable[..., Any]) -> None:
    page = opened(cell_profile())
    verdict = page.locator(".nbp-verdict").first
    assert verdict.locator("summary").inner_text() == TEXT.split("\n")[0]
    page.evaluate(f"() => {VIEW}.store.set({{name: ['aten::linear'], phase: ['forward']}}, 'test')")
    link = verdict.locator(".nbp-claim", has_text="1.35 s")
    link.click()
    state = page.evaluate(f"() => {VIEW}.store.get()")
    assert (state["window"], state["name"], state["phase"]) == (EVALUATION, None, None)
    assert link.get_attribute("aria-pressed") == "true"
    assert verdict.get_attribute("open") is None, "a link does not unfold the line it stands in"
    page.evaluate(f"() => {VIEW}.setView(0, {100 * MS})")
    verdict.locator(".nbp-claim", has_text="320 ms").focus()
    page.keyboard.press("Enter")
    assert page.evaluate(f"() => {VIEW}.store.get().step") == list(range(6, 26))
    assert page.evaluate(f"() => {VIEW}.range.end") > 300 * MS, "what was selected out of sight is shown"
    verdict.locator(".nbp-claim", has_text="320 ms").click()
    assert page.evaluate(f"() => {VIEW}.store.isEmpty()")
    verdict.locator("summary").click(position={"x": 4, "y": 8})
    verdict.locator("div .nbp-claim", has_text="16 ms").click()
    assert page.evaluate(f"() => {VIEW}.store.get().step") == [7]
    assert page.locator(".nbp-trust summary").inner_text() == "! Trust: lost"


def test_lines_are_the_first_tab_of_a_cell_without_steps(opened: Callable[..., Any]) -> None:
    page = opened(cell_profile(steps=False))
    page.wait_for_function(f"() => {VIEW}.panels.snapshot().state === 'shown'")
    told = page.evaluate(f"() => {VIEW}.panels.snapshot()")
    assert (told["open"], told["title"]) == ("lines", "Lines")
    assert page.locator(".nbp-rail button").first.inner_text() == "Lines"
    rows = page.locator(".nbp-tab tbody tr")
    assert rows.count() == 6
    assert rows.first.inner_text().split("\t")[:2] == ["8", "acc = accuracy(model, test_set)"]
    bars = rows.first.locator(".nbp-share-cell")
    assert bars.count() == 3
    assert bars.nth(1).evaluate("cell => cell.style.getPropertyValue('--nbp-share')") == "100%"
    rows.nth(2).click()
    assert page.evaluate(f"() => {VIEW}.store.get().name") == ["cell:6  loss.backward()"]
    page.locator("[data-tab=operators]").click()
    table = page.locator(".nbp-table tbody tr")
    assert table.first.is_visible()
    assert table.count() > 3, "it is drawn though it was hidden at first"


def test_markup_in_account_lines_and_headline_stays_text(opened: Callable[..., Any]) -> None:
    text = f"Most of it: {EVIL} 50 %."
    claim = Claim(EVIL, "lines", {}, "share", 1, select={"name": EVIL}, start=12)
    page = opened(Profile(drawn_cell(steps=False, evil=EVIL)), verdict=text, claims=(claim,))
    page.wait_for_function(f"() => {VIEW}.panels.snapshot().state === 'shown'")
    assert page.locator(".nbp-claim").inner_text() == EVIL
    for stretch in range(8):
        page.mouse.move(*_place(page, stretch))
    page.locator(".nbp-tooltip:not([hidden])").wait_for()
    page.locator(".nbp-account").focus()
    page.keyboard.press("End")
    page.locator(".nbp-claim").click()
    page.locator(".nbp-tab tbody tr").first.click()
    assert page.evaluate("() => window.hacked") is None
    assert page.locator(".nbp img, .nbp script, .nbp svg").count() == 0


def test_live_and_linked_with_python(browser: Browser, lab: Server, root: Path) -> None:
    """In JupyterLab: the strip, a link and the lines tab write the selection that Python sees."""
    code = """
import importlib.util, sys, types
from notebook_prof.analysis import Claim, Verdict
from notebook_prof.profiles.profile import Profile
from drawn_cell import cell_profile
p = cell_profile(steps=False)
said = p.verdict
claim = Claim('1.35 s', 'account', {}, 'dur', 1, select={'name': 'cell:6  loss.backward()'}, start=7)
p.__class__ = type('Told', (Profile,), {'headline': 'It was 1.35 s.',
    'verdict': property(lambda self: types.SimpleNamespace(claims=(claim,), lines=said.lines))})
p
"""
    write_notebook(root / "cell.ipynb", [code.strip(), "'below'"])
    browser.blank()
    shown = NotebookPage(browser, lab, "cell.ipynb").open()
    page = browser.page
    shown.run_all()
    shown.wait_ready()
    shown.wait_views("v.account.snapshot().shown && v.panels.snapshot().state === 'shown'")
    page.evaluate("() => document.querySelector('.nbp-host').scrollIntoView()")
    x, y = shown.wait_place("v.account.locate(5)")
    page.mouse.click(x, y)
    shown.wait_kernel("print(p.selection.window)", f"Window(start={EVALUATION[0]}, end={EVALUATION[1]})")
    shown.wait_views("v.panels.snapshot().scope === 'of the selected time'")
    assert page.locator(".nbp-tab tbody tr").count() == 1
    page.locator(".nbp-claim").click()
    shown.wait_kernel("print(p.selection.window, p.selection.name)", "None ('cell:6  loss.backward()',)")
    shown.kernel("p.selection.clear()")
    shown.wait_views("v.store.isEmpty()")
    assert page.locator(".nbp-claim").get_attribute("aria-pressed") == "false"
    assert browser.errors == []
    assert browser.elsewhere == []
    page.goto("about:blank")
