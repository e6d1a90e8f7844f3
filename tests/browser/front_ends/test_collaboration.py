"""JupyterLab with jupyter-collaboration: two pages on one notebook share its outputs and its kernel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ..jupyter_page import Browser, NotebookPage, Server, write_notebook
from .journey import OPEN, Display, step_both_ways, walk
from .processes import Kernel

RUN_SECOND = """async () => { const {content} = window.jupyterapp.shell.currentWidget;
    content.activeCellIndex = 1; content.deselectAll();
    await window.jupyterapp.commands.execute('notebook:run-cell'); }"""


def _displays(shown: NotebookPage) -> list[Display]:
    return [Display(shown.page, index=index).ready() for index in (0, 1)]


def test_collaboration(
    needs: Callable[[str], str], clean: Browser, closing: ExitStack, tmp_path: Path
) -> None:
    """The second page shows the views without a run and goes the journey; a cell runs again; a reload."""
    needs("jupyter-collaboration")
    write_notebook(tmp_path / "shared.ipynb", [OPEN, "p", "p"])
    server = Server(tmp_path)
    closing.callback(server.close)
    ann = NotebookPage(clean, server, "shared.ipynb").open()
    ann.run_all()
    ours = _displays(ann)
    bob = NotebookPage(clean, server, "shared.ipynb", clean.another())
    closing.callback(bob.page.close)
    bob.page.set_viewport_size(ann.page.viewport_size)
    bob.open()
    theirs = _displays(bob)
    assert len(list(server.runtime.glob("kernel-*.json"))) == 1, "they share the kernel"
    kernel = Kernel(server.runtime)
    closing.callback(kernel.close)
    walk([theirs[0], ours[0]], kernel.ask)
    step_both_ways(ours[1], theirs[1], kernel.ask)
    theirs[0].views("(h.dataset.before = 'yes')")
    ann.page.bring_to_front()
    ann.page.evaluate(RUN_SECOND)
    theirs[0].host.and_(bob.page.locator(":not([data-before])")).wait_for()  # the display of the new run
    for display in (*ours, *theirs):
        display.ready()
    step_both_ways(ours[0], theirs[0], kernel.ask)
    bob.open(server.url("shared.ipynb").replace("&reset", ""))
    step_both_ways(_displays(bob)[0], ours[0], kernel.ask)
