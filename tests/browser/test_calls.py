"""The calls tab: a brush changes its trees, rows select names, keys open and close, the log shows slices."""

from collections.abc import Iterator

import pytest

from .jupyter_page import NotebookPage

ROWS = ".nbp-tree tbody tr"
NAMES = "() => [...document.querySelectorAll('.nbp-tree tbody .nbp-tree-label')].map((e) => e.textContent)"
FOCUSED = "() => document.activeElement.querySelector('.nbp-tree-label')?.textContent"


@pytest.fixture
def calls(shown: NotebookPage) -> Iterator[NotebookPage]:
    """A dashboard whose call tree is shown; the next one begins with it too."""
    shown.open_tab("calls", "Calls")
    yield shown
    shown.rail_of("calls").click()
    shown.part("[data-value=call_tree]").click()
    shown.kernel("p.selection.clear()")
    shown.wait_views("v.store.isEmpty()")


def test_a_brush_changes_the_tree_and_a_row_selects_its_name(calls: NotebookPage) -> None:
    first = calls.part(f"{ROWS} >> nth=0")
    whole = first.inner_text()
    assert calls.page.evaluate(NAMES)[:2] == ["Tensor.backward", "ConvolutionBackward0"]
    calls.brush(0.1, 0.35)
    calls.wait_views("v.store.get().window !== null && v.panels.snapshot().scope === 'of the selected time'")
    assert first.inner_text() != whole
    roots = "print(t['name'][0].rpartition('::')[2], (t.depth == 0).sum())"
    top = calls.part(f"{ROWS}[aria-level='1']").count()
    calls.wait_kernel(
        f"t = p.call_tree(window=p.selection.window)\n{roots}", f"{calls.page.evaluate(NAMES)[0]} {top}"
    )
    requests = calls.views("v.panels.snapshot().asked")
    row = calls.part(ROWS, has_text="Net.forward")
    row.click()
    calls.wait_kernel("print(p.selection.name)", "('Net.forward',)")
    calls.part(f"{ROWS}[aria-selected=true]").wait_for()
    assert calls.views("v.panels.snapshot().asked") == requests, "what it set itself does not filter it"
    assert calls.part(".nbp-stack .nbp-part-title").inner_text() == "Heaviest stack through Net.forward"
    row.click()
    calls.wait_kernel("print(p.selection.name)", "None")
    assert calls.part(".nbp-stack .nbp-part-title").inner_text() == "Heaviest stack"


def test_keys_open_and_close_rows_and_walk_them(calls: NotebookPage) -> None:
    keyboard, page = calls.page.keyboard, calls.page
    before = page.evaluate(NAMES)
    calls.part(f"{ROWS} >> nth=0").focus()
    while page.evaluate(FOCUSED) != "Net.forward":
        keyboard.press("ArrowDown")
    row = calls.part(f"{ROWS}:focus")
    assert row.get_attribute("aria-expanded") == "false"
    keyboard.press("ArrowRight")
    assert row.get_attribute("aria-expanded") == "true"
    assert len(page.evaluate(NAMES)) > len(before)
    keyboard.press("ArrowRight")
    child = page.evaluate(FOCUSED)
    assert child != "Net.forward"
    assert row.get_attribute("aria-level") == "2"
    keyboard.press("Enter")
    calls.wait_kernel(f"print(len(p.selection.name), {child!r} in p.selection.name[0])", "1 True")
    calls.part(f"{ROWS}[aria-selected=true]").first.wait_for()
    assert page.evaluate(FOCUSED) == child, "the keyboard stays where it was"
    assert child in calls.part(".nbp-stack .nbp-lit").inner_text()
    keyboard.press("ArrowLeft")
    assert page.evaluate(FOCUSED) == "Net.forward"
    assert calls.part(".nbp-tree tbody [tabindex='0']").count() == 1
    calls.kernel("p.selection.step = 4")
    calls.wait_views("v.panels.snapshot().scope.startsWith('of the selected step')")
    opened = calls.part(ROWS, has_text="Net.forward")
    assert opened.get_attribute("aria-expanded") == "true", "what was opened stays open"
    opened.focus()
    keyboard.press("ArrowLeft")
    assert opened.get_attribute("aria-expanded") == "false"


def test_bottom_up_names_callers_and_the_log_shows_slices(calls: NotebookPage) -> None:
    calls.part("[data-value=bottom_up]").click()
    calls.part("th[data-key=self_ns]:first-of-type, th:nth-child(2)[data-key=self_ns]").wait_for()
    calls.part(ROWS, has_text="addmm").locator(".nbp-tree-mark").click()
    names = calls.page.evaluate(NAMES)
    calls.wait_kernel(
        "t = p.bottom_up()\nprint(t.name[t.parent == t.index[t.name.str.endswith('addmm')][0]].iloc[0][6:])",
        names[names.index("addmm") + 1],
    )
    assert calls.views("v.store.isEmpty()"), "the mark opens and selects nothing"
    calls.part("[data-value=event_log]").click()
    row = calls.tab_rows.nth(6)
    calls.tab_tables.locator("th", has_text="start").wait_for()
    row.click()
    calls.wait_views("v.store.get().focus !== null")
    calls.wait_kernel("print(p.event_log().slice[6] == p.selection.focus)", "True")
    assert calls.detail.inner_text()
    calls.open_tab("steps", "Steps")
    calls.open_tab("calls", "Calls")
    assert calls.part("[data-value=event_log]").get_attribute("aria-pressed") == "true"


def test_the_orders_of_the_flame(shown: NotebookPage) -> None:
    """Left heavy, in time, and around a name: that of the box that is clicked, in Python too."""
    shown.open_tab("flame", "Flame")
    boxes = "v.panels.snapshot().pictures[0]?.renderers[0]"
    heavy = shown.views(boxes)
    shown.part("[data-value=time]").click()
    shown.wait_views(f"{boxes} > {heavy}")
    shown.wait_kernel(
        "print((p.flame(order='time', fold_libraries=True).total > 0).sum())", str(shown.views(boxes))
    )
    shown.part("[data-value=sandwich]").click()
    caption = shown.tab.locator("figcaption").first
    shown.tab.locator("figcaption", has_text="Time on the host of Tensor.backward").wait_for()
    shown.kernel("p.selection.name = 'aten::conv2d'")
    shown.tab.locator("figcaption", has_text="Time on the host of conv2d").wait_for()
    shown.wait_views(f"{boxes} > 0")  # the figure is drawn after its caption
    shown.wait_kernel(
        "print((p.sandwich('aten::conv2d', fold_libraries=True).total > 0).sum())", str(shown.views(boxes))
    )
    names = shown.kernel("print(*p.sandwich('aten::conv2d', fold_libraries=True).name)").split()
    x, y = shown.wait_point(f"v.panels.locate(0, {len(names) - 1})")
    shown.page.mouse.click(x, y)
    shown.wait_kernel(
        "print(p.selection.name[0] == p.sandwich('aten::conv2d', fold_libraries=True).name.iloc[-1])", "True"
    )
    shown.tab.locator("figcaption", has_text="of Net.forward").first.wait_for()
    assert "Net.forward" in caption.inner_text()
    shown.part(".nbp-switch input").check()
    shown.rail_of("calls").click()
    shown.rail_of("flame").click()
    assert shown.part(".nbp-switch input").is_checked(), "and it is remembered"
    shown.part(".nbp-switch input").uncheck()
    shown.part("[data-value=left_heavy]").click()
