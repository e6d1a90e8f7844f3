"""Ten million slices in a real JupyterLab: they are shown, and look as before."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .jupyter_page import Browser, NotebookPage, Server, write_notebook
from .test_pictures import _compare

SLICES = 10_000_384

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# the verdict, and then the static form, come after the views
ALL_THERE = """() => { const drawn = document.querySelector('.nbp-host')?.nbp?.counts;
    return drawn?.timeline && drawn.table && document.querySelector('.nbp-static img')
        && document.querySelector('.nbp-headline .nbp-verdict:not(.nbp-working)'); }"""


@pytest.fixture(scope="module")
def shown(browser: Browser, lab: Server, root: Path) -> Iterator[NotebookPage]:
    """A dashboard of ten million slices."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if memory < 6 * 2**30:
        pytest.skip("ten million slices need 6 GiB of memory here")
    setup = "from ten_million import ten_million_profile\np = ten_million_profile()"
    write_notebook(root / "ten_million.ipynb", [setup, "p"])
    browser.page.set_viewport_size({"width": 1400, "height": 1250})
    browser.blank()
    notebook = NotebookPage(browser, lab, "ten_million.ipynb").open()
    browser.page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
    notebook.run_all(patience_ms=400_000)
    browser.page.wait_for_function(ALL_THERE, timeout=600_000)
    browser.page.evaluate("() => document.querySelector('.nbp-host').scrollIntoView()")
    yield notebook
    browser.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")
    browser.page.goto("about:blank")


@pytest.mark.parametrize("scheme", ["Light", "Dark"])
def test_it_looks_as_before(shown: NotebookPage, scheme: str) -> None:
    change = "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
    page = shown.page
    page.evaluate(change, f"JupyterLab {scheme}")
    background = {"Light": "rgb(255, 255, 255)", "Dark": "rgb(17, 17, 17)"}[scheme]
    try:
        shown.wait_views(f"v.theme().background === {background!r} && v.counts.phases")
        page.mouse.move(5, 5)
        shown.settle()
        _compare(f"ten-million-{scheme.lower()}", page.locator(".nbp-host").screenshot)
    finally:
        page.evaluate(change, "JupyterLab Light")
    assert shown.views("v.meta.slices") == SLICES
    assert shown.browser.errors == []


def test_the_hand_reaches_each_slice(shown: NotebookPage) -> None:
    """Wheel, drag, a held key and a click: from all to one, which is the one that the trace has there."""
    page = shown.page
    shown.views("v.setView(...v.meta.span)")
    box = page.locator(".nbp-timeline").bounding_box()
    assert box is not None
    x, y = box["x"] + 0.5 * box["width"], box["y"] + 150
    page.mouse.click(x, y)
    shown.wait_views("v.timeline.snapshot().mode === 'dense'")
    for _ in range(13):
        page.mouse.wheel(0, -400)
    shown.wait_views("v.range.end - v.range.start < 2e5")
    begin = shown.views("v.range.start")
    page.mouse.down()
    page.mouse.move(x + 300, y, steps=5)
    page.mouse.up()
    shown.wait_views(f"v.range.start < {begin}")
    begin = shown.views("v.range.start")
    page.keyboard.down("a")
    shown.wait_views(f"v.range.start < {begin}")
    page.keyboard.up("a")
    shown.settle()
    shown.wait_views("v.timeline.snapshot().mode === 'all'")
    top, bottom = box["y"] + 60, box["y"] + box["height"] - 20
    at = shown.views(
        "v.timeline.snapshot().names.map((name) => v.timeline.locate(name))"
        f".find((one) => one && one.width > 8 && one.y > {top} && one.y < {bottom})"
    )
    page.mouse.click(at["x"], at["y"])
    shown.wait_views(f"v.detail()?.id === {at['id']}")
    found = shown.views("[v.detail().name, v.detail().ts, v.detail().dur]")
    row = shown.kernel(f"s = p.trace.slices.iloc[{at['id']}]; print(s['name'], s['ts'], s['dur'])")
    assert " ".join(map(str, found)) == row
    page.keyboard.press("Escape")
    shown.views("v.setView(...v.meta.span)")
    shown.settle()


def test_its_picture_needs_no_browser(shown: NotebookPage, root: Path) -> None:
    shown.kernel("p.export.png('ten.png', 'timeline', width=480)")
    _compare("ten-million-png", (root / "ten.png").read_bytes)
    told = "window.jupyterapp.shell.currentWidget.content.widgets[1].model.outputs.toJSON()"
    words = "10,000,384 slices on 64 tracks"
    shown.page.wait_for_function(f"() => JSON.stringify({told}).includes({words!r})")
    outputs = json.dumps(shown.page.evaluate(f"() => {told}"))
    assert words in outputs
    assert len(outputs) < 400_000, "and the notebook stays small"
