"""More than a million slices in a real JupyterLab: they are shown, and look as before.

From a million on the first picture comes from an early index. Ten million are shown by ``make bench``.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import SIZE
from .desk import OWN, Desk
from .goldens import compare
from .jupyter_page import NotebookPage

SLICES = 1_300_480

# the verdict, and then the static form, come after the views
ALL_THERE = """() => { const drawn = document.querySelector('.nbp-host')?.nbp?.counts;
    return drawn?.timeline && drawn.table && document.querySelector('.nbp-static img')
        && document.querySelector('.nbp-headline .nbp-verdict:not(.nbp-working)'); }"""


@pytest.fixture(scope="module")
def shown(desk: Desk) -> Iterator[NotebookPage]:
    """A dashboard of more than a million slices."""
    setup = "from over_a_million import profile_of_many\np = profile_of_many()"
    desk.page.set_viewport_size(SIZE)
    desk.browser.forget()
    notebook = desk.open("many.ipynb", [setup, "p"], OWN)
    notebook.command("application:toggle-left-area")
    notebook.run_all()
    desk.page.wait_for_function(ALL_THERE)
    notebook.to_views()
    yield notebook
    desk.close()


def test_it_looks_as_before(shown: NotebookPage, root: Path) -> None:
    """In light and in dark, and in a picture that needs no browser; the notebook stays small."""
    try:
        for scheme in ("Dark", "Light"):
            shown.change_theme(scheme)
            shown.wait_views("v.counts.phases")
            shown.page.mouse.move(5, 5)
            shown.settle()
            compare(f"many-{scheme.lower()}", shown.host.screenshot)
    finally:
        shown.change_theme("Light")
    assert shown.views("v.meta.slices") == SLICES
    shown.kernel("p.export.png('many.png', 'timeline', width=480)")
    compare("many-png", (root / "many.png").read_bytes)
    words = f"{SLICES:,} slices on 64 tracks"
    outputs = "window.jupyterapp.shell.currentWidget.content.widgets[1].model.outputs.toJSON()"
    shown.page.wait_for_function(f"() => JSON.stringify({outputs}).includes({words!r})")
    assert len(json.dumps(shown.outputs(1))) < 400_000
    assert shown.browser.errors == []


def test_the_hand_reaches_each_slice(shown: NotebookPage) -> None:
    """Wheel, drag, a held key and a click: from all to one, which is the one that the trace has there."""
    page = shown.page
    shown.views("v.setView(...v.meta.span)")
    box = shown.timeline.bounding_box()
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
    detail = shown.views("[v.detail().name, v.detail().ts, v.detail().dur]")
    row = shown.kernel(f"s = p.trace.slices.iloc[{at['id']}]; print(s['name'], s['ts'], s['dur'])")
    assert " ".join(map(str, detail)) == row
    page.keyboard.press("Escape")
    shown.views("v.setView(...v.meta.span)")
    shown.settle()
