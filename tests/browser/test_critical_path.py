"""The critical path over the tracks, in a notebook and in a report: what is drawn, what is said."""

from collections.abc import Callable
from pathlib import Path

from notebook_prof import Profile

from .conftest import SIZE
from .dashboard import Dashboard, Report
from .drawn_gpu import drawn_training
from .goldens import IMAGES, takes_pictures
from .jupyter_page import NotebookPage

DRAWN = """(s => s && {tracks: [...new Set(s.track)], from: s.start[0], to: s.end.at(-1)})(
    v.timeline.path.segments)"""
BARS = "v.timeline.path.picture.bars.length"


def toggle(shown: Dashboard) -> None:
    """Press the button, and wait for what it shows or hides."""
    button = shown.part(".nbp-bar button", has_text="path")
    before = button.get_attribute("aria-pressed")
    button.click()
    shown.wait_views(f"(v.timeline.path.segments !== null) === {str(before == 'false').lower()}")
    assert button.get_attribute("aria-pressed") != before


def test_it_is_drawn_as_python_lists_it_and_goes_with_esc(shown: NotebookPage) -> None:
    shown.settle()
    plain = shown.timeline.screenshot()
    toggle(shown)
    shown.wait_views(f"{BARS} > 0")
    said, call = shown.detail.inner_text().split(" · in Python: ")
    assert said.startswith("Critical path, ")
    shown.kernel(f"c = {call}; k = c.groupby('class', observed=True)['dur_ns'].sum().sort_values()")
    share = shown.kernel("print(f'{k.iloc[-1] / k.sum():.1%}')").strip()
    assert f" {share.replace('%', ' %')}" in said
    tracks = shown.kernel("print(sorted(map(int, c['track'].dropna().unique())))").strip()
    window = shown.kernel("print(int(c['start_ns'].min()), int(c['end_ns'].max()))").split()
    drawn = shown.views(DRAWN)
    assert str(sorted(drawn["tracks"])) == tracks
    assert [drawn["from"], drawn["to"]] == [int(word) for word in window]
    assert shown.timeline.screenshot() != plain
    shown.page.keyboard.press("Escape")
    shown.wait_views("v.timeline.path.segments === null")
    assert "Click a slice" in shown.detail.inner_text()
    shown.page.keyboard.press("p")
    shown.wait_views(f"v.timeline.path.segments !== null && {BARS} > 0")
    shown.page.keyboard.press("p")
    shown.wait_views("v.timeline.path.segments === null")
    shown.page.mouse.move(5, 5)
    shown.settle()
    assert shown.timeline.screenshot() == plain


def test_why_draws_the_path_of_what_it_explains(shown: NotebookPage) -> None:
    toggle(shown)
    whole = shown.views(DRAWN)
    shown.page.mouse.click(*shown.slice("aten::conv2d", 2))
    shown.page.keyboard.press("y")
    call = shown.part(".nbp-why code").inner_text()
    explained = shown.views(DRAWN)
    found = shown.kernel(f"w = {call}; print(w.start_ns, w.end_ns)").split()
    assert found == [str(explained["from"]), str(explained["to"])]
    shown.page.keyboard.press("Escape")
    shown.wait_views(f"v.timeline.path.segments.start[0] === {whole['from']}")
    assert shown.views(DRAWN) == whole
    toggle(shown)


def test_a_slider_asks_what_if(shown: NotebookPage) -> None:
    """For the row that is selected: the sentence is Python's, and follows slider and selection."""
    box, page = shown.part(".nbp-what-if"), shown.page
    shown.row("aten::conv2d").click()
    shown.part(".nbp-what-if-button").click()
    call = box.locator("code").inner_text()
    assert call == "p.what_if(scale={'aten::conv2d': 0.5})"
    assert box.locator(".nbp-why-first").inner_text() == shown.kernel(f"print(str({call}))").strip()
    assert box.locator("tr").count() > 1
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    sentence = shown.kernel("print(str(p.what_if(scale={'aten::conv2d': 0.3})))").strip()
    box.get_by_text(sentence, exact=True).wait_for()
    shown.kernel("p.selection.update(name=None, phase='backward')")
    box.get_by_text("What if phase backward × 0.3", exact=False).wait_for()
    page.set_viewport_size({"width": 620, "height": 900})
    shown.wait_views("document.querySelector('.nbp').classList.contains('nbp-narrow')")
    overfull = "cells => cells.filter(c => c.scrollWidth > c.clientWidth + 1).map(c => c.textContent)"
    assert box.locator("td").evaluate_all(overfull) == []
    page.set_viewport_size(SIZE)
    page.keyboard.press("Escape")
    box.wait_for(state="hidden")
    assert page.locator(".nbp-what-if-button").is_visible(), "the selection stays"
    shown.kernel("p.selection.clear()")
    shown.part(".nbp-what-if-button").wait_for(state="hidden")
    page.keyboard.press("i")
    box.get_by_text("Select a name", exact=False).wait_for()
    page.keyboard.press("Escape")


def test_a_report_draws_it_without_a_kernel(report: Callable[..., Report], drawn_file: Path) -> None:
    shown = report(drawn_file)
    toggle(shown)
    shown.wait_views(f"{BARS} > 0")
    assert "in Python: p.critical_path(window=(" in shown.detail.inner_text()
    toggle(shown)


@takes_pictures
def test_take_a_picture(report: Callable[..., Report]) -> None:
    shown = report(Profile(drawn_training()))
    shown.page.set_viewport_size({"width": 1200, "height": 900})
    shown.views("v.setView(...v.meta.stepColumns.ts.slice(2, 4))")
    shown.settle()
    toggle(shown)
    shown.wait_views(f"{BARS} > 0")
    shown.page.mouse.move(2, 2)
    path = IMAGES / "critical-path.png"
    head, foot = shown.host.bounding_box(), shown.detail.bounding_box()
    assert head is not None
    assert foot is not None
    height = foot["y"] + foot["height"] - head["y"]
    shown.page.screenshot(path=path, clip={**head, "height": height})


@takes_pictures
def test_take_a_picture_of_the_slider(notebook: Callable[..., NotebookPage], data: Path) -> None:
    path = data / "torch213_cpu/cnn_adam.pt.trace.json.gz"
    shown = notebook("slider.ipynb", "import notebook_prof as nbp", f"p = nbp.open_profile({str(path)!r}); p")
    shown.wait_ready()
    shown.kernel("p.selection.update(name='aten::convolution_backward')")
    shown.part(".nbp-what-if-button").click()
    shown.part(".nbp-what-if code").wait_for()
    shown.settle()
    shown.part(".nbp").screenshot(path=IMAGES / "what-if.png")
