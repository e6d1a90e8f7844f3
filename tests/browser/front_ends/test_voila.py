"""Voila: a notebook as an application, on another version of JupyterLab; every page has a new kernel."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Page

from ..jupyter_page import Browser, free_port, write_notebook
from .journey import OPEN, Display, assert_dark, step_both_ways, walk
from .processes import Kernel, Program

OWN = (
    *("net::ERR_NAME_NOT_RESOLVED", "net::ERR_INTERNET_DISCONNECTED"),
    *("cdn.jsdelivr.net", "cdnjs.cloudflare.com"),
    "/voila/labextensions/@jupyter",
    "403 (Forbidden)",
)
"""Its template asks for MathJax and fonts elsewhere, it loads extensions of JupyterLab that need more than it
has, and a page that is left asks without a token for the end of its kernel."""


def _start(notebook: Path, home: Path, theme: str) -> tuple[Program, str]:
    url = f"http://127.0.0.1:{(port := free_port())}/"
    command = [
        *(sys.executable, "-m", "voila", str(notebook), "--no-browser", f"--port={port}"),
        *("--Voila.ip=127.0.0.1", f"--theme={theme}", f"--Voila.connection_dir_root={home}"),
    ]
    return Program(command, url, home), url


def _displays(page: Page) -> list[Display]:
    return [Display(page, index=index).ready() for index in (0, 1)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_voila(
    needs: Callable[[str], str], clean: Browser, closing: ExitStack, tmp_path: Path, theme: str
) -> None:
    """The journey, and a reload, which runs the notebook again; in the dark theme the views are dark."""
    needs("voila")
    write_notebook(tmp_path / "app.ipynb", [OPEN, "p", "p"])
    clean.expected += OWN
    server, url = _start(tmp_path / "app.ipynb", tmp_path / "home", theme)
    closing.callback(server.close)
    page = clean.page
    page.goto(url)
    shown = _displays(page)
    if theme == "dark":
        assert_dark(shown[0])
        return
    kernel = Kernel(tmp_path / "home")
    closing.callback(kernel.close)
    walk(shown, kernel.ask)
    page.reload()
    shown = _displays(page)
    another = Kernel(tmp_path / "home")
    closing.callback(another.close)
    step_both_ways(shown[0], shown[1], another.ask)
