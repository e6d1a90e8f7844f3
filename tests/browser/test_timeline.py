"""Moving about in the timeline: wheel, drag, keys, tracks, arrows between slices, and what is found."""

from collections.abc import Callable
from pathlib import Path

import pytest

import notebook_prof as nbp

from .conftest import start_over
from .dashboard import LANES, Report
from .jupyter_page import NotebookPage

CONV, BACKWARD = "aten::conv2d", "Tensor.backward"
WIDTH = "v.range.end - v.range.start"
PINCH = """([x, y]) => { const at = document.elementFromPoint(x, y); for (let i = 0; i < 10; i++)
    at.dispatchEvent(new WheelEvent('wheel', {clientX: x, clientY: y, deltaY: -6, ctrlKey: true,
        bubbles: true, cancelable: true, composed: true})); }"""
# two painted frames after the page has seen the next turn of the wheel
WHEELED = """() => { window.nbpWheeled = false;
    window.addEventListener('wheel', () => requestAnimationFrame(() => requestAnimationFrame(
        () => { window.nbpWheeled = true; })), {capture: true, once: true, passive: true}); }"""
HIDES = """() => { const tip = document.querySelector('.nbp-tooltip'); window.nbpHid = 0;
    new MutationObserver(() => { window.nbpHid += tip.hidden; }).observe(tip, {attributes: true}); }"""
STOP = """() => {
    const e = document.activeElement, style = getComputedStyle(e);
    if (!e.closest('.nbp')) return null;
    const name = e.getAttribute('aria-label') || e.title || e.textContent;
    return [name, style.outlineStyle, style.outlineWidth];
}"""


def test_the_wheel_is_the_notebooks_until_the_views_have_the_focus(shown: NotebookPage) -> None:
    """Without the focus it scrolls, with Ctrl or two fingers it zooms."""
    page = shown.page
    view = shown.views("[v.range.start, v.range.end]")
    page.evaluate("() => document.activeElement.blur()")
    page.mouse.move(*shown.slice(BACKWARD))
    page.evaluate(WHEELED)
    page.mouse.wheel(0, -200)
    page.wait_for_function("() => window.nbpWheeled")
    assert shown.views("[v.range.start, v.range.end]") == view
    shown.row(CONV).click()
    page.mouse.move(*shown.slice(BACKWARD))
    page.evaluate(WHEELED)
    page.mouse.wheel(0, -200)
    page.wait_for_function("() => window.nbpWheeled")
    assert shown.views("[v.range.start, v.range.end]") == view, "a click in the table is none in the timeline"
    start_over(shown)
    shown.to_views()
    page.keyboard.down("Control")
    page.mouse.move(*shown.slice(BACKWARD))
    for _ in range(6):
        page.mouse.wheel(0, -120)
    page.keyboard.up("Control")
    shown.wait_views(f"{WIDTH} < {0.7 * (view[1] - view[0])}")
    start_over(shown)
    page.evaluate(PINCH, list(shown.slice(CONV)))
    shown.wait_views(f"{WIDTH} < {0.6 * (view[1] - view[0])}")


def test_the_wheel_zooms_at_the_pointer_and_a_drag_pans(shown: NotebookPage) -> None:
    """What is under the pointer stays there, and a tooltip does not outlive the picture that it told of."""
    page = shown.page
    x, y = shown.slice(CONV, 3)
    target = shown.views(f"v.timeline.locate({CONV!r}, 3).id")
    page.mouse.click(x, y)
    for _ in range(8):
        page.mouse.wheel(0, -120)
    shown.wait_views(f"{WIDTH} < 0.5 * v.meta.span[1]")
    shown.wait_views(f"v.timeline.locate({CONV!r})?.id === {target}")
    shown.settle()
    assert shown.views(f"v.timeline.locate({CONV!r}).x") == pytest.approx(x, abs=25)
    start = shown.views("v.range.start")
    shown.drag((x, y), (x + 200, y))
    shown.wait_views(f"v.range.start < {start}")
    assert shown.views("v.store.get().window") is None
    start_over(shown)
    at = shown.slice(BACKWARD, 2)
    page.mouse.click(*at)
    page.mouse.move(at[0] + 1, at[1])
    shown.tooltip.filter(has_text=BACKWARD).wait_for()
    tooltip = shown.tooltip.inner_text()
    assert tooltip.splitlines()[0] == BACKWARD
    assert "9.5 ms" in tooltip
    width = shown.views(WIDTH)
    page.evaluate(HIDES)
    page.mouse.wheel(0, -240)
    shown.wait_views(f"{WIDTH} < {0.9 * width} && window.nbpHid > 0")
    shown.tooltip.filter(has_text=BACKWARD).wait_for()
    assert shown.tooltip.inner_text().splitlines()[0] == BACKWARD


def test_keys_and_the_overview_move_the_view(shown: NotebookPage) -> None:
    shown.page.mouse.click(*shown.slice(BACKWARD, 4))
    keyboard = shown.page.keyboard

    def hold(key: str, condition: str) -> None:
        keyboard.down(key)
        shown.wait_views(condition)
        keyboard.up(key)

    hold("w", f"{WIDTH} < {0.6 * shown.views(WIDTH)}")
    hold("d", f"v.range.start > {shown.views('v.range.start')}")
    keyboard.press("f")
    shown.wait_views(f"Math.abs(({WIDTH}) / v.detail().dur - 3) < 1")
    focus = shown.views("v.store.get().focus")
    keyboard.press(".")
    shown.wait_views(f"v.store.get().focus > {focus}")
    keyboard.press(",")
    shown.wait_views(f"v.store.get().focus === {focus}")
    keyboard.press("0")
    shown.wait_views(f"{WIDTH} >= v.meta.span[1]")
    keyboard.press("?")
    shown.part(".nbp-help:not([hidden])").wait_for()
    keyboard.press("Escape")
    keyboard.press("Escape")
    shown.wait_kernel("print(p.selection.focus)", "None")
    shown.keys.focus()
    shown.views("v.setView(0.5 * v.meta.span[1], 0.6 * v.meta.span[1])")
    start, width = shown.views(f"[v.range.start, {WIDTH}]")
    hold("a", f"v.range.start < {start}")
    hold("s", f"{WIDTH} > {1.5 * width}")
    shown.views("v.setView(0, 0.2 * v.meta.span[1])")
    box = shown.overview.bounding_box()
    assert box is not None
    left, width, y = box["x"] + 184, box["width"] - 198, box["y"] + 15
    shown.drag((left + 0.1 * width, y), (left + 0.5 * width, y))
    shown.wait_views("Math.abs((v.range.start + v.range.end) / 2 / v.meta.span[1] - 0.5) < 0.03")


def test_tracks_fold_move_hide_and_are_selected(shown: NotebookPage) -> None:
    lanes = shown.views("v.timeline.snapshot().lanes")
    folded = f"v.timeline.snapshot().lanes < {lanes} && !v.timeline.snapshot().names.includes('{CONV}')"
    unfolded = f"v.timeline.snapshot().lanes === {lanes} && v.timeline.snapshot().names.includes('{CONV}')"
    for state in (folded, unfolded):
        shown.fold_of("MainThread").click()
        shown.wait_views(state)
    shown.track("MainThread").focus()
    for state in (folded, unfolded):
        shown.page.keyboard.press("Enter")
        shown.wait_views(state)
    before = shown.views(LANES)
    at = next(number for number, name in enumerate(before) if "autograd" in name)
    shown.track("autograd").focus()
    shown.page.keyboard.press("Alt+ArrowUp")
    shown.wait_views(f"{LANES}[{at - 1}] === {before[at]!r}")
    shown.page.keyboard.press("Alt+ArrowDown")
    shown.wait_views(f"{LANES}[{at}] === {before[at]!r}")
    shown.page.keyboard.press(" ")
    shown.wait_kernel("print(p.selection.track is not None)", "True")
    shown.page.keyboard.press(" ")
    shown.wait_kernel("print(p.selection.track)", "None")
    shown.page.keyboard.press("h")
    shown.wait_views(f"{LANES}.length === {len(before) - 1}")
    shown.part(".nbp-show-all").click()
    shown.wait_views(f"{LANES}.length === {len(before)}")
    shown.track_filter.fill("stream")
    shown.wait_views(f"{LANES}.length === 1")
    shown.track_filter.fill("")
    shown.wait_views(f"{LANES}.length === {len(before)}")


def test_colours_and_counters(shown: NotebookPage) -> None:
    for tint in ("category", "phase", "module", "step", "name"):
        count = shown.views("v.counts.timeline")
        shown.colours.select_option(tint)
        shown.wait_views(f"v.counts.timeline > {count}")
    shown.wait_views("v.timeline.counters.snapshot().drawn === 3")
    counter = shown.counter_lanes.nth(2)
    counter.filter(has_text="660 W").wait_for()
    assert "GPU 0 power" in counter.inner_text()


def test_slices_are_walked_along_rows_and_arrows(shown: NotebookPage) -> None:
    """From an operator to its kernel, from a forward to its backward, and along and into a track."""
    launch, kernel = (int(shown.kernel(f"print(p.trace.flows['{end}'][0])")) for end in ("src", "dst"))
    shown.views(f"v.store.set({{focus: {launch}}}, 'test')")
    shown.wait_views("v.detail() && v.timeline.snapshot().links === 1")
    shown.keys.focus()
    shown.page.keyboard.press("g")
    shown.wait_views(f"v.store.get().focus === {kernel} && v.detail()?.id === {kernel}")
    shown.page.keyboard.press("g")
    shown.wait_views(f"v.store.get().focus === {launch}")
    code = "f = p.trace.flows; print(*f[f['kind'] == 'fwdbwd'][['src', 'dst']].iloc[2])"
    forward, backward = (int(row) for row in shown.kernel(code).split())
    shown.views(f"v.store.set({{focus: {forward}}}, 'test')")
    shown.wait_views(f"v.detail()?.id === {forward} && v.timeline.snapshot().links === 1")
    assert shown.views("[v.detail().phase, v.detail().links[0].kind]") == ["forward", "fwdbwd"]
    ends = shown.views("(d => [d.xs[0][0], d.xs[0][3]])(v.doc.get_model_by_name('links').data)")
    starts = shown.kernel(f"print(*p.trace.slices['ts'][[{forward}, {backward}]])")
    assert ends == [int(start) for start in starts.split()]
    shown.page.keyboard.press("g")
    shown.wait_views(f"v.store.get().focus === {backward} && v.detail()?.phase === 'backward'")
    shown.part(".nbp-link", has_text=f"← {CONV}").click()
    shown.wait_views(f"v.store.get().focus === {forward}")
    start_over(shown)
    shown.wait_views("v.detail() === null")
    shown.keys.focus()
    shown.page.keyboard.press("ArrowRight")
    shown.wait_views("v.detail() !== null")
    assert shown.views("v.detail().track_name") == "stream 7", "the row on top"
    first = int(shown.kernel("s = p.trace.slices; print(s[(s['track'] == 0) & (s['depth'] == 0)].index[0])"))
    shown.views(f"v.store.set({{focus: {first}}}, 'test')")
    shown.wait_views(f"v.detail()?.id === {first}")
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


def test_what_is_found_is_marked_walked_and_explained(shown: NotebookPage) -> None:
    shown.page.mouse.click(*shown.slice(CONV))
    keyboard = shown.page.keyboard
    keyboard.press("/")
    keyboard.type("/add_$/")
    shown.wait_views("v.finder.snapshot().count === 80 && v.finder.snapshot().marks > 5")
    keyboard.press("Enter")
    shown.wait_views("v.detail()?.name === 'aten::add_' && v.finder.snapshot().place === 0")
    keyboard.press("Enter")
    shown.wait_views("v.finder.snapshot().place === 1")
    shown.wait_views("v.timeline.snapshot().outlined > 0")
    keyboard.press("Shift+Enter")
    keyboard.press("Shift+Enter")
    shown.wait_views("v.finder.snapshot().place === 79")
    keyboard.press("Escape")
    shown.wait_views("v.finder.snapshot().marks === 0 && v.timeline.snapshot().outlined === 0")
    assert shown.views("v.store.isEmpty()"), "finding selects nothing"
    shown.find.fill("step=5 /add_$/")
    shown.wait_views("v.finder.snapshot().count === 8 && v.finder.snapshot().marks > 0")
    marks = shown.views(
        "(m => [Math.min(...m.x0), Math.max(...m.x1)])(v.doc.get_model_by_name('marks').data)"
    )
    code = (
        "s = p.trace.slices; s = s[(s.step == 5) & (s.name == 'aten::add_')]; print(s.ts.min(), s.ts.max())"
    )
    start, end = (int(ts) for ts in shown.kernel(code).split())
    bin_ns = shown.views("v.meta.span[1]") / 1000
    assert marks[0] <= start <= marks[0] + bin_ns
    assert marks[1] - bin_ns <= end <= marks[1]
    shown.find.fill("phsae=forward")
    shown.part(".nbp-find-status.nbp-problem").wait_for()
    shown.find_status.filter(has_text="did you mean 'phase'").wait_for()
    shown.find.fill("")


def test_keys_do_not_reach_the_notebook_and_tab_reaches_everything(shown: NotebookPage) -> None:
    cells = shown.count_cells()
    shown.command("notebook:enter-command-mode")
    shown.page.mouse.click(*shown.slice(CONV))
    for key in "ddxzab0":
        shown.page.keyboard.press(key)
    for part in (shown.rows.first, shown.folds.first):
        part.focus()
        for key in "ddx":
            shown.page.keyboard.press(key)
    assert shown.count_cells() == cells
    start_over(shown)
    shown.keys.focus()
    border = "() => getComputedStyle(document.querySelector('.nbp')).borderTopColor"
    inside = shown.page.evaluate(border)
    stops: list[str] = []
    for _ in range(80):
        shown.page.keyboard.press("Tab")
        stop = shown.page.evaluate(STOP)
        if stop is None:
            break
        name, style, width = stop
        assert style != "none", f"{name} has the focus and does not show it"
        assert width != "0px", name
        stops.append(name)
    assert shown.page.evaluate(border) != inside, "the frame shows whether the keys are the views'"
    for label in (
        *("height of", "select the phase"),
        *("steps:", ("group by", "filter rows"), shown.views("v.table.snapshot().labels[0]")),
    ):  # of a toolbar the one that was used last is the stop
        assert any(name.startswith(label) for name in stops), (label, stops)


NESTED = """(() => {{
    const {{have}} = v.timeline.pictures, {{data}} = have.answer, {{rows}} = have.asked, lanes = new Map();
    for (const k of data.slot.keys()) {{
        const row = rows[data.slot[k]];
        if (row < {stack}) lanes.set(row, [...(lanes.get(row) ?? []), k]);
    }}
    const around = (a, b) => data.x0[a] <= data.x0[b] && data.x0[b] <= data.x0[a] + data.dur[a];
    return [...lanes].every(([row, own]) => !lanes.has(row - 1)
        || own.every((k) => lanes.get(row - 1).some((up) => around(up, k))));
}})()"""
"""Whether each rectangle of the first track begins inside one in the lane above."""


def test_frames_of_libraries_are_hidden_until_they_are_shown_below_what_called_them(
    report: Callable[..., Report], data: Path
) -> None:
    opened = report(nbp.open_profile(data / "torch213_cpu/cnn_adam.pt.trace.json.gz"))
    opened.settle()
    passed_on = "v.timeline.snapshot().names.filter((name) => name.includes('_call_impl')).length"
    lanes = opened.views("v.timeline.snapshot().lanes")
    assert opened.views(passed_on) == 0
    opened.part(".nbp-track button[title*='frames of libraries']").first.click()
    opened.wait_views(f"v.timeline.snapshot().lanes > {lanes} && {passed_on} > 0")
    stack = opened.views("v.meta.unfolded[0].depths")
    assert opened.views("v.timeline.lanes.list.filter(({row}) => row < 100).length") > stack
    assert opened.views(NESTED.format(stack=stack)), "a frame is not below what called it"
    opened.part(".nbp-track button[title^='hide frames of libraries']").first.click()
    opened.wait_views(f"v.timeline.snapshot().lanes === {lanes}")
    opened.find.fill("_call_impl")
    opened.find.press("Enter")
    opened.wait_views("v.store.get().focus !== null")
    opened.wait_views(f"v.timeline.snapshot().lanes > {lanes}")
    opened.wait_views(f"{passed_on} > 0")
