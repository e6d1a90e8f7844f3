"""Badges at the cells of a watched notebook, in JupyterLab and Notebook 7."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .desk import OWN
from .goldens import IMAGES, takes_pictures
from .jupyter_page import Browser, NotebookPage, write_notebook
from .test_notebook7 import KNOWN

CELLS = [
    "%load_ext notebook_prof\n%profile_notebook",
    "a = 1",
    "import time\nb = [a] * 8_400_000\ntime.sleep(0.05)",
    "%profile_notebook show",
]
BADGES = """() => [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')].map(
    cell => cell.querySelector('.nbp-badge')?.textContent ?? '')"""
EDIT = """([cell, text]) =>
    window.jupyterapp.shell.currentWidget.content.widgets[cell].model.sharedModel.setSource(text)"""
SETTING = """async (on) => {
    const id = '@jupyterlab/codemirror-extension:plugin';
    const {serviceManager} = window.jupyterapp, settings = await serviceManager.settings.fetch(id);
    const raw = JSON.stringify({defaultConfig: {'notebook-prof-badges': on}});
    await serviceManager.settings.save(id, raw); return settings.raw; }"""


@pytest.fixture(scope="module", params=["lab", "seven"])
def _ran(request: pytest.FixtureRequest, browser: Browser, root: Path) -> Iterator[NotebookPage]:
    name = f"badges_{request.param}.ipynb"
    write_notebook(root / name, CELLS)
    page = NotebookPage(browser, request.getfixturevalue(request.param), name)
    browser.blank()
    page.page.bring_to_front()
    page.open().run_all()
    page.wait_ready()
    yield page
    page.kernel_command("shutdown()")
    browser.blank()


@pytest.fixture
def ran(_ran: NotebookPage) -> Iterator[NotebookPage]:
    """A notebook that was watched while it ran. Fails if the page reports an error."""
    yield _ran
    assert [error for error in _ran.browser.errors if KNOWN not in error] == []
    assert _ran.browser.elsewhere == []


def run_cell(shown: NotebookPage, cell: int) -> None:
    shown.page.evaluate(
        "(cell) => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = cell }", cell
    )
    shown.command("notebook:run-cell")


def test_a_cell_has_its_time_and_the_memory_that_it_kept(ran: NotebookPage) -> None:
    page = ran.page
    page.evaluate("() => document.querySelector('.jp-Notebook').scrollTo?.(0, 0)")
    page.locator(".nbp-badge").first.wait_for()
    first, a, b, show = page.evaluate(BADGES)
    assert (first, show) == ("", ""), "cells of ours have none"
    assert a.endswith("s")
    assert "·" not in a
    assert "s · +6" in b, "64 MiB"


def test_a_badge_selects_its_cell_in_the_view(ran: NotebookPage) -> None:
    badge = ran.page.locator(".jp-CodeCell").nth(2).locator(".nbp-badge")
    badge.click()
    ran.wait_views("v.store.get().name?.[0].startsWith('In[3]')")
    assert badge.get_attribute("aria-pressed") == "true"
    badge.click()
    ran.wait_views("!v.store.get().name")


def test_an_edit_and_a_new_value_above_make_a_result_stale(ran: NotebookPage) -> None:
    page = ran.page
    stale = page.locator(".nbp-badge-stale")
    page.evaluate(EDIT, [1, "a = 2"])
    stale.wait_for()
    assert "edited since" in (page.locator(".nbp-badge").first.get_attribute("title") or "")
    run_cell(ran, 1)
    page.wait_for_function(
        "() => document.querySelectorAll('.nbp-badge')[1]?.title.includes('a changed in In[5]')"
    )
    run_cell(ran, 2)
    page.wait_for_function("() => !document.querySelector('.nbp-badge-stale')")


def test_a_new_page_shows_them_again_and_a_new_kernel_none(ran: NotebookPage) -> None:
    page = ran.page
    ran.save()
    ran.reload()
    page.locator(".nbp-badge").nth(1).wait_for()
    page.evaluate(SETTING, False)
    ran.reload()
    page.wait_for_timeout(1000)  # nothing tells when there will be none
    assert page.evaluate(BADGES) == [""] * len(CELLS)
    page.evaluate(SETTING, True)
    ran.reload()
    page.locator(".nbp-badge").nth(1).wait_for()
    ran.kernel("get_ipython().run_line_magic('profile_notebook', 'off')")
    ran.command("notebook:clear-all-cell-outputs")  # the view of the session tells of its cells, too
    page.wait_for_function("() => !document.querySelector('.nbp-badge')")


PICTURED = [
    "%load_ext notebook_prof\n%profile_notebook",
    """import numpy as np
import pandas as pd""",
    """random, n = np.random.default_rng(7), 300_000
begin = np.datetime64("2026-03-01", "s") + random.integers(0, 28 * 86_400, n)
raw = pd.DataFrame(random.normal(size=(n, 24)), columns=[f"sensor_{i}" for i in range(24)])
raw["started"], raw["km"] = np.datetime_as_string(begin).astype(object), random.gamma(2.0, 3.0, n)""",
    "tariff = 1.9",
    """rides = raw.loc[raw["km"] > 0.5, ["started", "km"]].copy()""",
    """rides["hour"] = [pd.Timestamp(text).hour for text in rides["started"]]""",
    """rides["fare"] = 4.0 + tariff * rides["km"] * np.where(rides["hour"] < 6, 1.25, 1.0)""",
    "%profile_notebook show",
]


@takes_pictures
def test_take_a_picture_of_a_watched_notebook(notebook: Callable[..., NotebookPage]) -> None:
    shown = notebook("picture_of_cells.ipynb", *PICTURED, kernel=OWN, run=False)
    shown.page.set_viewport_size({"width": 1400, "height": 1180})
    shown.command("application:toggle-left-area")
    shown.run_all()
    shown.wait_ready()
    shown.page.evaluate(EDIT, [3, "tariff = 2.1"])
    run_cell(shown, 3)
    shown.page.locator(".nbp-badge-stale").wait_for()
    run_cell(shown, 7)  # the view of now
    shown.page.wait_for_function("() => document.querySelectorAll('.nbp-host').length === 1")
    shown.wait_ready()
    shown.page.evaluate("() => document.querySelectorAll('.jp-CodeCell')[1].scrollIntoView()")
    shown.settle()
    shown.page.locator(".jp-Notebook").screenshot(path=IMAGES / "notebook.png")
