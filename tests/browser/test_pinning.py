"""Pinned tracks: at the top of every display, whatever else scrolls, and kept."""

from collections.abc import Callable

from .dashboard import Report
from .drawn_tracks import many_tracks
from .jupyter_page import NotebookPage

SETUP = "from drawn_tracks import many_tracks\np = many_tracks()"
PINNED = "v.store.get().pinned"
TOPS = """(v => [...v.timeline.element.querySelectorAll('.nbp-gutter-pins > .nbp-track')]
    .map(row => [row.dataset.key, Math.round(row.getBoundingClientRect().top
        - v.timeline.element.getBoundingClientRect().top)]))(v)"""
SCROLL = "v.timeline.gutter.box.scrollTop = 1e6"
SCROLLED = "v.timeline.laneRange.end > 5"
# whether a slice, a pixel wide, is painted in the lane of the pinned track: neither ground nor a line
PAINTED = """(v => {
    const spot = v.timeline.locate('copy_1', 1), rect = v.timeline.element.getBoundingClientRect();
    const {el} = v.timeline.view.canvas_view.compose(), ratio = el.width / v.timeline.element.offsetWidth;
    const {data} = el.getContext('2d')
        .getImageData(ratio * (spot.x - rect.left) - 3, ratio * (spot.y - rect.top), 7, 1);
    return [0, 4, 8, 12, 16, 20, 24].some((at) => { const [r, g, b, a] = data.slice(at, at + 4);
        return a > 100 && Math.max(r, g, b) - Math.min(r, g, b) > 40; }); })(v)"""


def test_pinned_tracks_stay_and_are_shared(notebook: Callable[..., NotebookPage]) -> None:
    shown = notebook("pinning.ipynb", SETUP, "p", "p")
    shown.wait_ready(2)
    shown.to_views()
    copies = shown.track("stream 20").nth(1)  # of GPU 1
    copies.hover()
    copies.locator(".nbp-pin").click()
    shown.wait_kernel("print(p.selection.pinned)", "(16,)")
    for index in (0, 1):
        shown.wait_views(
            f"{PINNED}.length === 1 && v.timeline.lanes.placeOfRow(v.meta.tracks[3].row) === 0", index
        )
    assert shown.part(".nbp-pin[aria-pressed=true]").count() == 2
    shown.page.mouse.move(5, 5)
    name = shown.part(".nbp-gutter-pins .nbp-track-name")
    assert name.first.evaluate("e => [e.textContent, e.scrollWidth <= e.clientWidth]") == [
        "stream 20 · GPU 1",
        True,
    ], "with its device, as the other has a stream of this number too"
    worker = shown.track("worker 11").first
    worker.focus()
    shown.page.keyboard.press("p")
    shown.wait_kernel("print(p.selection.pinned)", "(16, 12)")
    assert shown.views(TOPS) == [["16", 26], ["12", 44]]
    assert shown.page.evaluate("() => document.activeElement.dataset.key") == "12", "the keys stay at it"
    # the others scroll below them, and what is painted and found under the pointer does not
    shown.views(SCROLL)
    shown.wait_views(SCROLLED)
    shown.settle()
    assert shown.views(TOPS) == [["16", 26], ["12", 44]]
    assert shown.views(PAINTED)
    spot = shown.wait_point("v.timeline.locate('copy_1', 1)")
    shown.page.mouse.click(*spot)
    shown.wait_views("v.detail()?.name === 'copy_1'")
    assert shown.views(
        "(f => [f.y0[0] - v.timeline.laneRange.end < 1, f.y0.length])(v.timeline.sources.focus.data)"
    ) == [True, 1]
    # their order, by the keys; a counter too
    shown.track("worker 11").first.focus()
    shown.page.keyboard.press("Alt+ArrowUp")
    shown.wait_kernel("print(p.selection.pinned)", "(12, 16)")
    shown.counter_lanes.first.focus()
    shown.page.keyboard.press("p")
    shown.wait_kernel("print(p.selection.pinned)", "(12, 16, 17)")
    shown.wait_views("v.timeline.counters.snapshot().points[0] > 5", 0)
    # Esc and Clear leave them; Python sets them
    shown.kernel("p.selection.update(name='load')")
    shown.wait_views("v.timeline.snapshot().filtered")
    shown.clear.first.click()
    shown.wait_kernel("print(p.selection.describe(), p.selection.pinned)", "everything (12, 16, 17)")
    shown.kernel("p.selection.pinned = [0, 16]")
    for index in (0, 1):
        shown.wait_views(f"{PINNED}.join() === '0,16'", index)
        shown.wait_views(f"{TOPS}.map(([key]) => key).join() === '0,16'", index)
    # hidden, closed and filtered elsewhere, they stay
    shown.track_filter.first.fill("no such track")
    shown.wait_views("v.timeline.lanes.count() === 4")
    shown.track_filter.first.fill("")
    shown.save()
    shown.reload()
    shown.wait_ready(2)
    shown.wait_views(f"{TOPS}.map(([key]) => key).join() === '0,16'")


def test_a_report_keeps_pinned_tracks(report: Callable[..., Report]) -> None:
    profile = many_tracks()
    profile.selection.pinned = [17, 14]
    shown = report(profile)
    assert shown.views(TOPS) == [["17", 26], ["14", 62]]
    shown.track("MainThread").focus()
    shown.page.keyboard.press("p")
    shown.wait_views(f"{PINNED}.join() === '17,14,0'")
    shown.page.reload()
    shown.wait_views(f"v.counts.table && {PINNED}.join() === '17,14,0'")
    shown.page.set_viewport_size({"width": 340, "height": 900})
    shown.wait_views("v.timeline.element.closest('.nbp-narrow') && v.timeline.widthPx() < 320")
    pin = shown.part(".nbp-pin[aria-pressed=true]").nth(1)
    assert pin.is_visible()
    pin.click()
    shown.wait_views(f"{PINNED}.join() === '17,0'")


ROWS = "v.timeline.element.querySelectorAll('.nbp-gutter .nbp-track').length"
LAST = "v.timeline.lanes.all().filter(lane => lane.kind === 'lane').at(-1).track.track"
FOCUSED = "document.activeElement.dataset.key"


def test_of_very_many_tracks_those_near_have_names(report: Callable[..., Report]) -> None:
    """Ten thousand rows of names would take a second to make at every pin."""
    shown = report(many_tracks(workers=600))
    assert 20 < int(shown.views(ROWS)) < 150
    shown.views(SCROLL)
    shown.wait_views(f'v.timeline.element.querySelector(`[data-key="${{{LAST}}}"]`)')
    assert 20 < int(shown.views(ROWS)) < 150
    key = str(shown.views(LAST))
    row = shown.part(f".nbp-gutter [data-key='{key}']")
    row.focus()
    shown.page.keyboard.press("p")
    shown.wait_views(f"{PINNED}.join() === '{key}'")
    assert shown.page.evaluate(FOCUSED) == key, "the keys stay at it"
    shown.views("v.timeline.gutter.box.scrollTop = 0")
    shown.wait_views("v.timeline.laneRange.end === 0")
    shown.page.keyboard.press("p")
    shown.wait_views(f"{PINNED} === null")
    assert shown.page.evaluate(FOCUSED) == key, "also where it goes out of sight"
    shown.page.keyboard.press("ArrowUp")
    before = int(shown.page.evaluate(FOCUSED))
    assert before == shown.views("v.timeline.lanes.all().filter(l => l.first && l.track).at(-2).track.track")
    shown.wait_views(f"v.timeline.laneRange.end > 500 && {FOCUSED} === '{before}'")
