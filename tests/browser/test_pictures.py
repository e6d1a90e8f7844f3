"""Pictures: a report and odd traces as they have always looked, and a real training loop.

``NBP_UPDATE_GOLDEN=1`` writes the golden pictures anew, ``NBP_UPDATE_IMAGES=1`` those in ``docs/images``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import numpy as np
from playwright.sync_api import ViewportSize

from notebook_prof import Profile, TraceBuilder

from .dashboard import Report
from .desk import OWN
from .goldens import compare, image_path
from .jupyter_page import Browser, NotebookPage

SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
SELECTIONS: Final = {
    "nothing": "{}",
    "name": "{name: ['aten::conv2d']}",
    "window": "{window: [5e7, 9e7]}",
    "step": "{step: [5, 6]}",
}
TICKS: Final = """() => {
    const models = Bokeh.documents.flatMap((d) => [...d._all_models.values()]),
        axis = models.find((m) => m.formatter?.name === 'timeline_time');
    return axis.formatter.doFormat(axis.ticker.get_ticks(0, 3000e9, null, NaN).major); }"""
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


def _empty(builder: TraceBuilder) -> None:
    builder.metadata["source"] = "recording"


def _one_slice(builder: TraceBuilder) -> None:
    builder.slices(ts=[5], dur=[10**6], name="only", track=builder.track("MainThread", pid=1, tid=1))


def _many_tracks(builder: TraceBuilder) -> None:
    rng = np.random.default_rng(0)
    for k in range(300):
        ts = np.cumsum(rng.integers(10_000, 60_000, 60))
        track = builder.track(f"worker {k}", pid=k // 100, tid=k + 1)
        builder.slices(ts=ts, dur=rng.integers(1_000, 9_000, 60), name=f"task {k % 7}", track=track)


def _long_names(builder: TraceBuilder) -> None:
    word = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
    names = [f"{word * 12} {k}" for k in range(20)]
    ts = np.arange(20) * 10**6
    row = {"track": builder.track("thread " * 30, pid=1, tid=1), "module": word, "shapes": word}
    builder.slices(ts=ts, dur=np.full(20, 900_000), name=names, **row)


def _instants(builder: TraceBuilder) -> None:
    track = builder.track("MainThread", pid=1, tid=1)
    builder.slices(ts=np.arange(50) * 1_000, dur=np.zeros(50, int), name="mark", track=track)


def _two_hours(builder: TraceBuilder) -> None:
    second = 10**9
    ts = np.arange(0, 7200, 60) * second
    track = builder.track("MainThread", pid=1, tid=1)
    builder.slices(ts=ts, dur=np.full(120, 50 * second), name=["train", "validate"] * 60, track=track)
    builder.steps(step=np.arange(120), ts=ts, dur=np.full(120, 60 * second), source="loop")


def _two_microseconds(builder: TraceBuilder) -> None:
    track = builder.track("MainThread", pid=1, tid=1)
    builder.slices(ts=[0, 100, 900], dur=[2_000, 700, 1_000], name=["all", "a", "b"], track=track)


ODD: Final[dict[str, Callable[[TraceBuilder], None]]] = {
    "empty": _empty,
    "one-slice": _one_slice,
    "300-tracks": _many_tracks,
    "long-names": _long_names,
    "instants": _instants,
    "two-hours": _two_hours,
    "two-microseconds": _two_microseconds,
}

Open = Callable[..., Report]
LOW: ViewportSize = {"width": 1280, "height": 880}


def test_a_report_looks_as_before(report: Open, drawn_file: Path) -> None:
    """Whatever is selected, in light and in dark, also where the system changes its mind."""
    shown = report(drawn_file, LOW)
    page = shown.page
    try:
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            for name, state in SELECTIONS.items():
                shown.views(f"(v.store.clear('test'), void v.store.set({state}, 'test'))")
                shown.settle()
                compare(f"report-{name}-{scheme}", page.screenshot)
    finally:
        page.emulate_media(color_scheme="light")


def test_odd_traces_are_drawn(report: Open, browser: Browser, tmp_path: Path) -> None:
    """None may break a view; what has nothing to show says why, and long times have whole minutes."""
    page = browser.page
    try:
        for case, fill in ODD.items():
            builder, path = TraceBuilder(), tmp_path / f"{case}.html"
            fill(builder)
            Profile(builder.seal()).export.html(path)
            if case == "empty":
                page.bring_to_front()
                page.set_viewport_size(LOW)
                page.goto(path.as_uri())
                assert "Nothing was recorded" in page.locator("body").inner_text()
            else:
                shown = report(path, LOW)
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                if case != "empty":
                    shown.settle()
                compare(f"odd-{case}-{scheme}", page.screenshot)
            if case == "one-slice":
                folded = page.locator(".nbp-more")
                assert "not recorded" in folded.inner_text()
                reasons = folded.get_attribute("title") or ""
                assert "--memory" in reasons
                assert "nbp.step()" in reasons
                assert shown.views("v.table.snapshot().labels") == ["only"]
            if case == "two-hours":
                labels = ["0", "10:00 min", "20:00 min", "30:00 min", "40:00 min", "50:00 min"]
                assert page.evaluate(TICKS) == labels
            assert browser.errors == [], case
    finally:
        page.emulate_media(color_scheme="light")


def test_a_real_training_loop_in_lab(notebook: Callable[..., NotebookPage]) -> None:
    """The whole way: ``%%profile`` in a cell of a new kernel, and the four views of what it recorded."""
    shown = notebook("training.ipynb", "%load_ext notebook_prof", TRAINING, kernel=OWN, run=False)
    page = shown.page
    page.set_viewport_size({"width": 1400, "height": 1330})
    shown.command("application:toggle-left-area")
    shown.run_all()
    shown.wait_ready()
    steps = [int(step) for step in shown.views("Array.from(v.meta.stepColumns.step)")]
    assert steps == list(range(3, 14))
    shown.wait_views(f"v.memory.snapshot().peak?.bytes > {2**20}")
    labels = shown.views("v.table.snapshot().labels")
    assert any("conv" in label for label in labels)
    page.evaluate("() => document.querySelector('.nbp-host').scrollIntoView({block: 'end'})")
    page.mouse.move(3, 3)
    shown.part(".nbp-headline", has_text="of the cell").wait_for()  # the verdict comes after the views
    shown.settle()
    page.screenshot(path=image_path("lab-light.png"))
    host = shown.host
    host.screenshot(path=image_path("views-light.png"))
    name = next(label for label in labels if "convolution_backward" in label)
    shown.views(f"v.store.set({{name: [{name!r}], step: [6]}}, 'table')")
    shown.views("v.setView(v.meta.stepColumns.ts[2], v.meta.stepColumns.ts[5])")
    shown.wait_views("v.timeline.snapshot().filtered && v.phases.snapshot().filtered")
    shown.settle()
    host.screenshot(path=image_path("views-selected.png"))
    shown.kernel("_profile.selection.clear()")
    shown.wait_views("v.store.isEmpty()")
    shown.change_theme("Dark")
    shown.settle()
    host.screenshot(path=image_path("views-dark.png"))
    shown.change_theme("Light")
