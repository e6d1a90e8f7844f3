"""Two cells recorded in turns in JupyterLab, and what comparing them shows there."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from .desk import TORCH
from .goldens import IMAGES, UPDATES_IMAGES
from .jupyter_page import NotebookPage
from .test_comparison_page import ComparedPage

STEPS, BATCH = (40, 96) if UPDATES_IMAGES else (16, 24)
SETUP = """
%load_ext notebook_prof
import torch, torch.nn as nn, torch.nn.functional as F
import notebook_prof as nbp
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10)
)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
batches = [(torch.randn(BATCH, 3, 24, 24), torch.randint(0, 10, (BATCH,))) for _ in range(STEPS)]""".replace(
    "STEPS", str(STEPS)
).replace("BATCH", str(BATCH))
LOOP = """
for x, y in batches:
{body}
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()"""
BEFORE = LOOP.format(
    body="    x = torch.stack([(c - c.mean()) / c.std() for one in x for c in one]).view_as(x)"
)
MOMENTS = "mean, std = x.mean((2, 3), keepdim=True), x.std((2, 3), keepdim=True)"
AFTER = LOOP.format(body=f"    {MOMENTS}\n    x = (x - mean) / std")
TURNS = [("a1", BEFORE), ("b1", AFTER), ("b2", AFTER), ("a2", BEFORE), ("a3", BEFORE), ("b3", AFTER)]


def take_picture(shown: NotebookPage, file: Path) -> None:
    """Open the file of the comparison beside the notebook, select the line that is gone, and draw it."""
    shown.kernel(f"c.to_html({str(file)!r})")
    page = shown.page.context.new_page()
    page.set_viewport_size({"width": 1300, "height": 2000})
    page.goto(file.as_uri())
    opened = ComparedPage(page).ready()
    page.locator("tr.nbp-line-gone").click()
    opened.rest()
    page.mouse.move(5, 5)
    opened.rest()  # the pointer has left
    page.locator(".nbp-comparison").screenshot(path=IMAGES / "compare.png")
    page.close()


def test_a_change_of_a_cell_is_shown_with_its_lines(
    notebook: Callable[..., NotebookPage], tmp_path: Path
) -> None:
    """Beside other jobs the noise of six short recordings may hide that it is faster; never the lines."""
    pytest.importorskip("torch")
    cells = [f"%%profile {name} --quiet{cell}" for name, cell in TURNS]
    names = 'names=("before", "after")'
    compare = f"c = nbp.compare([a1, a2, a3], [b1, b2, b3], {names}); c"
    shown = notebook("compare.ipynb", SETUP.strip(), *cells, compare, kernel=TORCH)
    page = shown.page
    ComparedPage(page).ready()
    drawn = page.locator(".nbp-comparison")
    text = " ".join((drawn.locator(".nbp-headline").text_content() or "").split())
    busy = "≈ No difference between before and after is shown" in text or "but not for certain" in text
    assert busy or re.search(r"after is [\d.]+ % faster \(−", text), text
    assert "This is based on 3 and 3 runs." in text
    if not busy:
        assert "torch.stack([(c - c.mean()) / c.std() for one in x for … (gone, −" in text
    gone = drawn.locator("tr.nbp-line-gone")
    assert gone.count() == 1
    assert "torch.stack([(c - c.mean()) / c.std() for one in x" in gone.inner_text()
    assert drawn.locator("tr.nbp-line-new").count() == 2
    static = page.locator(".nbp-compare.nbp-static")
    words = f"step times: {3 * STEPS} of before and {3 * STEPS} of after"
    assert static.locator("img").get_attribute("alt") == words, "a reader without a kernel sees every step"
    assert not static.is_visible()
    for width in (1400, 700):
        page.set_viewport_size({"width": width, "height": 900})
        inside = drawn.evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert inside[0] <= inside[1], f"nothing sticks out at {width} pixels"
    if UPDATES_IMAGES:
        take_picture(shown, tmp_path / "compare.html")
