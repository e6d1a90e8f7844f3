"""marimo in run mode: plain ``p`` and its anywidget, each in a shadow root, in a light and a dark page."""

import itertools
import sys
import textwrap
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Page

from ..jupyter_page import Browser, free_port
from .journey import OPEN, Display, assert_dark, step_both_ways, walk
from .processes import Program

SCRIPT = """
    # /// script
    # [tool.marimo.display]
    # theme = "{theme}"
    # ///
    import marimo

    app = marimo.App(width="full")

    @app.cell
    def _():
        import contextlib, io
        import marimo as mo
        from notebook_prof.jupyter.widget import ProfileWidget
        {open_recording}
        return ProfileWidget, contextlib, io, mo, p

    @app.cell
    def _(ProfileWidget, mo, p):
        {first}
        return

    @app.cell
    def _(ProfileWidget, mo, p):
        {second}
        return

    @app.cell
    def _(mo):
        code = mo.ui.text(label="code", full_width=True)
        code
        return (code,)

    @app.cell
    def _(code, contextlib, io, mo, p):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code.value, dict(p=p))
        mo.Html(f"<pre id='printed'>{{code.value.partition('#')[2]}}:{{printed.getvalue()}}</pre>")
        return

    if __name__ == "__main__":
        app.run()
"""
FORMS = {"plain": ("p", "p"), "anywidget": ("mo.ui.anywidget(ProfileWidget(p))", "ProfileWidget(p)")}


def _serve(tmp_path: Path, closing: ExitStack, form: str, theme: str) -> str:
    first, second = FORMS[form]
    lines = OPEN.replace("\n", "\n        ")
    text = textwrap.dedent(SCRIPT)
    script = tmp_path / "app.py"
    script.write_text(
        text.format(open_recording=lines.replace("        ", "    "), first=first, second=second, theme=theme)
    )
    port = free_port()
    command = [
        *(sys.executable, "-m", "marimo", "run", str(script), "--headless", "--no-token"),
        *("--host=127.0.0.1", f"--port={port}"),
    ]
    url = f"http://127.0.0.1:{port}/"
    closing.callback(Program(command, url, tmp_path / "home").close)
    return url


class Asking:
    """Asks through a text field of the app: what is written there runs in the app's own thread."""

    def __init__(self, page: Page) -> None:
        self._page, self._numbers = page, itertools.count(1)

    def __call__(self, code: str) -> str:
        """What `code` prints."""
        number = next(self._numbers)
        box = self._page.get_by_label("code")
        box.fill(f"{code} #{number}")
        box.press("Enter")
        printed = self._page.locator("#printed").filter(has_text=f"{number}:")
        printed.wait_for()
        return printed.inner_text().partition(":")[2].strip()


def _displays(page: Page) -> list[Display]:
    return [Display(page, index=index).ready() for index in (0, 1)]


@pytest.mark.parametrize("form", list(FORMS))
def test_marimo(
    needs: Callable[[str], str], clean: Browser, closing: ExitStack, tmp_path: Path, form: str
) -> None:
    """The journey, and a reload, which opens the recording anew."""
    needs("marimo")
    page = clean.page
    page.goto(_serve(tmp_path, closing, form, "light"))
    shown = _displays(page)
    assert page.evaluate("() => document.querySelectorAll('.nbp-host').length") == 0, "in shadow roots"
    walk(shown, Asking(page))
    page.reload()
    shown = _displays(page)
    step_both_ways(shown[0], shown[1], Asking(page))


def test_a_dark_marimo(
    needs: Callable[[str], str], clean: Browser, closing: ExitStack, tmp_path: Path
) -> None:
    """The page has no variables of Jupyter's: its ground is measured."""
    needs("marimo")
    page = clean.page
    page.goto(_serve(tmp_path, closing, "plain", "dark"))
    for display in _displays(page):
        assert_dark(display)
