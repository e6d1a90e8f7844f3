"""The heat of lines beside the recorded cell, in the editors of JupyterLab and Notebook 7."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .jupyter_page import Browser, NotebookPage, Server, write_notebook
from .test_notebook7 import KNOWN

CELL = """
%%profile
import time

def wait(seconds):
    time.sleep(seconds)

wait(0.3)
for i in range(3):
    time.sleep(0.05)"""
"""Its first line is empty: the editor counts it, IPython does not."""

SLOW = 8
"""Line of ``wait(0.3)`` in the editor."""

MARKS = """() => [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')].map(
    cell => cell.querySelectorAll('.nbp-heat').length)"""
EDIT = """([at, text]) => {
    const {sharedModel} = window.jupyterapp.shell.currentWidget.content.widgets[1].model;
    sharedModel.updateSource(at, at + (text ? 0 : 1), text); }"""


@pytest.fixture(params=["lab", "notebook"])
def recorded(
    request: pytest.FixtureRequest, browser: Browser, lab: Server, root: Path
) -> Iterator[NotebookPage]:
    """A notebook whose second cell was recorded."""
    server = lab if request.param == "lab" else Server(root, "notebook")
    name = f"heat_{request.param}.ipynb"
    write_notebook(root / name, ["%load_ext notebook_prof", CELL, "1 + 1"])
    browser.blank()
    page = NotebookPage(browser, server, name)
    try:
        page.open().run_all()
        page.wait_ready()
        yield page
        assert [error for error in browser.errors if KNOWN not in error] == []
        assert browser.elsewhere == []
        page.kernel_command("shutdown()")
        browser.page.goto("about:blank")
    finally:
        if server is not lab:
            server.close()


def test_the_editor_shows_the_heat_and_shares_the_selection(recorded: NotebookPage) -> None:
    page = recorded.page
    page.locator(".nbp-heat").first.wait_for()
    marks = page.evaluate(MARKS)
    assert marks[1] >= 4
    assert (marks[0], marks[2]) == (0, 0), "other cells have no gutter"
    assert page.locator(".jp-CodeCell").nth(0).locator(".nbp-heat-gutter").count() == 0
    editor = page.locator(".jp-CodeCell").nth(1)
    slow = editor.locator(".nbp-heat-gutter .cm-gutterElement").filter(has=page.locator("i[style*='100%']"))
    tinted = editor.locator(".cm-line.nbp-heat-tint")
    assert "wait(0.3)" in tinted.all_inner_texts()
    words = editor.locator(".cm-content").get_attribute("aria-describedby")
    assert f"line {SLOW}: " in page.locator(f"#{words}").inner_text()
    slow.locator(".nbp-heat").last.click()
    recorded.wait_kernel(
        "import notebook_prof; print(notebook_prof.last.selection.line)", f"('cell:{SLOW - 1}',)"
    )
    editor.locator(".nbp-heat-chosen").wait_for()
    recorded.kernel("notebook_prof.last.selection.clear()")
    page.wait_for_function("() => !document.querySelector('.nbp-heat-chosen')")
    recorded.kernel(f"notebook_prof.last.selection.line = 'cell:{SLOW + 1}'")
    editor.locator(".nbp-heat-chosen").wait_for()


def test_an_edit_takes_the_heat_away_and_its_undoing_brings_it_back(recorded: NotebookPage) -> None:
    page = recorded.page
    page.locator(".nbp-heat").first.wait_for()
    page.evaluate(EDIT, [len(CELL), " "])
    page.wait_for_function("() => !document.querySelector('.nbp-heat-gutter, .nbp-heat-tint')")
    page.evaluate(EDIT, [len(CELL), ""])
    page.locator(".nbp-heat").first.wait_for()
    recorded.command("notebook:move-cell-up")
    page.locator(".nbp-heat").first.wait_for()
    recorded.kernel_command("session.kernel.restart()")
    page.locator(".nbp-heat").first.wait_for()
    recorded.command("notebook:clear-all-cell-outputs")
    page.wait_for_function("() => !document.querySelector('.nbp-heat-gutter, .nbp-heat-tint')")
