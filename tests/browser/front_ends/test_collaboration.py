"""JupyterLab with jupyter-collaboration: two pages on one notebook share its outputs and its kernel."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ..jupyter_page import Browser, NotebookPage, Server, write_notebook
from ..test_editor_heat import CELL, EDIT, MARKS
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


def test_heat_in_both_pages(
    needs: Callable[[str], str], clean: Browser, closing: ExitStack, tmp_path: Path
) -> None:
    """Both editors show the lines of a cell that one page has run; an edit in one takes both away."""
    needs("jupyter-collaboration")
    write_notebook(tmp_path / "heat.ipynb", ["%load_ext notebook_prof", CELL])
    server = Server(tmp_path)
    closing.callback(server.close)
    ann = NotebookPage(clean, server, "heat.ipynb").open()
    ann.run_all()
    ann.wait_ready()
    ann.page.locator(".nbp-heat").first.wait_for()
    bob = NotebookPage(clean, server, "heat.ipynb", clean.another())
    closing.callback(bob.page.close)
    bob.open()
    bob.wait_ready()
    bob.page.locator(".nbp-heat").first.wait_for()
    assert bob.page.evaluate(MARKS) == ann.page.evaluate(MARKS)
    bob.page.evaluate(EDIT, [len(CELL), " "])
    for shown in (bob, ann):
        shown.page.bring_to_front()
        shown.page.wait_for_function("() => !document.querySelector('.nbp-heat-gutter, .nbp-heat-tint')")
    bob.page.evaluate(EDIT, [len(CELL), ""])
    for shown in (bob, ann):
        shown.page.bring_to_front()
        shown.page.locator(".nbp-heat").first.wait_for()
