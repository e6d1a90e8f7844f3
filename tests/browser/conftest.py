"""Fixtures: a server, a browser, an open notebook that shows a drawn Profile, and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import ViewportSize

from notebook_prof.profiles.profile import Profile

from .dashboard import Report
from .jupyter_page import Browser, NotebookPage, Server, find_chromium, write_notebook

SETUP = "from drawn import drawn_profile\np = drawn_profile(gpu=True)"
SIZE: ViewportSize = {"width": 1400, "height": 1250}


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
    if "views.ipynb" not in _opened.page.url:
        _opened.page.set_viewport_size(SIZE)
        _opened.open()
        _opened.run_all()
        _opened.command("application:toggle-left-area")
        _opened.wait_ready()
        _opened.to_views()
    start_over(_opened)
    _opened.browser.forget()
    yield _opened
    assert _opened.browser.errors == []
    assert _opened.browser.elsewhere == []


def start_over(shown: NotebookPage) -> None:
    """Select nothing, show the whole recording and the table, and put the pointer away."""
    shown.settle()  # what was clicked last is on its way: it may not arrive after this
    shown.kernel("p.selection.clear()")
    shown.wait_views("v.store.isEmpty() && v.store.get().focus == null")
    shown.views("(v.panels.show('operators'), v.setView(...v.meta.span))")
    shown.page.mouse.move(5, 5)
    shown.page.keyboard.press("Escape")
    shown.settle()


@pytest.fixture
def report(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Report]]:
    """Opens the report of a Profile, or a file; no complaint may come."""
    page = Report(browser.page)

    def show(shown: Profile | Path) -> Report:
        path = tmp_path / "report.html"
        if isinstance(shown, Path):
            path = shown
        else:
            shown.export.html(path)
        browser.blank()
        page.page.set_viewport_size(SIZE)
        return page.show(path)

    yield show
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.page.goto("about:blank")


@pytest.fixture
def notebook(browser: Browser, lab: Server, root: Path) -> Iterator[Callable[..., NotebookPage]]:
    """Runs a fresh notebook; no complaint may come."""

    def opened(name: str, *cells: str) -> NotebookPage:
        write_notebook(root / name, cells)
        made = NotebookPage(browser, lab, name)
        browser.blank()
        browser.page.set_viewport_size(SIZE)  # a test before may have left another
        made.open()
        made.run_all()
        return made

    yield opened
    assert browser.errors == []
    assert browser.elsewhere == []
    NotebookPage(browser, lab, "").kernel_command("shutdown()")
    browser.page.goto("about:blank")
