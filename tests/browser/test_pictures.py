"""Pictures: golden screenshots that tolerate fonts, and the real thing for the documentation.

``NBP_UPDATE_GOLDEN=1`` writes the golden pictures anew, ``NBP_UPDATE_IMAGES=1`` those in ``docs/images``.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from .drawn import drawn_profile
from .jupyter_page import Browser, NotebookPage, Server, settle, write_notebook

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
GOLDEN = HERE / "golden"
TOLERANCE = 6.0
"""Mean difference of grey levels (0–255) after blurring away letters; a missing view gives 15 and more."""

TRAINING = """\
%%profile --steps 3:14
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 8 * 8, 10))
data = torch.utils.data.TensorDataset(torch.randn(1024, 3, 32, 32), torch.randint(0, 10, (1024,)))
loader = torch.utils.data.DataLoader(data, batch_size=64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for images, labels in loader:
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _place(name: str) -> Path:
    folder = REPOSITORY / ("docs/images" if os.environ.get("NBP_UPDATE_IMAGES") else "test-output")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _shape(png: bytes) -> np.ndarray:
    """The picture small, grey and blurred: layout and colours remain, letters go."""
    image = Image.open(io.BytesIO(png)).convert("L").filter(ImageFilter.GaussianBlur(6))
    return np.asarray(image.resize((160, 110), Image.Resampling.BOX), float)


def _compare(name: str, shoot: Callable[[], bytes]) -> None:
    """Take the picture until it looks as it should: a loaded machine draws late."""
    (REPOSITORY / "test-output").mkdir(exist_ok=True)
    until = time.monotonic() + 40
    while True:
        png = shoot()
        (REPOSITORY / "test-output" / f"{name}.png").write_bytes(png)
        found, golden = _shape(png), GOLDEN / f"{name}.png"
        if os.environ.get("NBP_UPDATE_GOLDEN"):
            GOLDEN.mkdir(exist_ok=True)
            Image.fromarray(found.astype(np.uint8)).save(golden, optimize=True)
        expected = np.asarray(Image.open(golden), float)
        difference = float(np.abs(found - expected).mean())
        if difference < TOLERANCE or time.monotonic() > until:
            break
        time.sleep(0.5)
    assert difference < TOLERANCE, (
        f"{name} differs by {difference:.1f} grey levels: see test-output/{name}.png"
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of the drawn profile."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    drawn_profile(gpu=True).export.html(path)
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("selection", ["nothing", "name", "window", "step"])
def test_report_looks_as_before(browser: Browser, file: Path, scheme: str, selection: str) -> None:
    page = browser.page
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 1280, "height": 880})
    try:
        page.goto(file.as_uri())
        page.wait_for_function("() => document.querySelector('.nbp-host')?.nbp?.counts.table")
        patch = {
            "nothing": "{}",
            "name": "{name: ['aten::conv2d']}",
            "window": "{window: [5e7, 9e7]}",
            "step": "{step: [5, 6]}",
        }
        page.evaluate(f"() => document.querySelector('.nbp-host').nbp.store.set({patch[selection]}, 'test')")
        settle(page)
        _compare(f"report-{selection}-{scheme}", page.screenshot)
    finally:
        page.emulate_media(color_scheme="light")
        page.goto("about:blank")


def test_a_real_training_loop_in_lab(browser: Browser, lab: Server, root: Path) -> None:
    """The whole way: ``%%profile`` in a cell, and the four views of what it recorded."""
    write_notebook(root / "training.ipynb", ["%load_ext notebook_prof", TRAINING])
    page = browser.page
    page.set_viewport_size({"width": 1400, "height": 1330})
    browser.blank()
    shown = NotebookPage(browser, lab, "training.ipynb").open()
    page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
    shown.run_all()
    shown.wait_ready()
    steps = [int(step) for step in shown.views("Array.from(v.meta.stepColumns.step)")]
    assert steps == list(range(3, 14))
    shown.wait_views(f"v.memory.snapshot().peak?.bytes > {2**20}")
    labels = shown.views("v.table.snapshot().labels")
    assert any("conv" in label for label in labels)
    page.evaluate("() => document.querySelector('.nbp-host').scrollIntoView({block: 'end'})")
    page.mouse.move(3, 3)
    page.evaluate("() => new Promise(done => setTimeout(done, 400))")
    page.screenshot(path=_place("lab-light.png"))
    host = page.locator(".nbp-host")
    host.screenshot(path=_place("views-light.png"))
    name = next(label for label in labels if "convolution_backward" in label)
    shown.views(f"v.store.set({{name: [{name!r}], step: [6]}}, 'table')")
    shown.views("v.setView(v.meta.stepColumns.ts[2], v.meta.stepColumns.ts[5])")
    shown.wait_views("v.timeline.snapshot().filtered && v.phases.snapshot().filtered")
    page.evaluate("() => new Promise(done => setTimeout(done, 600))")
    host.screenshot(path=_place("views-selected.png"))
    shown.kernel("_profile.selection.clear()")
    shown.wait_views("v.store.isEmpty()")
    change = "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
    page.evaluate(change, "JupyterLab Dark")
    shown.wait_views("v.theme().background === 'rgb(17, 17, 17)'")
    page.evaluate("() => new Promise(done => setTimeout(done, 600))")
    host.screenshot(path=_place("views-dark.png"))
    page.evaluate(change, "JupyterLab Light")
    page.evaluate("() => new Promise(done => setTimeout(done, 300))")
    assert browser.errors == []
    assert browser.elsewhere == []
    page.goto("about:blank")
