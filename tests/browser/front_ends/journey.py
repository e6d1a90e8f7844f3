"""The journey that every front-end has to stand: a recording shown twice, by real mouse and keyboard."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Frame, Locator, Page

from ..dashboard import FRAME

RECORDING: Final = Path(__file__).parents[2] / "data" / "torch213_cpu" / "cnn_sgd.pt.trace.json.gz"
OPEN: Final = f"import notebook_prof as nbp\np = nbp.open_profile({str(RECORDING)!r})"
SECONDS: Final = int(os.environ.get("NBP_PATIENCE_S", "120"))
"""For whatever is waited for: two loaded cores need a minute for what takes a second otherwise."""

Ask = Callable[[str], str]
"""Gives what code prints where the Profile lives, as ``p``."""


class Display:
    """One live display of a Profile: in the page, in a shadow root or in a frame."""

    def __init__(self, page: Page, scope: Page | Frame | None = None, index: int = 0) -> None:
        self.page = page
        self.host = (scope or page).locator(".nbp-host").nth(index)
        self.static = (scope or page).locator(".nbp-static").nth(index)

    def views(self, expression: str) -> Any:
        """Evaluate JavaScript with ``v``, what the dashboard tells of itself; None while it is not there."""
        return self.host.evaluate(f"(h) => {{ const v = h.nbp; return v ? ({expression}) : null; }}")

    def wait(self, expression: str) -> None:
        """Wait until the JavaScript expression is true."""
        self.page.bring_to_front()  # a page behind another draws nothing
        until = time.monotonic() + SECONDS
        while not self.views(f"Boolean({expression})"):
            assert time.monotonic() < until, f"never: {expression}; selection {self.views('v.store.get()')}"
            self.page.wait_for_timeout(50)

    def ready(self) -> Display:
        """Wait until it is drawn, and bring it into view."""
        self.host.wait_for(state="visible")
        self.wait("v.counts.table && v.counts.timeline && v.table.snapshot().rows > 0")
        self.to_top()
        return self

    def part(self, selector: str) -> Locator:
        """An element of it; selectors reach into open shadow roots."""
        return self.host.locator(selector)

    def to_top(self) -> None:
        """Scroll until it begins at the top."""
        self.host.evaluate("(h) => h.scrollIntoView()")
        self.page.wait_for_timeout(200)

    def frame(self) -> tuple[float, float, float, float]:
        """Left, top, width and height of what is drawn of the timeline, as the mouse counts."""
        self.page.bring_to_front()
        box = self.part(".nbp-timeline").bounding_box()
        assert box
        rectangle = {"left": box["x"], "top": box["y"], "width": box["width"], "height": box["height"]}
        return tuple(self.page.evaluate(f"({FRAME})", rectangle))

    def point(self, share: float) -> tuple[float, float]:
        left, top, width, height = self.frame()
        return left + share * width, top + height / 2

    def brush(self, begin: float, end: float) -> None:
        """Drag with Shift between two shares of the timeline's width."""
        mouse, keyboard = self.page.mouse, self.page.keyboard
        keyboard.down("Shift")
        mouse.move(*self.point(begin))
        mouse.down()
        mouse.move(*self.point((begin + end) / 2), steps=4)
        mouse.move(*self.point(end), steps=4)
        mouse.up()
        keyboard.up("Shift")

    def clear(self) -> None:
        """Take the selection back."""
        self.part(".nbp-clear").first.click()

    def reset(self) -> None:
        """Show everything again, with nothing selected."""
        self.views("(v.setView(...v.meta.span), v.store.clear?.('test'))")
        self.page.keyboard.press("Escape")
        self.wait("v.store.isEmpty()")


def wait_printed(page: Page, ask: Ask, code: str, expected: str) -> None:
    """Wait until `code` prints `expected`."""
    until = time.monotonic() + SECONDS
    while (text := ask(code)) != expected:
        assert time.monotonic() < until, f"{code} printed {text!r}, not {expected!r}"
        page.wait_for_timeout(100)


def walk(shown: Sequence[Display], ask: Ask) -> None:
    """Go the whole way in the first display, and see the other and Python follow; nothing stays selected."""
    first, other = shown[0], shown[1]
    for display in shown:
        display.ready()
    first.to_top()
    _brush_a_window(first, other, ask)
    _click_a_row(first, other, ask)
    _open_a_tab(first)
    _filter_the_table(first)
    _zoom(first)
    step_both_ways(first, other, ask)


def _brush_a_window(first: Display, other: Display, ask: Ask) -> None:
    rows = first.views("v.table.snapshot().rows")
    first.brush(0.3, 0.6)
    first.wait("v.store.get().window")
    begin, end = first.views("v.store.get().window")
    wait_printed(first.page, ask, "print([int(t) for t in p.selection.window])", f"[{begin}, {end}]")
    span = first.views("v.meta.span")
    assert abs((begin - span[0]) / (span[1] - span[0]) - 0.3) < 0.02
    assert abs((end - span[0]) / (span[1] - span[0]) - 0.6) < 0.02
    for display in (first, other):
        display.wait(f"v.store.get().window?.join() === '{begin},{end}' && v.table.snapshot().rows < {rows}")
    first.wait(f"v.table.snapshot().rows === {other.views('v.table.snapshot().rows')}")
    first.clear()
    for display in (first, other):
        display.wait(f"v.store.isEmpty() && v.table.snapshot().rows === {rows}")


def _click_a_row(first: Display, other: Display, ask: Ask) -> None:
    row = first.part(".nbp-table tr[data-name='aten::convolution']").first
    row.click()
    first.wait("v.store.get().name?.join() === 'aten::convolution' && v.table.snapshot().chosen.length === 1")
    wait_printed(first.page, ask, "print(p.selection.name)", "('aten::convolution',)")
    other.wait("v.store.get().name?.join() === 'aten::convolution' && v.table.snapshot().chosen.length === 1")
    assert row.get_attribute("aria-selected") == "true"
    first.clear()
    first.wait("v.store.isEmpty()")


def _open_a_tab(first: Display) -> None:
    rail = first.part(".nbp-rail [data-tab]:not(.nbp-missing)")
    names = [each.get_attribute("data-tab") for each in rail.all()]
    name = next(each for each in names if each != "operators")
    first.part(f".nbp-rail [data-tab={name}]").click()
    first.wait(f"v.panels.snapshot().state === 'shown' && v.panels.snapshot().open === '{name}'")
    assert first.part(".nbp-tab").first.inner_text().strip()
    first.part(".nbp-rail [data-tab=operators]").click()
    first.wait("v.table.snapshot().rows > 0")
    assert first.part(".nbp-table tbody tr").first.is_visible()


def _filter_the_table(first: Display) -> None:
    """The letters go into the box: no front-end takes one of them for a command."""
    rows = first.views("v.table.snapshot().rows")
    box = first.part(".nbp-table .nbp-panel-head input").first
    box.click()
    first.page.keyboard.type("xdconv", delay=20)
    assert box.input_value() == "xdconv"
    for _ in "xdconv":
        first.page.keyboard.press("Backspace")
    first.page.keyboard.type("conv", delay=20)
    first.wait(f"v.table.snapshot().rows > 0 && v.table.snapshot().rows < {rows}")
    names = [each.get_attribute("data-name") or "" for each in first.part(".nbp-table tbody tr").all()]
    assert names
    assert all("conv" in name.lower() for name in names)
    box.fill("")
    first.wait(f"v.table.snapshot().rows === {rows}")


def _zoom(first: Display) -> None:
    """W zooms where the timeline has the focus, and then the plain wheel does."""
    width = first.views("v.range.end - v.range.start")
    first.page.mouse.click(*first.point(0.5))
    first.page.keyboard.down("w")
    first.wait(f"v.range.end - v.range.start < {0.8 * width}")
    first.page.keyboard.up("w")
    width = first.views("v.range.end - v.range.start")
    first.page.mouse.move(*first.point(0.5))
    first.page.mouse.wheel(0, -300)
    first.wait(f"v.range.end - v.range.start < {0.9 * width}")
    first.reset()


def step_both_ways(first: Display, other: Display, ask: Ask) -> None:
    """Python selects and both displays show it; the other takes it back, and the first and Python follow."""
    ask("p.selection.name = 'aten::add_'")
    for display in (first, other):
        display.wait("v.store.get().name?.join() === 'aten::add_' && v.timeline.snapshot().filtered")
    other.to_top()
    other.clear()
    first.wait("v.store.isEmpty() && !v.timeline.snapshot().filtered")
    wait_printed(first.page, ask, "print(p.selection.name)", "None")
    first.to_top()


LUMINANCE: Final = """(h) => {
    const colour = (css) => { const c = document.createElement('canvas').getContext('2d');
        c.fillStyle = css; c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; };
    const luminance = (css) => { const [r, g, b] = colour(css).map((c) => c / 255)
        .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const style = getComputedStyle(h.querySelector('.nbp'));
    return [luminance(style.backgroundColor), luminance(style.color)]; }"""


def assert_dark(display: Display) -> None:
    """The dashboard's ground is dark, its text light, in the DOM and the canvas, and scroll bars are dark."""
    display.wait("v.theme().background !== 'rgb(255, 255, 255)'")
    assert display.host.evaluate("(h) => getComputedStyle(h).colorScheme") == "dark"
    ground, ink = display.host.evaluate(LUMINANCE)
    assert ground < 0.1, ground
    assert (ink + 0.05) / (ground + 0.05) > 4.5, (ink, ground)
