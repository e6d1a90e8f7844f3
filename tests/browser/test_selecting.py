"""What the hand selects by mouse and keyboard, what Python then has, and what the other views then show."""

import re

import pytest

from .conftest import start_over
from .jupyter_page import NotebookPage

CONV, ADD = "aten::conv2d", "aten::add_"
# answers are held back until they are let go
HOLD = """(() => { const plain = v.transport.request; let go;
    const gate = new Promise((done) => { go = done; });
    v.transport.request = (message) => plain(message).then((answer) => gate.then(() => answer));
    window.nbpGo = () => { v.transport.request = plain; go(); }; return true; })()"""
# the kernel answers, as where a recording is too long for a page; the columns of its pictures are noted
NOTE = """(() => { const plain = v.transport.request, {local} = v.transport; window.nbpAnswers = [];
    v.transport.local = null;
    window.nbpPlain = () => { Object.assign(v.transport, {request: plain, local}); };
    v.transport.request = (message) => plain(message).then((answer) => {
        if (message.t === 'timeline') window.nbpAnswers.push(answer.content.columns.map(([name]) => name));
        return answer; });
    return true; })()"""


def test_a_slice_is_inspected_and_all_of_its_name_selected(shown: NotebookPage) -> None:
    """A click inspects and filters nothing; a double click selects the name in every other view."""
    before = shown.views("v.table.snapshot()")
    shown.page.mouse.click(*shown.slice(CONV))
    shown.wait_views("v.detail()?.name === 'aten::conv2d'")
    shown.wait_kernel("print(p.trace.slices['name'][p.selection.focus])", CONV)
    assert shown.views("v.store.isEmpty()"), "focus filters nothing"
    line = shown.detail.inner_text()
    for word in (CONV, "MainThread", "took", "self", "phase", "forward", "module", "layers"):
        assert word in line
    start_over(shown)
    shown.page.mouse.dblclick(*shown.slice(CONV))
    shown.wait_kernel("print(p.selection.name)", f"('{CONV}',)")
    shown.wait_views("v.timeline.snapshot().filtered && v.phases.snapshot().filtered")
    shown.wait_views("v.table.snapshot().chosen.length === 1")
    shown.settle()
    after = shown.views("v.table.snapshot()")
    assert after["chosen"] == [CONV]
    assert after["labels"] == before["labels"], "the table is not filtered by its own dimension"
    shown.wait_views("(t => 0 < t.matched && t.matched < t.quads)(v.timeline.snapshot())")
    shown.wait_views("v.memory.snapshot().selected > 0")  # what conv2d has allocated
    assert int(shown.kernel("print(len(p.selected))")) == before["count"][before["labels"].index(CONV)]
    shown.chips.filter(has_text=CONV).wait_for()


def test_rows_of_the_table_select_names(shown: NotebookPage) -> None:
    """One name, another beside it, none; then two rows down and Enter."""
    shown.row(ADD).click()
    shown.wait_kernel("print(p.selection.name, p.selection.clauses['name'].source)", f"('{ADD}',) table")
    shown.wait_views("v.timeline.snapshot().filtered && v.phases.snapshot().filtered")
    shown.row("aten::copy_").click(modifiers=["Control"])
    shown.wait_kernel("print(p.selection.name)", f"('{ADD}', 'aten::copy_')")
    shown.chips.locator("button").click()
    shown.wait_kernel("print(p.selection.name)", "None")
    shown.wait_views("!v.timeline.snapshot().filtered")
    shown.rows.first.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        shown.page.keyboard.press(key)
    shown.wait_kernel("print(p.selection.name)", f"('{shown.views('v.table.snapshot().labels[2]')}',)")


def test_a_selection_is_undone_in_the_page_and_redone_in_python(shown: NotebookPage) -> None:
    shown.brush(0.3, 0.5)
    shown.row(ADD).click()
    shown.wait_kernel("print(p.selection.name)", f"('{ADD}',)")
    for key, left in (
        ("Control+z", "None True"),
        ("Control+z", "None False"),
        ("Control+Shift+Z", "None True"),
    ):
        shown.page.keyboard.press(key)
        shown.wait_kernel("print(p.selection.name, p.selection.window is not None)", left)
    assert shown.kernel("print(p.selection.redo())") == "True"
    shown.wait_views(f"v.store.get().name?.[0] === '{ADD}' && v.store.get().window !== null")


def test_a_number_is_copied_as_code_that_gives_it(shown: NotebookPage) -> None:
    shown.brush(0.2, 0.7)
    shown.settle()
    shown.page.evaluate(
        "() => { navigator.clipboard.writeText = async (text) => { window.nbpCopied = text; }; }"
    )
    label, own = shown.views("[v.table.snapshot().labels[1], v.table.snapshot().self[1]]")
    shown.row(label).locator("td").nth(6).hover()
    shown.page.keyboard.press("c")
    code = shown.page.wait_for_function("() => window.nbpCopied").json_value()
    assert f'.at["{label}", "self_ns"]' in code
    assert int(shown.kernel(f"print({code})")) == own
    sums = shown.part(".nbp-table tfoot td").all_inner_texts()
    assert "100.0 %" in sums, "what the shares are of"
    calls = shown.part(".nbp-table tfoot th").inner_text()
    assert re.fullmatch(r"sum of all rows · calls of \d.* to \d.* .?s", calls), calls


def test_a_brush_selects_a_window_and_measures_it(shown: NotebookPage) -> None:
    """The table then holds what Python computes for the same window; the measure tells of it."""
    before = shown.views("v.table.snapshot()")
    left, top, width, height = shown.frame()
    shown.page.keyboard.down("Shift")
    shown.page.mouse.move(left + 0.3 * width, top + height / 2)
    shown.page.mouse.down()
    shown.page.mouse.move(left + 0.5 * width, top + height / 2, steps=4)
    shown.tooltip.filter(has_text="–").wait_for()
    length, edges = shown.tooltip.inner_text().split("\n")
    shown.page.mouse.up()
    shown.page.keyboard.up("Shift")
    assert re.fullmatch(r"[\d.]+ ms", length), "said while it is dragged"
    assert re.fullmatch(r"[\d.]+ ms – [\d.]+ ms", edges)
    shown.wait_views("v.store.get().window !== null && v.table.snapshot().total[0] > 0")
    shown.wait_kernel("print(p.selection.window is None)", "False")  # the page answers before Python hears
    start, end = (int(x) for x in shown.kernel("print(*p.selection.window)").split())
    span = int(shown.kernel("print(p.trace.span.dur)"))
    assert start == pytest.approx(0.3 * span, abs=0.02 * span)
    assert end == pytest.approx(0.5 * span, abs=0.02 * span)
    shown.wait_views(f"v.table.snapshot().count[0] < {before['count'][0]}")
    shown.wait_views("v.memory.snapshot().windowPeak !== null")
    shown.wait_views("v.phases.snapshot().bright < v.phases.snapshot().drawn")
    shown.settle()
    name, total = shown.views("[v.table.snapshot().labels[0], v.table.snapshot().total[0]]")
    code = (
        f"s = p.trace.slices; s = s[s['name'] == {name!r}]; a, b = p.selection.window;"
        "print(int(((s.ts + s.dur).clip(upper=b) - s.ts.clip(lower=a)).clip(lower=0).sum()))"
    )
    assert int(shown.kernel(code)) == total
    shown.page.keyboard.press("m")
    shown.ruler.wait_for()
    for word in ("selected", "per second", "steps", "slices"):
        shown.ruler.filter(has_text=word).wait_for()
    shown.page.keyboard.press("Escape")
    shown.ruler.wait_for(state="hidden")
    assert shown.views("v.store.get().window") is not None, "Esc closed the measure only"
    shown.kernel("p.selection.clear()")
    shown.wait_views("v.store.isEmpty()")
    shown.mode("select")
    shown.brush(0.6, 0.7, shift=False)
    shown.wait_kernel("print(p.selection.window is not None)", "True")
    shown.mode("pan")


def test_bars_select_steps_and_the_legend_a_phase(shown: NotebookPage) -> None:
    """A click selects a step and its phase, a double click the step, a drag four; then keys, then a phase."""
    before = shown.views("v.table.snapshot()")
    bar = shown.wait_point("v.phases.locate(5)")
    shown.page.mouse.click(*bar)
    shown.wait_kernel("print(p.selection.step)", "(5,)")
    shown.wait_views(f"v.table.snapshot().count.reduce((a, b) => a + b, 0) < {sum(before['count']) / 5}")
    shown.wait_views("v.timeline.snapshot().filtered")
    chosen = "(p.trace.slices['step'] == 5) & (p.trace.slices['phase'] == p.selection.phase[0])"
    count = int(shown.kernel(f"print(int(({chosen}).sum()))"))
    shown.wait_views(f"v.table.snapshot().count.reduce((a, b) => a + b, 0) === {count}")
    shown.page.mouse.dblclick(*bar)
    shown.wait_kernel("print(p.selection.step, p.selection.phase)", "(5,) None")
    count = int(shown.kernel("print(int((p.trace.slices['step'] == 5).sum()))"))
    shown.wait_views(f"v.table.snapshot().count.reduce((a, b) => a + b, 0) === {count}")
    shown.page.mouse.click(*bar)
    shown.wait_kernel("print(p.selection.phase is None)", "False")
    shown.page.mouse.click(*bar)
    shown.wait_kernel("print(p.selection.step)", "None")
    shown.drag(shown.wait_point("v.phases.locate(4)"), shown.wait_point("v.phases.locate(7)"))
    shown.wait_kernel("print(p.selection.step)", "(4, 5, 6, 7)")
    start_over(shown)
    shown.phases.focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        shown.page.keyboard.press(key)
    shown.wait_kernel("print(p.selection.step)", "(4,)")
    shown.page.keyboard.press("Shift+ArrowRight")
    shown.wait_kernel("print(p.selection.step)", "(4, 5)")
    start_over(shown)
    shown.legend("optimizer").click()
    shown.wait_kernel("print(p.selection.phase)", "('optimizer',)")
    shown.wait_views(
        "(t => t.rows && t.labels.every(n => ['aten::add_', 'Optimizer.step#SGD.step'].includes(n)))"
        "(v.table.snapshot())"
    )
    shown.wait_views("(t => 0 < t.matched && t.matched < t.quads)(v.timeline.snapshot())")


def test_the_table_is_sorted_filtered_and_grouped(shown: NotebookPage) -> None:
    shown.head("total_ns").click()
    shown.wait_views("(t => t.every((x, i) => !i || x <= t[i - 1]))(v.table.snapshot().total)")
    for text, condition in (
        ("conv", "v.table.snapshot().labels.every(n => n.toLowerCase().includes('conv'))"),
        ("/^aten::(add|copy)_$/", "v.table.snapshot().rows === 2"),
        ("self>10ms", "v.table.snapshot().rows > 0 && v.table.snapshot().self.every(x => x > 1e7)"),
    ):
        shown.row_filter.fill(text)
        shown.wait_views(condition)
    rows, drawn = shown.views("[v.table.snapshot().labels, v.counts.table]")
    for half in ("self>10ms t", "self>10ms total", "self>10ms total>"):
        shown.row_filter.fill(half)
        shown.wait_views(f"v.counts.table > {drawn}")
        drawn = shown.views("v.counts.table")
    assert shown.views("v.table.snapshot().labels") == rows, "what is half typed empties no table"
    shown.row_filter.fill("/(/")
    shown.table.locator(".nbp-problem").wait_for()
    shown.row_filter.fill("")
    shown.head("self_ns").click()
    shown.wait_views("v.table.snapshot().rows > 10")
    shown.grouping.select_option("module")
    shown.wait_views("v.table.snapshot().by === 'module' && v.table.snapshot().labels.includes('layers.1')")
    shown.grouping.select_option("name")
    shown.wait_views("v.table.snapshot().by === 'name'")


def test_what_python_selects_reaches_the_page(shown: NotebookPage) -> None:
    shown.kernel("p.selection.update(step=[4, 5], name='aten::add_', window=('10ms', '80ms'))")
    shown.wait_views("v.store.get().step?.length === 2 && v.store.get().name[0] === 'aten::add_'")
    shown.wait_views("v.timeline.snapshot().filtered && v.table.snapshot().chosen[0] === 'aten::add_'")
    shown.chips.nth(2).wait_for()
    assert shown.chips.count() == 3
    shown.clear.click()
    shown.wait_kernel("print(p.selection.describe())", "everything")


def test_what_was_clicked_shows_before_the_kernel_answers(shown: NotebookPage) -> None:
    """The page knows the names that it draws, and the kernel sends its marks only: no slice has moved."""
    marked = "(t => [t.filtered, t.matched])(v.timeline.snapshot())"
    shown.views(HOLD)
    try:
        count = shown.views("v.counts.timeline")
        shown.row(ADD).click()
        shown.wait_views("v.timeline.snapshot().filtered")
        foreseen = shown.views(marked)
        assert shown.views("v.counts.timeline") == count, "no answer was drawn yet"
        assert shown.views("v.timeline.snapshot().quads") > foreseen[1] > 0
    finally:
        shown.page.evaluate("() => window.nbpGo()")
    shown.wait_views(f"v.counts.timeline > {count}")
    shown.settle()
    assert shown.views(marked) == foreseen
    assert foreseen[1] == int(shown.kernel(f"print(int((p.trace.slices['name'] == '{ADD}').sum()))"))
    start_over(shown)
    shown.views(NOTE)
    try:
        shown.views("v.setView(v.meta.span[0], v.meta.span[1] / 4)")
        shown.page.wait_for_function("() => window.nbpAnswers.length > 0")  # a whole picture
        shown.settle()
        shown.page.evaluate("() => { window.nbpAnswers = []; }")
        shown.row(ADD).click()
        shown.page.wait_for_function("() => window.nbpAnswers.length > 0")
    finally:
        shown.page.evaluate("() => window.nbpPlain()")
    kinds = shown.page.evaluate("() => window.nbpAnswers.flat()")
    assert set(kinds) <= {"match", "bright"}
    assert kinds.count("match") > 0


def test_y_tells_why_in_the_words_of_python(shown: NotebookPage) -> None:
    """Of what is under the pointer, and of the slice in focus where it is elsewhere; its time is selected."""
    page, box = shown.page, shown.page.locator(".nbp-why")
    at = shown.slice("aten::conv2d", 2)
    page.mouse.click(*at)
    page.keyboard.press("y")
    box.wait_for()
    lines = box.locator("p:not(.nbp-note):not(.nbp-why-links)").all_inner_texts()
    call = box.locator("code").inner_text()
    assert "\n".join(lines) == shown.kernel(f"print({call}.text)").strip()
    assert lines[0].startswith("conv2d on main ran for")
    box.get_by_text("select this time").click()
    shown.wait_kernel(f"w = {call}; print(p.selection.window == (w.start_ns, w.end_ns))", "True")
    page.keyboard.press("Escape")
    box.wait_for(state="hidden")
    assert shown.views("v.store.get().window") is not None, "Esc closed the box only"
    shown.kernel("p.selection.clear()")
    page.mouse.click(*at)
    page.locator(".nbp-detail").get_by_text("why?").click()
    box.wait_for()
    assert box.locator(".nbp-why-first").inner_text().startswith("conv2d on main ran for")
    inside = box.evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert inside[0] <= inside[1]
    page.keyboard.press("Escape")


FASTER = """
from ipywidgets import Widget
(one,) = [w for w in Widget.widgets.values() if type(w).__name__ == 'ProfileWidget' and w.comm]
said = one.before, one.pieces, one.headline
one.before = {'steps': [int(1.2 * ns) for ns in p.trace.steps['dur']], 'lines': {}}
one.pieces = [[['It waits.', None]], [['12 % faster than the run before.', None]]]
one.headline = 'It waits.'"""


def test_the_run_before_stands_beside_the_headline_and_behind_the_bars(shown: NotebookPage) -> None:
    shown.kernel(FASTER)
    try:
        shown.wait_views("v.phases.snapshot().ghosts === 10")
        assert "lines: the run before" in shown.part(".nbp-panel-head").first.inner_text()
        change = shown.part(".nbp-change").filter(has_text="12 %")
        change.wait_for()  # visible, thus not folded
        assert change.inner_text() == "12 % faster than the run before."
    finally:
        shown.kernel("one.before, one.pieces, one.headline = said")
    shown.wait_views("v.phases.snapshot().ghosts === 0")
