"""Every display shows the same picture, whatever has happened to the page meanwhile."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import SETUP
from .dashboard import Report
from .jupyter_page import NotebookPage

DISPLAYS = 3
SECONDS = 240
ROUNDS = 10 if "NBP_EXPLORE" in os.environ else 1
PICTURES = """['overview', 'timeline', 'memory', 'phases'].map((name) => {
    const figure = v.doc.get_model_by_name(name), {canvas_view: canvas} = v.timeline.ctx.host.viewOf(figure);
    return canvas.compose().el.toDataURL();
})"""
OTHER_THEME = """() => {
    document.querySelector('.nbp-host').nbp.theme().seen = true;
    document.body.dataset.jpThemeName = 'another'; }"""
SIZED = "v.timeline.view.frame.bbox.width > 100 && v.timeline.snapshot().quads > 0"
SCROLL = """(share) => {
    const panel = window.jupyterapp.shell.currentWidget.node.querySelector('.jp-WindowedPanel-outer');
    panel.scrollTop = share * panel.scrollHeight; }"""


def pictures(shown: NotebookPage) -> list[list[str]]:
    """What the canvases of each display hold, when all of them are drawn."""
    shown.page.mouse.move(2, 2)
    for index in range(DISPLAYS):
        shown.page.evaluate(SCROLL, (index + 1) / (DISPLAYS + 1))
        shown.wait_views(SIZED, index)
        shown.settle(index)
    return [shown.views(PICTURES, index) for index in range(DISPLAYS)]


def all_alike(shown: NotebookPage, begun: list[str] | None = None, when: str = "at first") -> list[str]:
    """Wait until all displays show the pictures `begun`, by default those of the first display."""
    until = time.monotonic() + SECONDS
    found: list[list[str]] = []
    while True:  # a busy page may draw an answer long after receiving it
        before, found = found, pictures(shown)
        wanted = begun or found[0]
        same = [[a == b for a, b in zip(wanted, one, strict=True)] for one in found]
        if found == before and all(map(all, same)):
            return wanted
        if time.monotonic() > until:
            themes = [shown.views("v.theme()", index) for index in range(DISPLAYS)]
            pytest.fail(f"{when}: {same} of overview, timeline, memory, phases are alike; themes: {themes}")


def reload_page(shown: NotebookPage) -> None:
    shown.save()
    shown.reload()
    shown.wait_ready(DISPLAYS)


def collapse_and_expand(shown: NotebookPage) -> None:
    shown.command("notebook:hide-all-cell-outputs")
    shown.page.wait_for_timeout(300)  # nothing says that a hidden output is laid out
    shown.command("notebook:show-all-cell-outputs")
    shown.wait_ready(DISPLAYS)


def scroll_far(shown: NotebookPage) -> None:
    for share in (1.0, 0.0, 1.0, 0.0):
        shown.page.evaluate(SCROLL, share)
        shown.page.wait_for_timeout(150)  # as long as a hand needs to scroll back


def go_elsewhere(shown: NotebookPage) -> None:
    shown.command("launcher:create")
    shown.page.wait_for_timeout(300)  # as long as one looks at it
    shown.command("application:close")
    shown.wait_ready(DISPLAYS)


def split_right(shown: NotebookPage) -> None:
    """A second view of the notebook beside it, in which all of its displays are drawn once more."""
    shown.command("docmanager:clone")
    shown.wait_ready(2 * DISPLAYS)
    visible = (
        "[...document.querySelectorAll('.nbp-host')].filter((h) => h.getBoundingClientRect().width > 100)"
    )
    drawn = f"{visible}.length > {DISPLAYS} && {visible}.some((h) => h.nbp.timeline.snapshot().quads > 0)"
    shown.page.wait_for_function(f"() => {drawn}")
    shown.command("application:close")
    shown.wait_ready(DISPLAYS)


def new_view_of_output(shown: NotebookPage) -> None:
    """One display in a panel of its own below."""
    shown.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    shown.command("notebook:create-output-view")
    shown.wait_ready(DISPLAYS + 1)
    view = "document.querySelector('.jp-LinkedOutputView .nbp-host')"
    shown.page.wait_for_function(f"() => {view}?.nbp?.timeline.snapshot().quads > 0")
    assert shown.page.evaluate(f"() => {view}.nbp.timeline.snapshot().labels.length") > 0
    shown.page.evaluate("""() => {
        const {shell} = window.jupyterapp, widgets = [...shell.widgets('main')];
        widgets.find(({node}) => node.querySelector('.jp-LinkedOutputView')).close();
        shell.activateById(widgets.find(({node}) => node.querySelector('.jp-Notebook')).id); }""")
    shown.wait_ready(DISPLAYS)


def test_a_page_whose_colours_change_slowly(report: Callable[..., Report], drawn_file: Path) -> None:
    """During a CSS transition, a single probe returned the background for every colour of the theme."""
    shown = report(drawn_file)
    before = shown.views("v.theme()")
    assert len({*before.values()}) > 3
    shown.page.add_style_tag(
        content="* { transition: color 2s } body { --jp-brand-color1: oklch(0.5 0.15 255) }"
    )
    shown.page.evaluate(OTHER_THEME)
    shown.wait_views("v.theme().seen === undefined")  # read again
    theme = shown.views("v.theme()")
    accents = before.pop("accent"), theme.pop("accent")
    assert theme == before
    assert accents == ("rgb(25, 118, 210)", "rgba(23, 98, 182, 1)"), "Bokeh does not know the notation"


@pytest.mark.timeout(900)
def test_displays_are_alike_whatever_happened(notebook: Callable[..., NotebookPage]) -> None:
    shown = notebook("redraw.ipynb", SETUP, *["p"] * DISPLAYS)
    shown.wait_ready(DISPLAYS)
    begun = all_alike(shown)
    assert min(map(len, begun)) > 1000, "something is drawn"
    for number in range(ROUNDS):
        for event in (
            *(collapse_and_expand, scroll_far, split_right, new_view_of_output, go_elsewhere),
            reload_page,
        ):
            event(shown)
            all_alike(shown, begun, f"round {number}, after {event.__name__}")
