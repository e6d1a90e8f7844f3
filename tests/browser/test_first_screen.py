"""At 1,400 × 900 the answer, timeline, memory, phases and ten rows of the table are on screen together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import ViewportSize

import notebook_prof as nbp
from notebook_prof.views.report import report as report_module

from .conftest import SIZE
from .dashboard import Report
from .jupyter_page import Browser, NotebookPage

SMALL_SCREEN: ViewportSize = {"width": 1400, "height": 900}
TALL = (
    *("jax_cpu/vm.trace.json.gz", "megengine/cli.chrome_timeline.json.gz"),
    *("paddle/v262_static.pb.gz", "torch213_cpu/cnn_adam.pt.trace.json.gz"),
)
"""Recordings with many tracks, memory and steps: everything that takes height."""
EDGES = """() => {
    const box = (element) => element.getBoundingClientRect(), all = document.querySelectorAll('.nbp');
    const host = [...all].find((element) => element.querySelector('table[aria-label=operators]'));
    const rows = [...host.querySelectorAll('table[aria-label=operators] tbody tr')];
    const bottom = (name) => box(host.querySelector(name)).bottom;
    return {top: box(host).top, timeline: bottom('.nbp-timeline'), rows: rows.length,
            tenth: box(rows[Math.min(9, rows.length - 1)]).bottom, table: rows[0].offsetHeight,
            memory: bottom('.nbp-memory'), phases: bottom('.nbp-phases')};
}"""


RIGHT = """() => {
    const edges = [...document.querySelectorAll('.nbp-figure, .nbp-panel, .nbp-head, .nbp-table-scroll')]
        .map((element) => element.getBoundingClientRect().right);
    return [document.documentElement.clientWidth, Math.ceil(Math.max(...edges))];
}"""
HOLD = """() => {
    const append = HTMLHeadElement.prototype.append;
    HTMLHeadElement.prototype.append = function (...parts) {
        const isHeld = parts[0].src?.startsWith('blob:') && sessionStorage.nbpHold;
        if (!isHeld) return append.apply(this, parts);
        window.nbpRelease = () => append.apply(this, parts);
    };
}"""
"""Holds BokehJS where `sessionStorage.nbpHold` is set."""
EARLY = """() => {
    const painted = (canvas) => {
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return data.some(Boolean) && canvas.parentElement.querySelector('.bk-Figure') === null;
    };
    const canvases = [...document.querySelectorAll('.nbp-early')].filter(painted);
    const rows = document.querySelectorAll('table[aria-label=operators] tbody tr').length;
    const views = canvases.map((one) => one.parentElement.className.split('-').pop());
    return rows ? [...views, 'table'] : views;
}"""
PANEL = "() => document.querySelector('.jp-WindowedPanel-outer').getBoundingClientRect()"


def test_a_report_has_them_on_its_first_screen(
    browser: Browser, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # tabs take most of the time, and the first screen shows none of them
    monkeypatch.setattr(report_module, "embedded", lambda trace: {})
    for name in TALL:
        nbp.open_profile(data / name).export.html(path := tmp_path / "first_screen.html")
        browser.blank()
        browser.page.bring_to_front()
        browser.page.set_viewport_size(SMALL_SCREEN)
        opened = Report(browser.page).show(path)
        edges: dict[str, Any] = opened.page.evaluate(EDGES)
        assert 0 <= edges["top"] < edges["timeline"] < edges["tenth"] <= SMALL_SCREEN["height"], (name, edges)
        assert edges["table"], "the table of operators is hidden"
        assert edges["memory"] < edges["tenth"], (name, edges)
        assert edges["phases"] <= SMALL_SCREEN["height"], (name, edges)


def test_a_window_that_is_made_lower_or_higher_has_them_too(
    report: Callable[..., Report], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reload is needed. The overview asks again only if the width changes. Nothing is cut off."""
    monkeypatch.setattr(report_module, "embedded", lambda trace: {})
    opened = report(nbp.open_profile(data / TALL[-1]))
    page = opened.page
    page.add_style_tag(content="html {overflow-y: scroll}")  # a scroll bar that appears narrows the page
    opened.settle()
    high: dict[str, Any] = page.evaluate(EDGES)
    rows, strips = opened.views("[v.timeline.lanes.room(), v.log.of.strip]")
    page.set_viewport_size(SMALL_SCREEN)
    opened.wait_views(f"v.timeline.lanes.room() < {rows}")
    opened.settle()
    edges = page.evaluate(EDGES)
    assert edges["timeline"] < edges["tenth"] <= SMALL_SCREEN["height"], edges
    assert edges["phases"] <= SMALL_SCREEN["height"], edges
    assert opened.views("v.log.of.strip") == strips
    page.set_viewport_size({**SMALL_SCREEN, "width": 700})
    opened.settle()
    assert opened.views("v.log.of.strip") > strips
    wide, right = page.evaluate(RIGHT)
    assert right <= wide, "something stands beyond the right edge"
    page.set_viewport_size(SIZE)
    opened.wait_views(f"v.timeline.lanes.room() === {rows}")
    opened.settle()
    assert page.evaluate(EDGES) == high


def test_a_notebook_shows_them_together(notebook: Callable[..., NotebookPage], data: Path) -> None:
    """Below menu, tabs and toolbar of JupyterLab, once it is scrolled to, and before BokehJS is there."""
    path = str(data / TALL[-1])
    shown = notebook(
        "first_screen.ipynb", f"import notebook_prof as nbp\np = nbp.open_profile({path!r})", "p"
    )
    shown.page.set_viewport_size(SMALL_SCREEN)
    shown.wait_ready()
    shown.save()
    shown.page.add_init_script(f"({HOLD})()")
    shown.page.evaluate("() => sessionStorage.nbpHold = 'yes'")
    shown.reload()
    shown.page.wait_for_function(f"() => ({EARLY})().length === 4")
    assert sorted(shown.page.evaluate(EARLY)) == ["memory", "phases", "table", "timeline"]
    shown.page.evaluate("() => { delete sessionStorage.nbpHold; window.nbpRelease(); }")
    shown.wait_ready()
    shown.page.wait_for_function("() => !document.querySelector('.nbp-early')")
    assert shown.part("table[aria-label=operators]").count() == 1
    shown.part(".nbp").evaluate("(element) => element.scrollIntoView()")
    edges: dict[str, Any] = shown.page.evaluate(EDGES)
    panel = shown.page.evaluate(PANEL)
    assert panel["top"] - 1 <= edges["top"] < edges["timeline"] < edges["memory"], edges
    assert edges["table"], "the table of operators is hidden"
    assert edges["tenth"] <= panel["bottom"], edges
    assert edges["phases"] <= panel["bottom"], edges
