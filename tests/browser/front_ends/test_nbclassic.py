"""The classic notebook (nbclassic): no cell ids, Bootstrap's style sheet, RequireJS."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ..jupyter_page import Browser, Server, write_notebook
from .journey import OPEN, Display, step_both_ways, walk
from .processes import Kernel

CONNECTED = """() => { const {notebook} = window.Jupyter ?? {};
    return notebook?._fully_loaded && notebook.kernel?.is_connected() && notebook.kernel.widget_manager; }"""
RUN_FIRST = "() => Jupyter.notebook.execute_cells([0])"
RAN_FIRST = "() => Jupyter.notebook.get_cell(0).input_prompt_number > 0"
RUN_ALL = "() => Jupyter.notebook.execute_cells([1, 2, 3])"
OWN = ("404 (Not Found)", "nbextensions/voila/extension", "nbextensions/widgets/notebook/js/extension")
"""It asks for extensions of packages that have none for it."""
SAVE = "() => Jupyter.notebook.save_notebook()"


def test_nbclassic(needs: Callable[[str], str], clean: Browser, closing: ExitStack, tmp_path: Path) -> None:
    """The journey, keys of the notebook's command mode, and a reload that brings both views back."""
    needs("nbclassic")
    write_notebook(tmp_path / "classic.ipynb", [OPEN, "p", "p", "'below'"])
    clean.expected += OWN
    server, page = Server(tmp_path, "nbclassic"), clean.page
    closing.callback(server.close)
    page.goto(server.url("classic.ipynb"))
    page.wait_for_function(CONNECTED)
    page.evaluate(
        RUN_FIRST
    )  # the widgets' extension renders all outputs anew once the kernel has told it of widgets
    page.wait_for_function(RAN_FIRST)
    page.evaluate(RUN_ALL)
    shown = [Display(page, index=index) for index in (0, 1)]
    for display in shown:
        display.ready()
    kernel = Kernel(server.runtime)
    closing.callback(kernel.close)
    walk(shown, kernel.ask)
    _keys_stay_in_the_views(shown[0])
    page.evaluate(SAVE)
    page.reload()
    page.wait_for_function(CONNECTED)
    for display in shown:
        display.ready()
    step_both_ways(shown[0], shown[1], kernel.ask)


def _keys_stay_in_the_views(display: Display) -> None:
    """None of the notebook's commands (cut, delete, insert, restart) runs from a key in the views."""
    display.page.mouse.click(*display.point(0.5))
    for key in "xddabf00":
        display.page.keyboard.press(key)
    display.page.wait_for_timeout(200)
    assert display.page.evaluate("() => Jupyter.notebook.ncells()") == 4
    assert display.page.locator(".modal-dialog:visible").count() == 0
    display.reset()
