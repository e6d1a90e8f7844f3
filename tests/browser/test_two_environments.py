"""A server and a kernel in two environments, as JupyterHub and conda have them."""

from pathlib import Path

import pytest

from .conftest import SETUP, SIZE
from .jupyter_page import Browser, NotebookPage, Server, server_environment, write_notebook

MANAGER = "@jupyter-widgets/jupyterlab-manager"
CASES = {"none": (), "ipywidgets": (MANAGER,), "both": (MANAGER, "anywidget")}


@pytest.mark.parametrize("extensions", CASES.values(), ids=CASES)
def test_what_the_environment_of_the_server_lacks_is_named(
    browser: Browser, tmp_path: Path, extensions: tuple[str, ...]
) -> None:
    """The sentence stands below the picture, and goes with it where the server has what the views need."""
    environment = server_environment(tmp_path / "server", *extensions)
    (tmp_path / "notebooks").mkdir()
    write_notebook(tmp_path / "notebooks" / "two.ipynb", [SETUP, "p"])
    server = Server(tmp_path / "notebooks", environment=environment)
    try:
        browser.blank()
        browser.page.set_viewport_size(SIZE)
        shown = NotebookPage(browser, server, "two.ipynb").open()
        assert str(environment) not in shown.kernel("import sys; print(sys.prefix)")
        shown.run_all()
        if "anywidget" in extensions:
            shown.wait_ready()
            assert not shown.static.is_visible()
            return
        shown.static.locator("img").first.wait_for(state="visible")
        text = shown.static.inner_text()
        assert "the Jupyter server, which may not be the kernel's, lacks anywidget" in text
        assert "run pip install anywidget there and reload the page" in text
        assert shown.host.count() == 0
    finally:
        browser.blank()
        server.close()
