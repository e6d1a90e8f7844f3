"""What the hand sees before the kernel has answered, and gestures that `test_gestures` leaves out."""

from __future__ import annotations

from .jupyter_page import NotebookPage

CONV = "aten::conv2d"
# answers are held back until they are let go
HOLD = """(() => { const plain = v.transport.request; let go;
    const gate = new Promise((done) => { go = done; });
    v.transport.request = (message) => plain(message).then((answer) => gate.then(() => answer));
    window.nbpGo = () => { v.transport.request = plain; go(); }; return true; })()"""


def test_what_was_clicked_shows_before_the_kernel_answers(shown: NotebookPage) -> None:
    """The page knows the names of the slices that it draws; the kernel's marks are the same."""
    marked = "(t => [t.filtered, t.matched])(v.timeline.snapshot())"
    shown.views(HOLD)
    try:
        count = shown.views("v.counts.timeline")
        shown.page.locator("tr[data-name='aten::add_']").click()
        shown.wait_views("v.timeline.snapshot().filtered")
        foreseen = shown.views(marked)
        assert shown.views("v.counts.timeline") == count, "no answer was drawn yet"
        assert shown.views("v.timeline.snapshot().quads") > foreseen[1] > 0
    finally:
        shown.page.evaluate("() => window.nbpGo()")
    shown.wait_views(f"v.counts.timeline > {count}")
    shown.settle()
    assert shown.views(marked) == foreseen
    assert foreseen[1] == int(shown.kernel("print(int((p.trace.slices['name'] == 'aten::add_').sum()))"))


def test_a_selection_leaves_the_picture_and_sends_its_marks(shown: NotebookPage) -> None:
    """Another selection changes no slice's place: only what is bright is told."""
    shown.views(
        """(() => { const plain = v.transport.request; window.nbpAnswers = [];
            window.nbpPlain = () => { v.transport.request = plain; };
            v.transport.request = (message) => plain(message).then((answer) => {
                if (message.t === 'lod') window.nbpAnswers.push(answer.content.columns.map(([name]) => name));
                return answer; });
            return true; })()"""
    )
    try:
        shown.page.locator("tr[data-name='aten::add_']").click()
        shown.page.wait_for_function("() => window.nbpAnswers.length > 0")
    finally:
        shown.page.evaluate("() => window.nbpPlain()")
    assert set(shown.page.evaluate("() => window.nbpAnswers.flat()")) <= {"match", "bright"}
    assert shown.page.evaluate("() => window.nbpAnswers.flat()").count("match") > 0


def test_keys_pan_back_and_zoom_out(shown: NotebookPage) -> None:
    shown.page.locator(".nbp").focus()
    shown.views("v.setView(0.5 * v.meta.span[1], 0.6 * v.meta.span[1])")
    start, width = shown.views("[v.range.start, v.range.end - v.range.start]")
    for key, wanted in (
        ("a", f"v.range.start < {start}"),
        ("s", f"v.range.end - v.range.start > {1.5 * width}"),
    ):
        shown.page.keyboard.down(key)
        shown.wait_views(wanted)
        shown.page.keyboard.up(key)


def test_ctrl_and_wheel_zoom_without_the_focus(shown: NotebookPage) -> None:
    shown.page.evaluate("() => document.activeElement?.blur()")
    at = shown.wait_place(f"v.timeline.locate({CONV!r}, 0)")
    shown.page.mouse.move(*at)
    whole = shown.views("v.range.end - v.range.start")
    shown.page.keyboard.down("Control")
    for _ in range(6):
        shown.page.mouse.wheel(0, -120)
    shown.page.keyboard.up("Control")
    shown.wait_views(f"v.range.end - v.range.start < {0.7 * whole}")


def test_a_wheel_takes_away_what_the_tooltip_told(shown: NotebookPage) -> None:
    """A tooltip that stays while the picture moves tells of something else."""
    at = shown.wait_place("v.timeline.locate('Tensor.backward', 2)")
    shown.page.mouse.click(*at)
    shown.page.mouse.move(at[0] + 1, at[1])
    tip = shown.page.locator(".nbp-tooltip")
    shown.page.locator(".nbp-tooltip:not([hidden])", has_text="Tensor.backward").wait_for()
    told = tip.inner_text()
    width = shown.views("v.range.end - v.range.start")
    shown.page.evaluate(
        """() => { const tip = document.querySelector('.nbp-tooltip'); window.nbpHid = 0;
            const look = () => { window.nbpHid += tip.hidden; };
            new MutationObserver(look).observe(tip, {attributes: true}); }"""
    )
    shown.page.mouse.wheel(0, -240)
    shown.wait_views(f"v.range.end - v.range.start < {0.9 * width} && window.nbpHid > 0")
    shown.page.locator(".nbp-tooltip:not([hidden])", has_text="Tensor.backward").wait_for()
    assert tip.inner_text().splitlines()[0] == told.splitlines()[0]


def test_a_track_folds_by_keyboard(shown: NotebookPage) -> None:
    lanes = shown.views("v.timeline.snapshot().lanes")
    shown.page.locator(".nbp-track-lane[aria-label^='track MainThread']").focus()
    shown.page.keyboard.press("Enter")
    shown.wait_views(f"v.timeline.snapshot().lanes < {lanes}")
    shown.page.keyboard.press("Enter")
    shown.wait_views(f"v.timeline.snapshot().lanes === {lanes}")
