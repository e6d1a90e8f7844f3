"""A cell that runs out of memory, in JupyterLab: its Profile opens on the names that hold memory."""

from collections.abc import Callable

import pytest

from .desk import TORCH
from .goldens import image_path
from .jupyter_page import NotebookPage

FAILING = """\
%%profile p
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.Adam(model.parameters())
acts = []
for step in range(32):
    batch = torch.randn(128, 256)
    hidden = model[:2](batch)
    acts.append(hidden)
    loss = model[2](hidden).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 30:
        raise MemoryError("no room for 2 GiB more")
"""
UNBOUNDED = """
from notebook_prof.collectors.system.names.watch import walk_names
walk_names.__defaults__ = (10**12,)
"""
"""Finish the walk over names on a slow machine too."""


def test_without_memory_enough_a_profile_opens_on_names(notebook: Callable[..., NotebookPage]) -> None:
    pytest.importorskip("torch")
    setup = "%load_ext notebook_prof\nimport torch\nfrom torch import nn"
    shown = notebook("failing.ipynb", setup, FAILING, kernel=TORCH, run=False)
    page = shown.page
    page.set_viewport_size({"width": 1400, "height": 1330})
    shown.command("application:toggle-left-area")
    shown.kernel(UNBOUNDED)
    shown.run_all()
    shown.wait_ready()
    shown.wait_tab("Memory")
    assert "The cell ran out of memory. MemoryError: no room for 2 GiB more" in shown.tab.inner_text()
    first = shown.tab_rows.first
    assert "acts[]" in first.inner_text()
    assert "cell:7" in first.inner_text(), "the ReLU of the slice of the model"
    shown.widen.click()
    page.mouse.move(3, 3)
    shown.settle()
    shown.tab.screenshot(path=image_path("memory-names.png"))
    first.click()
    shown.wait_views("v.store.get().focus !== null")
    shown.kernel("row = p.trace.slices.loc[p.selection.focus]; assert row['line'] == 'cell:7', row")
