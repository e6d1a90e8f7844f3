"""The same dashboard in Notebook 7."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import SETUP
from .jupyter_page import Browser, NotebookPage, Server, write_notebook

KNOWN = "Cannot read properties of undefined (reading 'schema')"
"""Notebook 7.6 logs this by itself."""


@pytest.fixture
def notebook7(browser: Browser, seven: Server, root: Path) -> Iterator[NotebookPage]:
    write_notebook(root / "seven.ipynb", [SETUP, "p", "'below'"])
    browser.blank()
    opened = NotebookPage(browser, seven, "seven.ipynb")
    opened.page.bring_to_front()
    yield opened.open()
    opened.kernel_command("shutdown()")
    browser.blank()


def test_gestures_and_keys(notebook7: NotebookPage) -> None:
    notebook7.run_all()
    notebook7.wait_ready()
    page = notebook7.page
    notebook7.to_views()
    page.mouse.dblclick(*notebook7.slice("aten::conv2d"))
    notebook7.wait_kernel("print(p.selection.name)", "('aten::conv2d',)")
    notebook7.wait_views("v.phases.snapshot().filtered && v.table.snapshot().chosen.length === 1")
    cells = notebook7.count_cells()
    width = notebook7.views("v.range.end - v.range.start")
    for key in "ddx":
        page.keyboard.press(key)
    page.keyboard.down("w")
    notebook7.wait_views(f"v.range.end - v.range.start < {0.8 * width}")
    page.keyboard.up("w")
    assert notebook7.count_cells() == cells
    assert [e for e in notebook7.browser.errors if KNOWN not in e] == []
    assert notebook7.browser.elsewhere == []
