"""JupyterLab and Notebook 7 themselves: the journey that the others are held to, in both themes."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ..jupyter_page import Browser, NotebookPage, Server, write_notebook
from .journey import OPEN, Display, assert_dark, step_both_ways, walk
from .processes import Kernel

OWN = ("Cannot read properties of undefined (reading 'schema')", "@jupyter/docprovider-extension")
"""Notebook 7 says so by itself, and of what jupyter-collaboration installs for JupyterLab alone."""


@pytest.mark.parametrize(("app", "package"), [("lab", "jupyterlab"), ("notebook", "notebook")])
def test_jupyter(
    needs: Callable[[str], str], clean: Browser, closing: ExitStack, tmp_path: Path, app: str, package: str
) -> None:
    """The journey, the dark theme and back, and a reload."""
    needs(package)
    clean.expected += OWN
    write_notebook(tmp_path / "shown.ipynb", [OPEN, "p", "p"])
    server = Server(tmp_path, app, options=["--YDocExtension.disable_rtc=True"])
    closing.callback(server.close)
    notebook = NotebookPage(clean, server, "shown.ipynb").open()
    notebook.run_all()
    shown = [Display(clean.page, index=index).ready() for index in (0, 1)]
    assert not shown[0].static.is_visible(), "the static form hides behind the live view"
    kernel = Kernel(server.runtime)
    closing.callback(kernel.close)
    walk(shown, kernel.ask)
    notebook.command("apputils:change-theme", theme="JupyterLab Dark")
    for display in shown:
        assert_dark(display)
    assert not clean.page.locator(".nbp-dark").count(), "Jupyter's variables say so; nothing is measured"
    notebook.command("apputils:change-theme", theme="JupyterLab Light")
    notebook.save()
    notebook.page.goto(server.url("shown.ipynb").replace("&reset", ""))
    for display in shown:
        display.ready()
    step_both_ways(shown[0], shown[1], kernel.ask)
