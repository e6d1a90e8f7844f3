"""The linked page of many ranks in JupyterLab: clicks, Python, and the timelines below."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..ranks.drawn import write_run
from .jupyter_page import Browser, NotebookPage, Server, write_notebook

PAGE = "[...document.querySelectorAll('.nbp-host')].find((host) => host.nbpRanks)?.nbpRanks"


@pytest.fixture
def board(browser: Browser, lab: Server, root: Path) -> Iterator[NotebookPage]:
    folder = root / "run"
    folder.mkdir(exist_ok=True)
    write_run(folder)
    cell = "import notebook_prof as nbp\nranks = nbp.read_ranks('run', progress=False)\nranks.dashboard()"
    write_notebook(root / "ranks.ipynb", [cell])
    opened = NotebookPage(browser, lab, "ranks.ipynb")
    browser.page.goto("about:blank")
    browser.forget()
    opened.open()
    opened.run_all()
    wait(opened, "page.draws > 0")
    yield opened
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.page.goto("about:blank")


def wait(notebook: NotebookPage, condition: str) -> None:
    """Wait until a condition on ``page``, what the ranks' page tells of itself, is true."""
    notebook.page.wait_for_function(
        f"() => {{ const page = {PAGE}; return page && ({condition}); }}", timeout=60_000
    )


def place(notebook: NotebookPage, panel: str, x: float, y: float) -> Any:
    return notebook.page.evaluate(f"([p, x, y]) => ({PAGE}).panels[p].place(x, y)", [panel, x, y])


def test_the_page_python_and_the_timelines_share_one_selection(board: NotebookPage) -> None:
    mouse = board.page.mouse
    mouse.click(*place(board, "bars", 2, 20_000))
    board.wait_kernel("print(ranks.selection.rank)", "(2,)")
    wait(board, "page.panels.bars.drawn().sources.bars_data.alpha.join() === '0.18,0.18,1,0.18'")
    board.kernel("ranks.selection.update(rank=[0, 3], step=1)")
    wait(board, "page.store.get().rank.join() === '0,3'")
    wait(board, "page.panels.talk.drawn().sources.talk_data.wait_ns_right[0] === 70000")
    left, right = place(board, "marey", 110_000, 1), place(board, "marey", 190_000, 1)
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
    mouse.dblclick(*place(board, "late", 0, 1_000))
    wait(board, "page.timeline?.meta.tracks.every((t) => t.rank === 3)")
    board.page.keyboard.press("Escape")
