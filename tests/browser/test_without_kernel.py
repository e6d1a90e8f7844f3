"""A saved notebook when there is no kernel: trusted, untrusted, and converted to HTML."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from .conftest import SETUP
from .conftest import SIZE as SCREEN
from .dashboard import Dashboard
from .desk import Desk
from .jupyter_page import Browser

SIZE = "image => [image.naturalWidth, image.naturalHeight, image.getBoundingClientRect().width]"
WORDS = "[...document.querySelectorAll('.jp-OutputArea-output')].filter(o => !o.firstElementChild)"
"""Outputs that hold nothing but a word."""
TRUSTED = (
    "() => window.jupyterapp.shell.currentWidget.content.widgets"
    ".filter(c => c.model.type === 'code' && c.model.outputs.length).every(c => c.model.trusted)"
)


@pytest.fixture(scope="module")
def saved(desk: Desk, root: Path) -> Path:
    """A notebook that was run, saved and closed."""
    desk.page.set_viewport_size(SCREEN)
    notebook = desk.open("saved.ipynb", [SETUP, "p"])
    notebook.run_all()
    notebook.wait_ready()
    notebook.static.locator("img").first.wait_for(state="attached")  # it comes after the views
    notebook.save()
    desk.close()
    desk.browser.forget()
    return root / "saved.ipynb"


def _outputs(path: Path) -> list[dict[str, Any]]:
    return [output for cell in json.loads(path.read_text())["cells"] for output in cell["outputs"]]


def _assert_readable(page: Page) -> None:
    """Verdict, picture, table and advice can be seen, and nothing of the live views is in the way."""
    static = Dashboard(page).static.first
    static.locator("img").first.wait_for(state="visible")
    image = static.locator("img").first
    assert (image.get_attribute("src") or "").startswith("data:image/png;base64,")
    wide, high, shown = image.evaluate(SIZE)
    assert wide >= 600
    assert high > 20
    assert shown > 300, "and it is drawn"
    text = static.inner_text()
    assert "Sync-bound: the host waits for the device" in text
    assert "1,604 slices on 3 tracks" in text
    assert "Run the cell again for the interactive views." in text
    assert static.locator("tr").count() == 13
    assert static.locator("tr").nth(1).inner_text().split("\t")[0].strip().endswith("Tensor.backward")
    assert Dashboard(page).host.locator(".nbp").count() == 0


def check_as_html(browser: Browser, saved: Path, folder: Path, check: Callable[[Page], None]) -> None:
    """Convert a notebook to HTML, which says the same."""
    body, _ = pytest.importorskip("nbconvert").HTMLExporter().from_filename(str(saved))
    (folder / "saved.html").write_text(body, encoding="utf-8")
    page = browser.page
    page.bring_to_front()
    page.route("http*://**", lambda route: route.abort())  # its own scripts come from elsewhere
    try:
        page.goto((folder / "saved.html").as_uri(), wait_until="domcontentloaded")
        check(page)
    finally:
        page.unroute("http*://**")
        page.goto("about:blank")
        browser.forget()


def check_opened_again(desk: Desk, saved: Path, trusted: bool, check: Callable[[Page], None]) -> None:
    """Who trusts nothing sees the same as who trusts: what a sanitiser keeps is enough."""
    page, name = desk.page, saved.name
    if not trusted:
        notebook = json.loads(saved.read_text())
        notebook["cells"][0]["source"] = "'not what was signed'"
        name = f"stranger_{name}"
        (saved.parent / name).write_text(json.dumps(notebook))
    desk.open(name).static.first.wait_for(state="visible")
    assert page.evaluate(TRUSTED) is trusted
    check(page)
    if trusted:  # Jupyter's word on the widget that is gone comes late, and is hidden
        page.wait_for_function(f"() => {WORDS}.some(word => word.textContent.includes('model not found'))")
        assert page.evaluate(f"() => {WORDS}.map(word => word.offsetHeight)") == [0]
    desk.close()
    desk.browser.forget()


def test_a_saved_notebook_is_small_and_static_wherever_it_is_read(
    browser: Browser, saved: Path, tmp_path: Path
) -> None:
    """No script and no live data in the file; converted to text and to HTML it says the same."""
    first, second = _outputs(saved)
    assert sorted(first["data"]) == ["text/html", "text/plain"]
    html = "".join(first["data"]["text/html"])
    assert "<script" not in html
    assert "<svg" not in html
    assert "Sync-bound" in "".join(first["data"]["text/plain"])
    assert set(second["data"]) <= {"application/vnd.jupyter.widget-view+json", "text/plain"}
    assert saved.stat().st_size < 300_000
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    body, _ = nbconvert.MarkdownExporter().from_filename(str(saved))
    assert "Sync-bound" in body
    check_as_html(browser, saved, tmp_path, _assert_readable)


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "untrusted"])
def test_a_saved_notebook_is_opened_again(desk: Desk, saved: Path, trusted: bool) -> None:
    check_opened_again(desk, saved, trusted, _assert_readable)
