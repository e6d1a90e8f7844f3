"""Real mouse and keyboard gestures: what Python then has selected, and what the other views then show."""

from __future__ import annotations

from typing import Any

import pytest

from .jupyter_page import NotebookPage

CONV = "aten::conv2d"


def _whole(shown: NotebookPage) -> dict[str, Any]:
    return dict(shown.views("v.table.snapshot()"))


def _point_at(shown: NotebookPage, name: str, place: int = 0) -> tuple[float, float]:
    return shown.wait_place(f"v.timeline.locate({name!r}, {place})")


def _frame(shown: NotebookPage) -> tuple[float, float, float, float]:
    return tuple(
        shown.views(
            "(r => [r.left + 186, r.top + 26, r.width - 206, r.height - 26])"
            "(v.timeline.element.getBoundingClientRect())"
        )
    )


def _brush(shown: NotebookPage, begin: float, end: float) -> None:
    left, top, width, height = _frame(shown)
    mouse, keyboard = shown.page.mouse, shown.page.keyboard
    keyboard.down("Shift")
    mouse.move(left + begin * width, top + height / 2)
    mouse.down()
    mouse.move(left + (begin + end) / 2 * width, top + height / 2, steps=4)
    mouse.move(left + end * width, top + height / 2, steps=4)
    mouse.up()
    keyboard.up("Shift")


def test_click_inspects_a_slice(shown: NotebookPage) -> None:
    shown.page.mouse.click(*_point_at(shown, CONV))
    shown.wait_views("v.detail()?.name === 'aten::conv2d'")
    shown.wait_kernel("print(p.trace.slices['name'][p.selection.focus])", CONV)
    assert shown.views("v.store.isEmpty()"), "focus filters nothing"
    line = shown.page.locator(".nbp-detail").inner_text()
    for word in (CONV, "MainThread", "took", "self", "phase", "forward", "module", "layers"):
        assert word in line


def test_double_click_selects_all_of_that_name(shown: NotebookPage) -> None:
    before = _whole(shown)
    shown.page.mouse.dblclick(*_point_at(shown, CONV))
    shown.wait_kernel("print(p.selection.name)", f"('{CONV}',)")
    shown.wait_views("v.timeline.snapshot().filtered && v.phases.snapshot().filtered")
    shown.wait_views("v.table.snapshot().chosen.length === 1")
    shown.settle()
    after = _whole(shown)
    assert after["chosen"] == [CONV]
    assert after["labels"] == before["labels"], "the table is not filtered by its own dimension"
    shown.wait_views("(t => 0 < t.matched && t.matched < t.quads)(v.timeline.snapshot())")
    shown.wait_views("v.memory.snapshot().selected > 0")  # what conv2d has allocated
    assert int(shown.kernel("print(len(p.selected))")) == before["count"][before["labels"].index(CONV)]
    shown.page.locator(".nbp-chip", has_text=CONV).wait_for()


def test_brush_selects_a_window(shown: NotebookPage) -> None:
    before = _whole(shown)
    _brush(shown, 0.3, 0.5)
    shown.wait_views("v.store.get().window !== null && v.table.snapshot().total[0] > 0")
    start, end = (int(x) for x in shown.kernel("print(*p.selection.window)").split())
    span = int(shown.kernel("print(p.trace.span.dur)"))
    assert start == pytest.approx(0.3 * span, abs=0.02 * span)
    assert end == pytest.approx(0.5 * span, abs=0.02 * span)
    shown.wait_views(f"v.table.snapshot().count[0] < {before['count'][0]}")
    shown.wait_views("v.memory.snapshot().windowPeak !== null")
    shown.wait_views("v.phases.snapshot().bright < v.phases.snapshot().drawn")
    shown.settle()
    # the table holds what Python computes for the same window
    name, total = shown.views("[v.table.snapshot().labels[0], v.table.snapshot().total[0]]")
    code = (
        f"s = p.trace.slices; s = s[s['name'] == {name!r}]; a, b = p.selection.window;"
        "print(int(((s.ts + s.dur).clip(upper=b) - s.ts.clip(lower=a)).clip(lower=0).sum()))"
    )
    assert int(shown.kernel(code)) == total


def test_select_mode_brushes_without_shift(shown: NotebookPage) -> None:
    shown.page.locator("button[data-mode=select]").click()
    left, top, width, height = _frame(shown)
    shown.page.mouse.move(left + 0.6 * width, top + height / 2)
    shown.page.mouse.down()
    shown.page.mouse.move(left + 0.7 * width, top + height / 2, steps=4)
    shown.page.mouse.up()
    shown.wait_kernel("print(p.selection.window is not None)", "True")
    shown.page.locator("button[data-mode=pan]").click()


def test_step_bar_selects_the_step(shown: NotebookPage) -> None:
    before = _whole(shown)
    x, y = shown.wait_place("v.phases.locate(5)")
    shown.page.mouse.click(x, y)
    shown.wait_kernel("print(p.selection.step)", "(5,)")
    shown.wait_views(f"v.table.snapshot().count.reduce((a, b) => a + b, 0) < {sum(before['count']) / 5}")
    shown.wait_views("v.timeline.snapshot().filtered")
    count = int(shown.kernel("print(int((p.trace.slices['step'] == 5).sum()))"))
    shown.wait_views(f"v.table.snapshot().count.reduce((a, b) => a + b, 0) === {count}")
    shown.page.mouse.click(x, y)
    shown.wait_kernel("print(p.selection.step)", "None")


def test_dragging_over_bars_selects_several_steps(shown: NotebookPage) -> None:
    first, last = (shown.views(f"v.phases.locate({step})") for step in (4, 7))
    shown.page.mouse.move(first["x"], first["y"])
    shown.page.mouse.down()
    shown.page.mouse.move(last["x"], last["y"], steps=5)
    shown.page.mouse.up()
    shown.wait_kernel("print(p.selection.step)", "(4, 5, 6, 7)")


def test_legend_selects_a_phase(shown: NotebookPage) -> None:
    shown.page.locator(".nbp-legend-item[data-phase=optimizer]").click()
    shown.wait_kernel("print(p.selection.phase)", "('optimizer',)")
    shown.wait_views(
        "(t => t.rows && t.labels.every(n => ['aten::add_', 'Optimizer.step#SGD.step'].includes(n)))"
        "(v.table.snapshot())"
    )
    shown.wait_views("(t => 0 < t.matched && t.matched < t.quads)(v.timeline.snapshot())")


def test_table_row_selects_and_deselects_a_name(shown: NotebookPage) -> None:
    row = shown.page.locator("tr[data-name='aten::add_']")
    row.click()
    shown.wait_kernel("print(p.selection.name, p.selection.clauses['name'].source)", "('aten::add_',) table")
    shown.wait_views("v.timeline.snapshot().filtered && v.phases.snapshot().filtered")
    shown.page.locator("tr[data-name='aten::copy_']").click(modifiers=["Control"])
    shown.wait_kernel("print(p.selection.name)", "('aten::add_', 'aten::copy_')")
    shown.page.locator(".nbp-chip button").click()
    shown.wait_kernel("print(p.selection.name)", "None")
    shown.wait_views("!v.timeline.snapshot().filtered")


def test_table_sorts_by_true_values_and_filters(shown: NotebookPage) -> None:
    shown.page.locator("button[data-sort=total_ns]").click()
    shown.wait_views("(t => t.every((x, i) => !i || x <= t[i - 1]))(v.table.snapshot().total)")
    box = shown.page.locator(".nbp-panel-head input")
    box.fill("conv")
    shown.wait_views("v.table.snapshot().labels.every(n => n.toLowerCase().includes('conv'))")
    box.fill("/^aten::(add|copy)_$/")
    shown.wait_views("v.table.snapshot().rows === 2")
    box.fill("self>10ms")
    shown.wait_views("v.table.snapshot().rows > 0 && v.table.snapshot().self.every(x => x > 1e7)")
    box.fill("/(/")
    shown.page.locator(".nbp-problem:not([hidden])").wait_for()
    box.fill("")
    shown.page.locator("button[data-sort=self_ns]").first.click()
    shown.wait_views("v.table.snapshot().rows > 10")


def test_table_groups_by_module(shown: NotebookPage) -> None:
    shown.page.locator("select[aria-label='group by']").select_option("module")
    shown.wait_views("v.table.snapshot().by === 'module' && v.table.snapshot().labels.includes('layers.1')")
    shown.page.locator("select[aria-label='group by']").select_option("name")
    shown.wait_views("v.table.snapshot().by === 'name'")


def test_arrow_keys_walk_the_table(shown: NotebookPage) -> None:
    shown.page.locator(".nbp tbody tr").first.focus()
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("Enter")
    shown.wait_kernel("print(p.selection.name)", f"('{shown.views('v.table.snapshot().labels[2]')}',)")


def test_wheel_scrolls_the_notebook_until_focused(shown: NotebookPage) -> None:
    view = shown.views("[v.range.start, v.range.end]")
    shown.page.evaluate("() => document.activeElement.blur()")
    shown.page.mouse.move(*_point_at(shown, "Tensor.backward"))
    shown.page.mouse.wheel(0, -200)
    shown.page.evaluate("() => new Promise(done => setTimeout(done, 250))")
    assert shown.views("[v.range.start, v.range.end]") == view
    shown.page.evaluate("() => document.querySelector('.nbp-host').scrollIntoView()")
    shown.page.keyboard.down("Control")
    shown.page.mouse.move(*_point_at(shown, "Tensor.backward"))
    shown.page.mouse.wheel(0, -200)
    shown.page.keyboard.up("Control")
    shown.wait_views(f"v.range.end - v.range.start < {0.9 * (view[1] - view[0])}")


def test_wheel_zooms_at_the_pointer_and_drag_pans(shown: NotebookPage) -> None:
    x, y = _point_at(shown, CONV, 3)
    target = shown.views(f"v.timeline.locate({CONV!r}, 3).id")
    shown.page.mouse.click(x, y)
    for _ in range(8):
        shown.page.mouse.wheel(0, -120)
    shown.wait_views("v.range.end - v.range.start < 0.5 * v.meta.span[1]")
    shown.wait_views(f"v.timeline.locate({CONV!r})?.id === {target}")
    shown.settle()
    assert shown.views(f"v.timeline.locate({CONV!r}).x") == pytest.approx(x, abs=25)
    start = shown.views("v.range.start")
    shown.page.mouse.move(x, y)
    shown.page.mouse.down()
    shown.page.mouse.move(x + 200, y, steps=6)
    shown.page.mouse.up()
    shown.wait_views(f"v.range.start < {start}")
    assert shown.views("v.store.get().window") is None


def test_keys_zoom_pan_fit_and_clear(shown: NotebookPage) -> None:
    shown.page.mouse.click(*_point_at(shown, "Tensor.backward", 4))
    keyboard = shown.page.keyboard
    whole = shown.views("v.range.end - v.range.start")
    keyboard.down("w")
    shown.wait_views(f"v.range.end - v.range.start < {0.6 * whole}")
    keyboard.up("w")
    start = shown.views("v.range.start")
    keyboard.down("d")
    shown.wait_views(f"v.range.start > {start}")
    keyboard.up("d")
    keyboard.press("f")
    shown.wait_views("Math.abs((v.range.end - v.range.start) / v.detail().dur - 3) < 1")
    focus = shown.views("v.store.get().focus")
    keyboard.press(".")
    shown.wait_views(f"v.store.get().focus > {focus}")
    keyboard.press(",")
    shown.wait_views(f"v.store.get().focus === {focus}")
    keyboard.press("0")
    shown.wait_views("v.range.end - v.range.start >= v.meta.span[1]")
    keyboard.press("?")
    shown.page.locator(".nbp-help:not([hidden])").wait_for()
    keyboard.press("Escape")
    keyboard.press("Escape")
    shown.wait_kernel("print(p.selection.focus)", "None")


def test_overview_moves_the_view(shown: NotebookPage) -> None:
    shown.views("v.setView(0, 0.2 * v.meta.span[1])")
    box = shown.page.locator(".nbp-overview").bounding_box()
    assert box is not None
    left, width, y = box["x"] + 184, box["width"] - 198, box["y"] + 15
    shown.page.mouse.move(left + 0.1 * width, y)
    shown.page.mouse.down()
    shown.page.mouse.move(left + 0.5 * width, y, steps=5)
    shown.page.mouse.up()
    shown.wait_views("Math.abs((v.range.start + v.range.end) / 2 / v.meta.span[1] - 0.5) < 0.03")


def test_folding_a_track_hides_its_inner_rows(shown: NotebookPage) -> None:
    lanes = shown.views("v.timeline.snapshot().lanes")
    fold = shown.page.locator(".nbp-fold").first
    fold.click()
    shown.wait_views(
        f"v.timeline.snapshot().lanes < {lanes} && !v.timeline.snapshot().names.includes('aten::conv2d')"
    )
    shown.page.locator(".nbp-fold").first.click()
    shown.wait_views(
        f"v.timeline.snapshot().lanes === {lanes} && v.timeline.snapshot().names.includes('aten::conv2d')"
    )


def test_python_writes_reach_the_page(shown: NotebookPage) -> None:
    shown.kernel("p.selection.update(step=[4, 5], name='aten::add_', window=('10ms', '80ms'))")
    shown.wait_views("v.store.get().step?.length === 2 && v.store.get().name[0] === 'aten::add_'")
    shown.wait_views("v.timeline.snapshot().filtered && v.table.snapshot().chosen[0] === 'aten::add_'")
    shown.page.locator(".nbp-chip").nth(2).wait_for()
    assert shown.page.locator(".nbp-chip").count() == 3
    shown.page.locator(".nbp-clear").click()
    shown.wait_kernel("print(p.selection.describe())", "everything")


def test_keys_do_not_reach_the_notebook(shown: NotebookPage) -> None:
    cells = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"
    before = shown.page.evaluate(cells)
    shown.page.evaluate("() => window.jupyterapp.commands.execute('notebook:enter-command-mode')")
    shown.page.mouse.click(*_point_at(shown, CONV))
    for key in "ddxzab0":
        shown.page.keyboard.press(key)
    shown.page.locator(".nbp tbody tr").first.focus()
    for key in "ddx":
        shown.page.keyboard.press(key)
    shown.page.locator(".nbp-fold").first.focus()
    for key in "ddx":
        shown.page.keyboard.press(key)
    assert shown.page.evaluate(cells) == before


def test_hover_explains_itself(shown: NotebookPage) -> None:
    shown.page.mouse.move(*_point_at(shown, "Tensor.backward"))
    tip = shown.page.locator(".nbp-tooltip:not([hidden])")
    tip.wait_for()
    tip.filter(has_text="Tensor.backward").wait_for()
    assert tip.inner_text().splitlines()[0] == "Tensor.backward"
    assert "9.5 ms" in tip.inner_text()


def test_find_marks_the_overview_and_enter_walks(shown: NotebookPage) -> None:
    shown.page.mouse.click(*_point_at(shown, CONV))
    shown.page.keyboard.press("/")
    shown.page.keyboard.type("/add_$/")
    shown.wait_views("v.finder.snapshot().count === 80 && v.finder.snapshot().marks > 5")
    shown.page.keyboard.press("Enter")
    shown.wait_views("v.detail()?.name === 'aten::add_' && v.finder.snapshot().place === 0")
    shown.page.keyboard.press("Enter")
    shown.wait_views("v.finder.snapshot().place === 1")
    shown.page.keyboard.press("Shift+Enter")
    shown.page.keyboard.press("Shift+Enter")
    shown.wait_views("v.finder.snapshot().place === 79")
    shown.page.keyboard.press("Escape")
    shown.wait_views("v.finder.snapshot().marks === 0")
    assert shown.views("v.store.isEmpty()"), "finding selects nothing"


def test_measure_tells_of_the_window(shown: NotebookPage) -> None:
    _brush(shown, 0.3, 0.5)
    shown.wait_views("v.store.get().window !== null")
    shown.page.keyboard.press("m")
    box = shown.page.locator(".nbp-ruler:not([hidden])")
    box.wait_for()
    for word in ("selected", "per second", "steps", "slices"):
        box.filter(has_text=word).wait_for()
    shown.page.keyboard.press("Escape")
    box.wait_for(state="hidden")
    assert shown.views("v.store.get().window") is not None, "Esc closed the measure only"


def test_arrows_of_launches_are_drawn_and_followed(shown: NotebookPage) -> None:
    row = int(shown.kernel("print(p.trace.flows['src'][0])"))
    kernel = int(shown.kernel("print(p.trace.flows['dst'][0])"))
    shown.views(f"v.store.set({{focus: {row}}}, 'test')")
    shown.wait_views("v.detail() && v.timeline.snapshot().links === 1")
    shown.page.locator(".nbp").focus()
    shown.page.keyboard.press("g")
    shown.wait_views(f"v.store.get().focus === {kernel} && v.detail()?.id === {kernel}")
    shown.page.keyboard.press("g")
    shown.wait_views(f"v.store.get().focus === {row}")


def test_arrows_of_gradients_are_drawn_and_followed(shown: NotebookPage) -> None:
    code = "f = p.trace.flows; print(*f[f['kind'] == 'fwdbwd'][['src', 'dst']].iloc[2])"
    forward, backward = (int(row) for row in shown.kernel(code).split())
    shown.views(f"v.store.set({{focus: {forward}}}, 'test')")
    shown.wait_views(f"v.detail()?.id === {forward} && v.timeline.snapshot().links === 1")
    assert shown.views("[v.detail().phase, v.detail().links[0].kind]") == ["forward", "fwdbwd"]
    ends = shown.views("(d => [d.xs[0][0], d.xs[0][3]])(v.doc.get_model_by_name('links').data)")
    assert ends == [int(t) for t in shown.kernel(
        f"print(*p.trace.slices['ts'][[{forward}, {backward}]])"
    ).split()]  # fmt: skip
    shown.page.locator(".nbp").focus()
    shown.page.keyboard.press("g")
    shown.wait_views(f"v.store.get().focus === {backward} && v.detail()?.phase === 'backward'")
    shown.page.locator(".nbp-link", has_text="← aten::conv2d").click()
    shown.wait_views(f"v.store.get().focus === {forward}")


def test_slices_are_walked_by_arrow_keys(shown: NotebookPage) -> None:
    shown.page.locator(".nbp").focus()
    shown.page.keyboard.press("ArrowRight")
    shown.wait_views("v.detail() !== null")
    first = shown.views("v.detail().id")
    shown.page.keyboard.press("ArrowRight")
    shown.wait_views(f"v.detail().id > {first} && v.detail().depth === 0")
    for _ in range(3):
        before = shown.views("v.detail().id")
        inside = shown.kernel(f"print((p.trace.slices['parent'] == {before}).any())") == "True"
        shown.page.keyboard.press("ArrowDown" if inside else "ArrowRight")
        shown.wait_views(f"v.detail().id !== {before}")
    assert shown.views("v.detail().depth") > 0
    shown.page.keyboard.press("ArrowUp")
    shown.wait_views("v.detail().depth === 0 || v.detail().depth === 1")


def test_tracks_hide_move_filter_and_select(shown: NotebookPage) -> None:
    names = "[...document.querySelectorAll('.nbp-track-lane')].map(r => r.ariaLabel.split(',')[0])"
    before = shown.views(names)
    engine = shown.page.locator(".nbp-track-lane[aria-label^='track autograd']")
    engine.focus()
    shown.page.keyboard.press("Alt+ArrowUp")
    shown.wait_views(f"{names}[0] === {before[1]!r}")
    shown.page.keyboard.press("Alt+ArrowDown")
    shown.wait_views(f"{names}[1] === {before[1]!r}")
    shown.page.keyboard.press(" ")
    shown.wait_kernel("print(p.selection.track is not None)", "True")
    shown.page.keyboard.press(" ")
    shown.wait_kernel("print(p.selection.track)", "None")
    shown.page.keyboard.press("h")
    shown.wait_views(f"{names}.length === {len(before) - 1}")
    shown.page.locator(".nbp-show-all").click()
    shown.wait_views(f"{names}.length === {len(before)}")
    shown.page.locator("input[aria-label='filter tracks by name']").fill("stream")
    shown.wait_views(f"{names}.length === 1")
    shown.page.locator("input[aria-label='filter tracks by name']").fill("")
    shown.wait_views(f"{names}.length === {len(before)}")


def test_step_bars_work_by_keyboard(shown: NotebookPage) -> None:
    shown.page.locator(".nbp-phases").focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        shown.page.keyboard.press(key)
    shown.wait_kernel("print(p.selection.step)", "(4,)")
    shown.page.keyboard.press("Shift+ArrowRight")
    shown.wait_kernel("print(p.selection.step)", "(4, 5)")


def test_a_pinch_zooms(shown: NotebookPage) -> None:
    whole = shown.views("v.range.end - v.range.start")
    x, y = _point_at(shown, CONV)
    shown.page.evaluate(
        "([x, y]) => { const at = document.elementFromPoint(x, y); for (let i = 0; i < 10; i++)"
        " at.dispatchEvent(new WheelEvent('wheel', {clientX: x, clientY: y, deltaY: -6, ctrlKey: true,"
        " bubbles: true, cancelable: true, composed: true})); }",
        [x, y],
    )
    shown.wait_views(f"v.range.end - v.range.start < {0.6 * whole}")


def test_colours_follow_what_is_chosen(shown: NotebookPage) -> None:
    for tint in ("category", "phase", "module", "step"):
        count = shown.views("v.counts.timeline")
        shown.page.locator(".nbp-colours select").select_option(tint)
        shown.wait_views(f"v.counts.timeline > {count}")
    shown.page.locator(".nbp-colours select").select_option("name")


def test_counters_are_drawn_under_the_tracks(shown: NotebookPage) -> None:
    shown.wait_views("v.timeline.counters.snapshot().drawn === 3")
    counter = shown.page.locator(".nbp-track-counter").nth(2)
    counter.filter(has_text="660 W").wait_for()
    assert "GPU 0 power" in counter.inner_text()


def test_tab_reaches_everything_and_shows_where_it_is(shown: NotebookPage) -> None:
    shown.page.locator(".nbp").focus()
    border = "() => getComputedStyle(document.querySelector('.nbp')).borderTopColor"
    inside = shown.page.evaluate(border)
    look = """() => {
        const e = document.activeElement, style = getComputedStyle(e);
        if (!e.closest('.nbp')) return null;
        const name = e.getAttribute('aria-label') || e.title || e.textContent;
        return [name, style.outlineStyle, style.outlineWidth];
    }"""
    stops: list[str] = []
    for _ in range(80):
        shown.page.keyboard.press("Tab")
        stop = shown.page.evaluate(look)
        if stop is None:
            break
        name, style, width = stop
        assert style != "none", f"{name} has the focus and does not show it"
        assert width != "0px", name
        stops.append(name)
    assert shown.page.evaluate(border) != inside, "the frame shows whether the keys are the views'"
    for wanted in (
        *("zoom in", "find slices", "tracks", "track MainThread", "filter tracks", "select the phase data"),
        *("steps:", "group by", "filter rows", "Tensor.backward"),
    ):
        assert any(name.startswith(wanted) for name in stops), wanted


def test_find_marks_where_matches_are(shown: NotebookPage) -> None:
    shown.page.locator(".nbp-find input").fill("step=5 /add_$/")
    shown.wait_views("v.finder.snapshot().count === 8 && v.finder.snapshot().marks > 0")
    marks = shown.views(
        "(m => [Math.min(...m.x0), Math.max(...m.x1)])(v.doc.get_model_by_name('marks').data)"
    )
    start, end = (int(x) for x in shown.kernel(
        "s = p.trace.slices; s = s[(s.step == 5) & (s.name == 'aten::add_')]; print(s.ts.min(), s.ts.max())"
    ).split())  # fmt: skip
    bin_ns = shown.views("v.meta.span[1]") / 1000
    assert marks[0] <= start <= marks[0] + bin_ns
    assert marks[1] - bin_ns <= end <= marks[1]
    shown.page.locator(".nbp-find input").fill("phsae=forward")
    shown.page.locator(".nbp-find-status.nbp-problem").wait_for()
    shown.page.locator(".nbp-find-status", has_text="did you mean 'phase'").wait_for()
    shown.page.locator(".nbp-find input").fill("")
