"""Fixtures: a server, a browser, an open notebook that shows a drawn Profile, and reports."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import ViewportSize

from notebook_prof import Profile

from .dashboard import Report
from .desk import PLAIN, Desk
from .drawn import drawn_profile
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
    made = Server(root)
    yield made
    made.close()


@pytest.fixture(scope="session")
def seven(root: Path) -> Iterator[Server]:
    made = Server(root, "notebook")
    yield made
    made.close()


@pytest.fixture(scope="session")
def desk(browser: Browser, lab: Server, root: Path) -> Desk:
    """A JupyterLab that stays open."""
    return Desk(browser, lab, root)


@pytest.fixture(scope="session")
def _opened(browser: Browser, lab: Server, root: Path) -> NotebookPage:
    write_notebook(root / "views.ipynb", [SETUP, "p", "'a cell below'"])
    opened = NotebookPage(browser, lab, "views.ipynb", browser.another())
    opened.page.set_viewport_size(SIZE)
    opened.open()
    opened.run_all()
    opened.command("application:toggle-left-area")
    opened.wait_ready()
    opened.lanes(13)
    opened.to_views()
    return opened


@pytest.fixture
def shown(_opened: NotebookPage) -> Iterator[NotebookPage]:
    """A notebook with one dashboard, nothing selected, the whole recording in view; no complaint may come."""
    _opened.page.bring_to_front()
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


@pytest.fixture(scope="session")
def drawn_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a drawn training run."""
    path = tmp_path_factory.mktemp("drawn") / "report.html"
    drawn_profile(gpu=True).export.html(path)
    return path


@pytest.fixture
def report(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Report]]:
    """Opens the report of a Profile, or a file; no complaint may come."""
    page = Report(browser.page)

    def show(shown: Profile | Path, size: ViewportSize = SIZE) -> Report:
        path = tmp_path / "report.html"
        if isinstance(shown, Path):
            path = shown
        else:
            shown.export.html(path)
        browser.blank()
        page.page.bring_to_front()
        page.page.set_viewport_size(size)
        return page.show(path)

    yield show
    assert browser.errors == []
    assert browser.elsewhere == []
    if browser.page.url.startswith("file:"):  # it shows nothing where the test was skipped
        browser.page.evaluate("() => localStorage.clear()")  # what was set stays for a file
    browser.page.goto("about:blank")


@pytest.fixture
def notebook(desk: Desk) -> Iterator[Callable[..., NotebookPage]]:
    """Opens a new notebook and runs it; no complaint may come."""

    def opened(name: str, *cells: str, kernel: str = PLAIN, run: bool = True) -> NotebookPage:
        desk.close()
        desk.browser.forget()
        desk.page.set_viewport_size(SIZE)  # a test before may have left another
        made = desk.open(name, cells, kernel)
        if run:
            made.run_all()
        return made

    yield opened
    complaints = [*desk.browser.errors, *desk.browser.elsewhere]
    desk.close()
    assert complaints == []
