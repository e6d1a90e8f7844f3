"""The account on top, the lines, and links of the headline: by mouse, by keyboard, in a report and live."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from notebook_prof.analysis import Claim
from notebook_prof.views.report.static_html import write_report

from .dashboard import Dashboard, Report
from .drawn_cell import CELL, MS, SOURCE, cell_profile
from .jupyter_page import NotebookPage

TEXT = "1.95 s = evaluation 1.35 s (line 8) + 20 steps 320 ms.\n20 steps of 16 ms\n! Trust: lost\nadvice"
WAITS = f"Line 8 takes 69.2 % of the cell: `{SOURCE[8]}`; it waits, while 4 other threads ran line 6."
EVALUATION = [560 * MS, 1910 * MS]
WINDOW = "v.store.get().window"


def _claim(text: str, line: int = 0, of: str = TEXT, **select: Any) -> Claim:
    start = of.split("\n")[line].index(text)
    return Claim("account", "dur", text=text, value=1, select=select, line=line, start=start)


CLAIMS = (
    _claim("1.35 s", window=tuple(EVALUATION)),
    _claim("320 ms", step=range(6, 26)),
    _claim("16 ms", 1, step=7),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Reports of a cell with and without steps, under the headline above."""
    folder, written = tmp_path_factory.mktemp("account"), {}
    for steps in (True, False):
        profile, written[steps] = cell_profile(steps=steps), folder / f"{steps}.html"
        write_report(profile.trace, profile.selection, written[steps], verdict=TEXT, claims=CLAIMS)
    return written


@pytest.fixture
def opened(report: Callable[..., Report], files: dict[bool, Path]) -> Callable[..., Report]:

    def show(*, steps: bool = True) -> Report:
        made = report(files[steps])
        made.settle()
        return made

    return show


def _point(shown: Dashboard, stretch: int) -> tuple[float, float]:
    at = shown.views(f"v.account.locate({stretch})")
    return at["x"], at["y"]


def test_the_strip_selects_by_mouse_and_by_keyboard(opened: Callable[..., Report]) -> None:
    """A click takes a stretch, Shift extends it, the same again takes it away, two clicks look at it."""
    shown = opened()
    page = shown.page
    snapshot = shown.views("v.account.snapshot()")
    assert snapshot["shown"]
    assert (snapshot["stretches"], len(snapshot["parts"])) == (9, 8)
    assert any(label.startswith("line 8 · 1.35 s · acc = accuracy") for label in snapshot["labels"])
    assert "20 steps of line 4 · 320 ms" in snapshot["labels"]
    for width in (1600, 700, 1400):
        page.set_viewport_size({"width": width, "height": 1250})
        shown.settle()
        shown.wait_views("Math.abs(v.timeline.locate('cell:8  acc = accuracy(model, test_set)')?.x"
                         " - v.account.locate(6).x) < 3")  # fmt: skip
        canvas = shown.account.locator("canvas").bounding_box()
        x, y = _point(shown, 6)
        assert canvas
        left, right = (canvas["x"] + canvas["width"] * end / (1950 * MS) for end in EVALUATION)
        assert left < x < right, "it stands over the same instants of the timeline"
        assert 14 <= canvas["height"] <= 18
    page.mouse.move(x, y)
    assert "line 8: 1.35 s · 69.2 %\nacc = accuracy(model, test_set)" in shown.tooltip.inner_text()
    page.mouse.click(x, y)
    assert shown.views(WINDOW) == EVALUATION
    shown.wait_views("v.table.snapshot().labels.length === 2")
    page.keyboard.down("Shift")
    page.mouse.click(*_point(shown, 3))
    page.keyboard.up("Shift")
    assert shown.views(WINDOW) == [180 * MS, 1910 * MS]
    page.mouse.click(x, y)
    page.mouse.click(x, y)
    assert shown.views(WINDOW) is None, "the same again takes it away"
    assert "line 8 1.35 s" in (shown.account.get_attribute("aria-label") or "")
    shown.account.focus()
    for key in ("Home", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert shown.views(WINDOW) == [60 * MS, 180 * MS]
    assert shown.part(".nbp-hint").inner_text() == "6 steps not recorded, line 4, 120 ms"
    page.keyboard.press("Shift+ArrowRight")
    assert shown.views(WINDOW) == [60 * MS, 500 * MS]
    page.keyboard.press("Escape")
    assert shown.views(WINDOW) is None
    page.mouse.dblclick(x, y)
    window = shown.views("[v.range.start, v.range.end]")
    assert abs(window[0] - EVALUATION[0]) < 30 * MS
    assert abs(window[1] - EVALUATION[1]) < 30 * MS


def test_links_of_the_headline_select_their_rows(opened: Callable[..., Report]) -> None:
    shown = opened()
    verdict = shown.verdict
    assert verdict.locator(".nbp-line > span").inner_text() == TEXT.split("\n")[0]
    shown.views("void v.store.set({name: ['aten::linear'], phase: ['forward']}, 'test')")
    link = shown.claims.filter(has_text="1.35 s").first
    link.click()
    state = shown.views("v.store.get()")
    assert (state["window"], state["name"], state["phase"]) == (EVALUATION, None, None)
    assert link.get_attribute("aria-pressed") == "true"
    assert "nbp-open" not in (verdict.get_attribute("class") or ""), (
        "a link does not unfold the line it stands in"
    )
    shown.views(f"v.setView(0, {100 * MS})")
    steps = shown.claims.filter(has_text="320 ms").first
    steps.focus()
    shown.page.keyboard.press("Enter")
    assert shown.views("v.store.get().step") == list(range(6, 26))
    assert shown.views("v.range.end") > 300 * MS, "what was selected out of sight is shown"
    steps.click()
    assert shown.views("v.store.isEmpty()")
    verdict.locator(".nbp-line > .nbp-fold").click()
    verdict.locator("div").locator(shown.claims).filter(has_text="16 ms").click()
    assert shown.views("v.store.get().step") == [7]
    assert shown.trust.locator(".nbp-line > span").inner_text() == "! Trust: lost"


def test_the_source_is_one_click_away(opened: Callable[..., Report]) -> None:
    shown = opened()
    assert shown.views("v.panels.snapshot().open") == "operators", "of the four views at first sight"
    shown.open_tab("source", "Source")
    assert shown.rail.first.inner_text() == "Source"
    rows = shown.tab_rows
    assert rows.count() == 9
    assert rows.locator(".nbp-code").all_inner_texts() == CELL.split("\n")
    hottest = rows.nth(7).bounding_box()
    box = shown.tab.bounding_box()
    assert hottest
    assert box
    assert box["y"] <= hottest["y"] <= box["y"] + box["height"] - 10, "the hottest line is in sight"
    line = rows.nth(5)
    assert line.inner_text().split("\t")[0] == "6"
    assert line.locator(".nbp-trend").inner_text() == "█" * 20, "the same in each of twenty steps"
    line.click()
    assert shown.views("v.store.get().line") == ["cell:6"]
    assert line.get_attribute("aria-selected") == "true"
    rows.nth(6).click()
    assert shown.views("v.store.get().line") == ["cell:6"], "an empty line selects nothing"
    line.focus()
    shown.page.keyboard.press("Enter")
    assert shown.views("v.store.get().line") is None


def test_a_line_lights_up_below_a_slice_under_the_pointer(opened: Callable[..., Report]) -> None:
    shown = opened()
    shown.open_tab("source", "Source")
    shown.views(f"v.setView({180 * MS}, {196 * MS})")
    shown.settle()
    shown.page.mouse.move(*shown.slice("aten::addmm"))
    shown.tooltip.filter(has_text="cell:6").wait_for()
    assert shown.part(".nbp-lit").inner_text().split("\t")[0] == "6"
    shown.page.mouse.move(5, 5)
    shown.page.wait_for_function("() => !document.querySelector('.nbp-lit')")


def test_lines_are_sorted_and_select_all_that_ran_for_them(opened: Callable[..., Report]) -> None:
    shown = opened(steps=False)
    shown.open_tab("lines", "Lines")
    rows = shown.tab_rows
    assert rows.count() == 6
    assert rows.first.inner_text().split("\t")[:2] == ["8", "acc = accuracy(model, test_set)"]
    bars = rows.first.locator(".nbp-share-cell")
    assert bars.count() == 3
    assert bars.nth(1).evaluate("cell => cell.style.getPropertyValue('--nbp-share')") == "100%"
    rows.nth(2).click()
    assert shown.views("v.store.get().line") == ["cell:6"]
    shown.rail_of("operators").click()
    table = shown.table.locator("tbody tr")
    assert table.first.is_visible()
    shown.wait_views(
        "v.table.snapshot().labels.length === 2"
    )  # it was hidden, and draws in a frame of its own
    assert table.count() == 2, "what runs for the line"


def test_live_and_linked_with_python(notebook: Callable[..., NotebookPage]) -> None:
    """In JupyterLab: the strip, a link and the lines tab write the selection that Python sees."""
    code = """
import types
from notebook_prof.analysis import Claim
from notebook_prof.profiles.profile import Profile
from drawn_cell import cell_profile
p = cell_profile(steps=False)
said = p.verdict
claim = Claim('account', 'dur', text='1.35 s', value=1, select={'name': 'cell:6  loss.backward()'}, start=7)
p.__class__ = type('Told', (Profile,), {'headline': 'It was 1.35 s.',
    'verdict': property(lambda self: types.SimpleNamespace(claims=(claim,), lines=said.lines))})
p
"""
    shown = notebook("cell.ipynb", code.strip(), "'below'")
    page = shown.page
    shown.wait_ready()
    shown.wait_views("v.account.snapshot().shown && v.panels.snapshot().state === 'shown'")
    shown.to_views()
    page.mouse.click(*shown.wait_point("v.account.locate(5)"))
    shown.wait_kernel("print(p.selection.window)", f"Window(start={EVALUATION[0]}, end={EVALUATION[1]})")
    shown.wait_views("v.panels.snapshot().scope === 'of the selected time'")
    ran = shown.part(".nbp-tab .nbp-pickable")
    assert ran.count() == 1
    shown.claims.click()
    shown.wait_kernel("print(p.selection.window, p.selection.name)", "None ('cell:6  loss.backward()',)")
    shown.kernel("p.selection.clear()")
    shown.wait_views("v.store.isEmpty()")
    assert shown.claims.get_attribute("aria-pressed") == "false"


def test_a_flag_stands_where_an_exception_ended_the_cell(
    report: Callable[..., Report], tmp_path: Path
) -> None:
    profile = cell_profile(raised={"error": "KeyboardInterrupt", "line": 8})
    path = tmp_path / "raised.html"
    claims = [
        _claim("69.2 %", of=WAITS, name=f"cell:8  {SOURCE[8]}"),
        _claim("line 6", of=WAITS, name="cell:6  loss.backward()"),
    ]
    write_report(profile.trace, profile.selection, path, verdict=WAITS, claims=claims)
    shown = report(path)
    shown.settle()
    flag = shown.part(".nbp-flag")
    assert flag.inner_text() == "⚑ KeyboardInterrupt, line 8"
    flag.hover()
    assert "ended the cell at 1.910 s" in str(flag.get_attribute("title"))
    flag.click()
    assert shown.views("v.store.get().line") == ["cell:8"]
    shown.views("v.setView(0, 1e8)")
    shown.settle()
    assert not flag.is_visible()
    shown.views("v.store.clear('test')")
    shown.open_tab("source", "Source")
    reason = shown.tab.locator(".nbp-source-because")
    assert reason.inner_text() == "it waits, while 4 other threads ran line 6."
    assert reason.evaluate("(row) => row.previousElementSibling.innerText").startswith("8")
    reason.locator(".nbp-claim").click()
    assert shown.views("v.store.get().name") == ["cell:6  loss.backward()"]
