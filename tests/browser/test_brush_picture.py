"""The animated picture of a brush in the README: frames of a report, with the pointer drawn into them."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import ViewportSize

from notebook_prof import Profile, open_profile

from .dashboard import Report
from .goldens import takes_pictures

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "brush.webp"
SIZE = (900, 890)
DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
NO_SCROLLBARS = "html { overflow: hidden } ::-webkit-scrollbar { display: none }"
MOST_BYTES = 600_000
TRIES = 12
"""Recordings, of which the one with the evenest steps is shown: other programs may want the cores, too."""
POINTER = [(0, 0), (0, 17), (4, 13), (7, 20), (10, 19), (7, 12), (12, 12)]
"""An arrow, by its corners."""


class Film:
    """Screenshots of a page, each with the pointer where the mouse is and the time that it is shown."""

    def __init__(self, shown: Report) -> None:
        self.shown, self.at = shown, (560.0, 860.0)
        self.frames: list[Any] = []
        self.times: list[int] = []

    def take(self, ms: int) -> None:
        """Take a frame that is shown for so long."""
        from PIL import Image, ImageDraw

        frame = Image.open(io.BytesIO(self.shown.page.screenshot())).convert("RGB")
        x, y = self.at
        corners = [(x + dx, y + dy) for dx, dy in POINTER]
        ImageDraw.Draw(frame).polygon(corners, fill="black", outline="white")
        self.frames.append(frame)
        self.times.append(ms)

    def move(self, x: float, y: float, frames: int = 1, ms: int = 60) -> None:
        """Move the mouse there, with some frames on the way."""
        (x0, y0), page = self.at, self.shown.page
        for step in range(1, frames + 1):
            self.at = (x0 + (x - x0) * step / frames, y0 + (y - y0) * step / frames)
            page.mouse.move(*self.at)
            page.evaluate(DRAWN)
            self.take(ms)

    def save(self, path: Path) -> None:
        """Write the frames as a WebP that starts again at its end."""
        small = {"quality": 78, "method": 6, "minimize_size": True, "kmax": 0}
        first, *others = self.frames
        first.save(path, save_all=True, append_images=others, duration=self.times, loop=0, **small)


def recorded(folder: Path) -> Profile:
    """Record five steps of a small network with PyTorch's own profiler, and open what it wrote."""
    import torch
    from torch import nn
    from torch.profiler import profile, record_function, schedule

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 8 * 8, 10)),
    )
    data = torch.utils.data.TensorDataset(torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))
    loader = torch.utils.data.DataLoader(data, batch_size=64)
    optimizer, loss_function = torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
    plan, trace = schedule(wait=1, warmup=1, active=5), folder / "cnn.pt.trace.json"
    keep = {"record_shapes": True, "profile_memory": True, "with_modules": True, "acc_events": True}
    with profile(schedule=plan, on_trace_ready=lambda p: p.export_chrome_trace(str(trace)), **keep) as p:
        for pictures, labels in loader:
            with record_function("## forward ##"):
                loss = loss_function(model(pictures), labels)
            optimizer.zero_grad()
            with record_function("## backward ##"):
                loss.backward()
            optimizer.step()
            p.step()
    return open_profile(trace)


def unevenness(profile: Profile) -> float:
    """Return how far the steps of a recording are from taking the same time."""
    lengths = profile.steps()["dur"]
    return float(lengths.max() / lengths.min())


@takes_pictures
def test_take_the_picture_of_a_brush(report: Callable[..., Report], tmp_path: Path) -> None:
    """A brush over a part of two steps, which all views follow, then a click on a row of the table."""
    size: ViewportSize = {"width": SIZE[0], "height": SIZE[1]}
    shown = report(min((recorded(tmp_path) for _ in range(TRIES)), key=unevenness), size)
    page = shown.page
    page.add_style_tag(content=NO_SCROLLBARS)
    page.mouse.move(*(film := Film(shown)).at)
    shown.settle()
    before = shown.views("v.table.snapshot().labels")
    film.take(1400)
    left, top, width, height = shown.frame()
    begin, end, y = left + 0.21 * width, left + 0.39 * width, top + 0.45 * height
    film.move(begin, y, frames=3)
    page.keyboard.down("Shift")
    page.mouse.down()
    film.move(end, y, frames=7, ms=90)
    page.mouse.up()
    page.keyboard.up("Shift")
    shown.settle()
    film.take(2200)
    assert shown.views("v.store.get().window") is not None
    assert shown.views("v.table.snapshot().labels") != before
    row = shown.rows.nth(1).bounding_box()
    assert row is not None
    film.move(row["x"] + 90, row["y"] + row["height"] / 2, frames=4)
    page.mouse.click(*film.at)
    shown.settle()
    film.take(2600)
    assert len(shown.views("v.store.get().name")) == 1
    film.save(PICTURE)
    assert PICTURE.stat().st_size <= MOST_BYTES


def test_the_picture_of_a_brush_is_small_and_moves() -> None:
    """It is as wide as it is drawn for, its frames differ, and a reader need not wait for it."""
    image = pytest.importorskip("PIL.Image").open(PICTURE)
    assert image.size == SIZE
    assert PICTURE.stat().st_size <= MOST_BYTES
    frames = []
    for number in range(image.n_frames):
        image.seek(number)
        frames.append(image.convert("RGB").tobytes())
    assert len(frames) >= 12
    assert len(set(frames)) == len(frames)
