"""The heat of lines where cells are split, merged, long, or open twice, and where it is switched off."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .jupyter_page import NotebookPage, write_notebook
from .test_editor_heat import CELL, MARKS, SLOW, click_mark

GONE = "() => !document.querySelector('.nbp-heat-gutter, .nbp-heat-tint')"
SETTING = "@jupyterlab/codemirror-extension:plugin"
OF_PANELS = """() => [...window.jupyterapp.shell.widgets('main')].filter(one => one.content?.widgets).map(
    one => [one.context.path, one.node.querySelectorAll('.nbp-heat').length])"""
CHOSEN = """(path) => [...window.jupyterapp.shell.widgets('main')].find(
    one => one.context?.path === path).node.querySelectorAll('.nbp-heat-chosen').length"""
IDLE = "window.jupyterapp.shell.currentWidget.context.sessionContext.session?.kernel?.status === 'idle'"
UPDATE = """async () => {
    const frame = () => new Promise(requestAnimationFrame);
    const scroller = document.querySelector('.jp-WindowedPanel-outer, .jp-NotebookPanel-notebook');
    const began = performance.now();
    for (let k = 0; k < 20; k++) { scroller.scrollBy(0, 300); await frame(); }
    return (performance.now() - began) / 20; }"""


@pytest.fixture
def hot(notebook: Callable[..., NotebookPage]) -> Callable[..., NotebookPage]:
    """Runs a notebook whose recorded lines show their heat."""

    def opened(name: str, *cells: str) -> NotebookPage:
        shown = notebook(name, "%load_ext notebook_prof", *cells)
        shown.wait_ready()
        shown.page.locator(".nbp-heat").first.wait_for()
        return shown

    return opened


def test_a_cell_that_is_split_merged_and_run_again(hot: Callable[..., NotebookPage]) -> None:
    shown = hot("heat_split.ipynb", CELL, "1 + 1")
    page = shown.page
    at = CELL.index("wait(0.3)")
    page.evaluate(
        """at => { const {content} = window.jupyterapp.shell.currentWidget;
                   content.activeCellIndex = 1;
                   const {editor} = content.activeCell;
                   editor.setCursorPosition(editor.getPositionAt(at)); }""",
        at,
    )
    shown.command("notebook:split-cell-at-cursor")
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.content.widgets.length === 4")
    page.wait_for_function(GONE)  # neither half is what was recorded
    shown.command("notebook:undo-cell-action")
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.content.widgets.length === 3")
    assert page.evaluate(MARKS)[0] == page.evaluate(MARKS)[2] == 0
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    shown.command("notebook:merge-cell-below")
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.content.widgets.length === 2")
    page.wait_for_function(GONE)
    shown.run_all()
    shown.wait_ready()
    page.locator(".nbp-heat").first.wait_for()
    for index, direction in ((1, "up"), (0, "down")):
        page.evaluate("i => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = i; }", index)
        shown.command(f"notebook:move-cell-{direction}")
        page.locator(".nbp-heat").first.wait_for()
    page.evaluate("() => void window.jupyterapp.commands.execute('notebook:restart-run-all')")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    page.wait_for_function(GONE)
    shown.wait_ready()
    page.locator(".nbp-heat").first.wait_for()
    page.wait_for_function(f"() => ({IDLE})")


def test_two_notebooks_of_the_same_cells(hot: Callable[..., NotebookPage], root: Path) -> None:
    shown = hot("heat_first.ipynb", CELL)
    page = shown.page
    write_notebook(root / "heat_second.ipynb", ["%load_ext notebook_prof", CELL])  # the same ids of cells
    shown.command("docmanager:open", path="heat_second.ipynb", options={"mode": "split-right"})
    page.wait_for_function(f"() => ({OF_PANELS})().length === 2")
    page.wait_for_function(f"() => ({IDLE})")
    page.wait_for_function(f"() => Object.fromEntries(({OF_PANELS})())['heat_first.ipynb'] >= 4")
    assert dict(page.evaluate(OF_PANELS))["heat_second.ipynb"] == 0
    second = NotebookPage(shown.browser, shown.server, "heat_second.ipynb", page)
    second.run_all()
    page.wait_for_function(f"() => Object.fromEntries(({OF_PANELS})())['heat_second.ipynb'] >= 4")
    panel = page.locator(".jp-NotebookPanel").filter(visible=True).last
    click_mark(panel, "wait(0.3)")
    second.wait_kernel(
        "import notebook_prof; print(notebook_prof.last.selection.line)", f"('cell:{SLOW - 1}',)"
    )
    page.wait_for_function(f"() => ({CHOSEN})('heat_second.ipynb') >= 1")
    assert page.evaluate(CHOSEN, "heat_first.ipynb") == 0
    second.kernel_command("shutdown()")
    shown.command("docmanager:open", path="heat_first.ipynb")
    assert shown.kernel("import notebook_prof; print(notebook_prof.last.selection.line)") == "None"


def test_a_cell_of_a_thousand_lines(hot: Callable[..., NotebookPage]) -> None:
    body = "\n".join(f"x{k} = sum(range({k % 7 * 1000 + 100}))" for k in range(999))
    shown = hot("heat_long.ipynb", f"%%profile\n{body}")
    page = shown.page
    page.evaluate("() => window.jupyterapp.shell.currentWidget.content.scrollToItem(1, 'start')")
    page.locator(".nbp-heat").first.wait_for()
    assert int(shown.kernel("import notebook_prof as nbp; print(len(nbp.last.lines()))")) > 900
    drawn = page.evaluate(MARKS)[1]
    assert 10 < drawn < 300, "lines out of sight have no marks in the page"
    print(f"frames while scrolling: {page.evaluate(UPDATE):.0f} ms")
    shown.kernel("nbp.last.selection.line = 'cell:500'")
    words = page.locator(".nbp-heat-words").first
    assert words.inner_text().count("line ") == 5, "a reader hears the hottest, not a thousand"


def test_the_setting_switches_it_off(hot: Callable[..., NotebookPage]) -> None:
    shown = hot("heat_off.ipynb", CELL)
    page = shown.page
    shown.save()
    for on in (False, True):
        raw = json.dumps({"defaultConfig": {"notebook-prof-gutter": on}})
        page.evaluate(
            "([id, raw]) => window.jupyterapp.serviceManager.settings.save(id, raw)", [SETTING, raw]
        )
        shown.open()
        shown.wait_ready()
        if on:
            page.locator(".nbp-heat").first.wait_for()
        else:
            shown.settle()
            assert page.evaluate(GONE)
    page.evaluate("id => window.jupyterapp.serviceManager.settings.save(id, '{}')", SETTING)
