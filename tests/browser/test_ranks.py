"""The linked page of many ranks in JupyterLab: clicks, Python, and the timelines below."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..ranks.drawn import write_run
from ..ranks.piped import write_gpipe
from .conftest import SIZE
from .jupyter_page import Browser, NotebookPage, Server, write_notebook

PAGE = "[...document.querySelectorAll('.nbp-host')].find((host) => host.nbpRanks)?.nbpRanks"

TO_TOP = "() => document.querySelector('.nbp-ranks').scrollIntoView()"  # nothing lies below the header then


@pytest.fixture
def board(browser: Browser, lab: Server, root: Path) -> Iterator[NotebookPage]:
    folder = root / "run"
    folder.mkdir(exist_ok=True)
    write_run(folder)
    cell = "import notebook_prof as nbp\nranks = nbp.read_ranks('run', progress=False)\nranks.dashboard()"
    write_notebook(root / "ranks.ipynb", [cell])
    opened = NotebookPage(browser, lab, "ranks.ipynb")
    browser.page.set_viewport_size(SIZE)  # a test before may have left another
    browser.blank()
    opened.open()
    opened.run_all()
    wait(opened, "page.draws > 0")
    yield opened
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.page.goto("about:blank")


def wait(notebook: NotebookPage, condition: str) -> None:
    """Wait until a condition on ``page``, what the ranks' page tells of itself, is true."""
    notebook.page.wait_for_function(f"() => {{ const page = {PAGE}; return page && ({condition}); }}")


def page_point(notebook: NotebookPage, panel: str, x: float, y: float) -> Any:
    """Where on the page a point of a figure is, when the page has come to rest and draws nothing any more."""
    notebook.page.evaluate(TO_TOP)
    ask, before = f"([p, x, y]) => [({PAGE}).draws, ({PAGE}).panels[p].place(x, y)]", None
    while (now := notebook.page.evaluate(ask, [panel, x, y])) != before:
        before = now
        notebook.page.wait_for_timeout(100)  # between two looks
    return now[1]


def test_the_page_python_and_the_timelines_share_one_selection(board: NotebookPage) -> None:
    mouse = board.page.mouse
    mouse.click(*page_point(board, "bars", 2, 20_000))
    board.wait_kernel("print(ranks.selection.rank)", "(2,)")
    wait(board, "page.panels.bars.drawn().sources.bars_data.alpha.join() === '0.18,0.18,1,0.18'")
    mouse.click(*page_point(board, "heat", 1, 3))
    board.wait_kernel("print(ranks.selection.rank, ranks.selection.step)", "(3,) (1,)")
    mouse.move(*page_point(board, "heat", 0, 0))
    board.page.wait_for_function(
        "() => document.querySelector('.nbp-ranks .nbp-tooltip').textContent === 'rank 0, step 0100 µs'"
    )
    board.kernel("ranks.selection.update(rank=[0, 3], step=1)")
    wait(board, "page.store.get().rank.join() === '0,3'")
    wait(board, "page.panels.talk.drawn().sources.talk_data.wait_ns_right[0] === 70000")
    left, right = page_point(board, "marey", 110_000, 1), page_point(board, "marey", 190_000, 1)
    mouse.move(*left)
    mouse.down()
    mouse.move(*right, steps=4)
    mouse.up()
    board.wait_kernel("print(ranks.selection.window is not None)", "True")
    board.kernel("ranks.selection.clear('window', 'step')")
    board.page.locator(".nbp-rank-bar > button").click()
    wait(board, "page.timeline?.counts.timeline && page.timeline.counts.table")
    ranks = board.page.evaluate(f"() => [...new Set(({PAGE}).timeline.meta.tracks.map((t) => t.rank))]")
    assert ranks == [0, 3]
    board.kernel("ranks.selection.rank = 3")
    wait(board, "page.timeline.timeline.snapshot().filtered")
    mouse.dblclick(*page_point(board, "late", 0, 1_000))
    wait(board, "page.timeline?.meta.tracks.every((t) => t.rank === 3)")
    board.page.keyboard.press("Escape")


@pytest.mark.skipif(not os.environ.get("NBP_UPDATE_IMAGES"), reason="only to take docs/images anew")
def test_pictures_for_the_documentation(
    browser: Browser, lab: Server, root: Path, shared_traces: Path
) -> None:
    (root / "piped").mkdir(exist_ok=True)
    write_gpipe(root / "piped", 4, 8, 6)
    (root / "run-81").symlink_to(shared_traces / "param_dlrm_8rank")
    before = browser.page.viewport_size
    browser.page.set_viewport_size({"width": 1400, "height": 1500})
    try:
        notebook = _shown(browser, lab, root, "piped")
        notebook.kernel("ranks.selection.step = 3")
        wait(notebook, "page.draws > 1")
        _shoot(browser, "ranks-pipeline.png", ".nbp-rank-grid")
        notebook = _shown(browser, lab, root, "run-81")
        notebook.kernel("ranks.selection.rank = [2, 7]")
        wait(notebook, "page.draws > 1")
        _shoot(browser, "ranks-light.png", ".nbp-ranks")
        browser.page.locator(".nbp-rank-bar > button").click()
        wait(notebook, "page.timeline?.counts.timeline && page.timeline.counts.table")
        _shoot(browser, "ranks-timelines.png", ".nbp-rank-below .nbp-timeline")
        _theme(browser, "Dark")
        _shoot(browser, "ranks-dark.png", ".nbp-rank-grid")
        _theme(browser, "Light")
    finally:
        browser.page.set_viewport_size(before or {"width": 1400, "height": 1250})


def _shown(browser: Browser, lab: Server, root: Path, folder: str) -> NotebookPage:
    cell = f"import notebook_prof as nbp\nranks = nbp.read_ranks({folder!r})\nranks.dashboard()"
    write_notebook(root / f"{folder}.ipynb", [cell])
    browser.page.goto("about:blank")
    notebook = NotebookPage(browser, lab, f"{folder}.ipynb").open()
    notebook.run_all()
    wait(notebook, "page.draws > 0")
    return notebook


def _theme(browser: Browser, name: str) -> None:
    change = "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
    browser.page.evaluate(change, f"JupyterLab {name}")
    light = "true" if name == "Light" else "false"
    browser.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'")


def _shoot(browser: Browser, name: str, selector: str) -> None:
    browser.page.mouse.move(0, 0)
    browser.page.evaluate(TO_TOP)
    browser.page.wait_for_timeout(800)  # figures paint a frame after their data
    images = Path(__file__).parents[2] / "docs" / "images"
    part = browser.page.locator(selector).first
    part.evaluate("(el) => { el.style.padding = '8px' }")
    part.screenshot(path=images / name)
    part.evaluate("(el) => { el.style.padding = '' }")
