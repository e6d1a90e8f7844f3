"""The heat of lines beside the recorded cell, in the editors of JupyterLab and Notebook 7."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator

from .conftest import SIZE
from .desk import OWN
from .goldens import IMAGES, takes_pictures
from .jupyter_page import Browser, NotebookPage, write_notebook
from .test_notebook7 import KNOWN

CELL = """
%%profile
import time

def wait(seconds):
    time.sleep(seconds)

wait(0.3)
for i in range(3):
    time.sleep(0.05)"""
"""Its first line is empty: the editor counts it, IPython does not."""

SLOW = 8
"""Line of ``wait(0.3)`` in the editor."""

MARKS = """() => [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')].map(
    cell => cell.querySelectorAll('.nbp-heat').length)"""
EDIT = """([at, text]) => {
    const {sharedModel} = window.jupyterapp.shell.currentWidget.content.widgets[1].model;
    sharedModel.updateSource(at, at + (text ? 0 : 1), text); }"""


@pytest.fixture(scope="module", params=["lab", "seven"])
def ran(request: pytest.FixtureRequest, browser: Browser, root: Path) -> Iterator[NotebookPage]:
    """A notebook whose second cell was recorded."""
    name = f"heat_{request.param}.ipynb"
    write_notebook(root / name, ["%load_ext notebook_prof", CELL, "1 + 1"])
    page = NotebookPage(browser, request.getfixturevalue(request.param), name)
    browser.blank()
    page.page.bring_to_front()
    page.open().run_all()
    page.wait_ready()
    yield page
    page.kernel_command("shutdown()")
    browser.blank()


@pytest.fixture
def recorded(ran: NotebookPage) -> Iterator[NotebookPage]:
    """The same; no complaint may come."""
    yield ran
    assert [error for error in ran.browser.errors if KNOWN not in error] == []
    assert ran.browser.elsewhere == []


def click_mark(editor: Locator, text: str) -> None:
    """Click in the gutter, beside the line that has this text."""
    line = editor.locator(".cm-line", has_text=text)
    line.scroll_into_view_if_needed()
    box, gutter = line.bounding_box(), editor.locator(".nbp-heat-gutter").bounding_box()
    assert box
    assert gutter
    editor.page.mouse.click(gutter["x"] + gutter["width"] / 2, box["y"] + box["height"] / 2)


def test_the_editor_shows_the_heat_and_shares_the_selection(recorded: NotebookPage) -> None:
    page = recorded.page
    page.locator(".nbp-heat").first.wait_for()
    marks = page.evaluate(MARKS)
    assert marks[1] >= 4
    assert (marks[0], marks[2]) == (0, 0), "other cells have no gutter"
    assert page.locator(".jp-CodeCell").nth(0).locator(".nbp-heat-gutter").count() == 0
    editor = page.locator(".jp-CodeCell").nth(1)
    tinted = editor.locator(".cm-line.nbp-heat-tint")
    assert "wait(0.3)" in tinted.all_inner_texts()
    words = editor.locator(".cm-content").get_attribute("aria-describedby")
    assert f"line {SLOW}: " in page.locator(f"#{words}").inner_text()
    click_mark(editor, "wait(0.3)")
    recorded.wait_kernel(
        "import notebook_prof; print(notebook_prof.last.selection.line)", f"('cell:{SLOW - 1}',)"
    )
    editor.locator(".nbp-heat-chosen").wait_for()
    recorded.kernel("notebook_prof.last.selection.clear()")
    page.wait_for_function("() => !document.querySelector('.nbp-heat-chosen')")
    recorded.kernel(f"notebook_prof.last.selection.line = 'cell:{SLOW + 1}'")
    editor.locator(".nbp-heat-chosen").wait_for()


def test_an_edit_takes_the_heat_away_and_its_undoing_brings_it_back(recorded: NotebookPage) -> None:
    page = recorded.page
    page.locator(".nbp-heat").first.wait_for()
    page.evaluate(EDIT, [len(CELL), " "])
    page.wait_for_function("() => !document.querySelector('.nbp-heat-gutter, .nbp-heat-tint')")
    page.evaluate(EDIT, [len(CELL), ""])
    page.locator(".nbp-heat").first.wait_for()
    recorded.command("notebook:move-cell-up")
    page.locator(".nbp-heat").first.wait_for()
    recorded.kernel_command("session.kernel.restart()")
    page.locator(".nbp-heat").first.wait_for()
    recorded.command("notebook:clear-all-cell-outputs")
    page.wait_for_function("() => !document.querySelector('.nbp-heat-gutter, .nbp-heat-tint')")


AGAIN = """%%profile
import time
time.sleep(seconds)
time.sleep(0.1)"""
"""The second run sleeps half as long in its first line."""
BEFORE = """() => [...document.querySelectorAll('.nbp-before')].map(
    (cell) => [cell.closest('tr').querySelector('.nbp-code').textContent, cell.title])"""
TRUST = """
from ipywidgets import Widget
(shown,) = [one for one in Widget.widgets.values() if type(one).__name__ == 'ProfileWidget' and one.comm]
shown.pieces = [[['It waits.', None]], [['! Trust: the first step took far longer.', None]]]
shown.headline = 'It waits.'"""
TOP = "() => document.querySelector('.nbp-bar').offsetTop"
HEAT_TITLES = "() => [...document.querySelectorAll('.nbp-heat:has(b)')].map(({title}) => title)"


def slept_before(title: str) -> bool:
    """Return whether this line slept for at least 0.2 s in the previous run."""
    before = re.search(r"the run before ([\d.]+) (m?)s", title)
    return before is not None and float(before[1]) * (1 if before[2] else 1000) >= 200


def test_the_run_before_is_marked_in_the_source_and_in_the_heat(
    notebook: Callable[..., NotebookPage],
) -> None:
    halved = "import os\nos.environ.pop('NOTEBOOK_PROF_HISTORY', None)\n%load_ext notebook_prof\n"
    halved += "seconds = globals().get('seconds', 0.4) / 2"
    shown = notebook("run_before.ipynb", halved, AGAIN, kernel=OWN)
    shown.wait_ready()
    shown.page.wait_for_function("() => !document.querySelector('.nbp-working')")
    shown.open_tab("source", "Source")
    assert shown.part(".nbp-source-grid .nbp-share-cell").count()
    assert shown.page.evaluate(BEFORE) == [], "nothing ran before"
    top = shown.page.evaluate(TOP)
    shown.kernel(TRUST)
    shown.part(".nbp-trust").wait_for()
    assert shown.page.evaluate(TOP) == top, "the verdict moves the views"
    shown.wait_kernel("import notebook_prof; print(len(notebook_prof.history()))", "1")
    shown.run_all()
    shown.page.wait_for_function("() => document.querySelector('.nbp-heat b')")
    _, of_seconds, _ = shown.page.evaluate(HEAT_TITLES)
    assert slept_before(of_seconds), of_seconds
    shown.wait_ready()
    shown.open_tab("source", "Source")
    shown.part(".nbp-before").first.wait_for()
    titles = dict(shown.page.evaluate(BEFORE))
    assert slept_before(titles["time.sleep(seconds)"]), titles
    assert "lines in self: the run before" in shown.part(".nbp-source summary").first.inner_text()
    shown.page.set_viewport_size({"width": 700, "height": SIZE["height"]})
    shown.page.wait_for_function("() => document.querySelector('.nbp-source').offsetWidth < 700")
    assert shown.part(".nbp-before").first.is_visible(), "also where there is no room for all numbers"
    shown.page.set_viewport_size(SIZE)
    shown.kernel("notebook_prof.last.selection.window = (0, 10**8)")
    shown.part(".nbp-before").first.wait_for(state="detached")
    shown.page.wait_for_function("() => !document.querySelector('.nbp-heat b')")


SETUP = """
import torch
from torch import nn
%load_ext notebook_prof
torch.manual_seed(0)
torch.optim.SGD([torch.zeros(1)])  # what it imports at its first call takes seconds
def batch(size=256):
    return torch.randn(size, 512), torch.randint(0, 10, (size,))"""
TRAINING = """%%profile --memory
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(512, 2048), nn.Linear(2048, 10)

    def forward(self, x):
        hidden = torch.relu(self.inner(x))
        return self.outer(hidden)

net = Net()
optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
losses = []
for step in range(30):
    inputs, labels = batch()
    loss = nn.functional.cross_entropy(net(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())"""


@takes_pictures
def test_take_pictures_of_the_editor_and_the_source(notebook: Callable[..., NotebookPage]) -> None:
    pytest.importorskip("torch")
    shown = notebook("picture.ipynb", SETUP.strip(), TRAINING, kernel=OWN, run=False)
    shown.page.set_viewport_size({"width": 1400, "height": 1000})
    shown.command("application:toggle-left-area")
    shown.run_all()
    shown.wait_ready()
    shown.open_tab("source", "Source")
    shown.part(".nbp-row").screenshot(path=IMAGES / "tab-source.png")
    shown.page.evaluate("() => document.querySelectorAll('.jp-CodeCell')[1].scrollIntoView()")
    shown.page.locator(".nbp-heat").first.wait_for()  # an editor out of sight is not drawn
    shown.settle()
    shown.page.locator(".jp-Notebook").screenshot(path=IMAGES / "editor-heat.png")
