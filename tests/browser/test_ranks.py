"""The linked page of many ranks in JupyterLab: clicks, Python, and the timelines below."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..ranks.drawn import write_run
from ..ranks.piped import write_gpipe
from .goldens import IMAGES, takes_pictures
from .jupyter_page import NotebookPage

PAGE = "[...document.querySelectorAll('.nbp-host')].find((host) => host.nbpRanks)?.nbpRanks"

TO_TOP = "() => document.querySelector('.nbp-ranks').scrollIntoView()"  # nothing lies below the header then


@pytest.fixture
def board(notebook: Callable[..., NotebookPage], tmp_path: Path) -> NotebookPage:
    write_run(tmp_path)
    ranks = f"ranks = nbp.read_ranks({str(tmp_path)!r}, progress=False)"
    opened = notebook("ranks.ipynb", f"import notebook_prof as nbp\n{ranks}\nranks.dashboard()")
    wait(opened, "page.draws > 0")
    return opened


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


@takes_pictures
def test_pictures_for_the_documentation(
    notebook: Callable[..., NotebookPage], root: Path, shared_traces: Path
) -> None:
    (root / "piped").mkdir(exist_ok=True)
    write_gpipe(root / "piped", 4, 8, 6)
    (root / "run-81").symlink_to(shared_traces / "param_dlrm_8rank")
    shown = _shown(notebook, "piped")
    shown.kernel("ranks.selection.step = 3")
    wait(shown, "page.draws > 1")
    _shoot(shown, "ranks-pipeline.png", ".nbp-rank-grid")
    shown = _shown(notebook, "run-81")
    shown.kernel("ranks.selection.rank = [2, 7]")
    wait(shown, "page.draws > 1")
    _shoot(shown, "ranks-light.png", ".nbp-ranks")
    shown.page.locator(".nbp-rank-bar > button").click()
    wait(shown, "page.timeline?.counts.timeline && page.timeline.counts.table")
    _shoot(shown, "ranks-timelines.png", ".nbp-rank-below .nbp-timeline")
    _theme(shown, "Dark")
    _shoot(shown, "ranks-dark.png", ".nbp-rank-grid")
    _theme(shown, "Light")


def _shown(notebook: Callable[..., NotebookPage], folder: str) -> NotebookPage:
    cell = f"import notebook_prof as nbp\nranks = nbp.read_ranks({folder!r})\nranks.dashboard()"
    shown = notebook(f"{folder}.ipynb", cell)
    shown.page.set_viewport_size({"width": 1400, "height": 1500})
    wait(shown, "page.draws > 0")
    return shown


def _theme(shown: NotebookPage, name: str) -> None:
    shown.command("apputils:change-theme", theme=f"JupyterLab {name}")
    light = "true" if name == "Light" else "false"
    shown.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'")


def _shoot(shown: NotebookPage, name: str, selector: str) -> None:
    shown.page.mouse.move(0, 0)
    shown.page.evaluate(TO_TOP)
    shown.page.wait_for_timeout(800)  # figures paint a frame after their data
    part = shown.page.locator(selector).first
    part.evaluate("(el) => { el.style.padding = '8px' }")
    part.screenshot(path=IMAGES / name)
    part.evaluate("(el) => { el.style.padding = '' }")
