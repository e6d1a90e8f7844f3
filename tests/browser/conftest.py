"""Fixtures: a server, a browser, and an open notebook that shows a drawn Profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .jupyter_page import Browser, NotebookPage, Server, find_chromium, write_notebook

SETUP = "from drawn import drawn_profile\np = drawn_profile(gpu=True)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder drives a browser."""
    for item in items:
        if Path(__file__).parent in Path(item.fspath).parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium."""
    if (path := find_chromium()) is None:
        pytest.skip("no Chromium: run tests/install_browser.sh, or set NBP_CHROMIUM")
    return path


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """One Chromium for the session."""
    made = Browser(chromium)
    yield made
    made.close()


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that the servers show."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="session")
def lab(root: Path) -> Iterator[Server]:
    """A JupyterLab server."""
    made = Server(root)
    yield made
    made.close()


@pytest.fixture(scope="session")
def _opened(browser: Browser, lab: Server, root: Path) -> NotebookPage:
    write_notebook(root / "views.ipynb", [SETUP, "p", "'a cell below'"])
    return NotebookPage(browser, lab, "views.ipynb")


@pytest.fixture
def shown(_opened: NotebookPage) -> Iterator[NotebookPage]:
    """A notebook with one dashboard, nothing selected, the whole recording in view; no complaint may come."""
    page = _opened.page
    if "views.ipynb" not in page.url:
        _opened.open()
        _opened.run_all()
        page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
        _opened.wait_ready()
        page.evaluate("() => document.querySelector('.nbp-host').scrollIntoView()")
    _opened.kernel("p.selection.clear()")
    _opened.wait_views("v.store.isEmpty() && v.store.get().focus == null")
    _opened.views("v.setView(...v.meta.span)")
    page.mouse.move(5, 5)
    page.keyboard.press("Escape")
    _opened.settle()
    _opened.browser.forget()
    yield _opened
    assert _opened.browser.errors == []
    assert _opened.browser.elsewhere == []
