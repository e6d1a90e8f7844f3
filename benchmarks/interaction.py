"""From a real mouse or key event in JupyterLab (Chromium, software rendering) to the painted frame.

Fresh: from the event that made the page ask for another picture until that is painted. Frame: time between
painted frames while the gesture lasts, in which the old picture moves along. p50 and p95 in ms, by number of
slices; in `kernel` the kernel's own part. Needs a Chromium; without one there are no rows.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

TITLE = "Views: from hand to pixels"
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
ROOT = Path(__file__).parent.parent
SETUP = (
    "from benchmarks.views import long_trace\nfrom notebook_prof import Profile\np = Profile(long_trace({n}))"
)
WATCH = """([type, question, count]) => {
    const v = document.querySelector('.nbp-host').nbp, fresh = [], frames = [];
    const sent = () => v.log.of[question] ?? 0, drawn = () => v.counts[count] ?? 0;
    let latest = 0, start = null, want = 0, seen = sent(), last = 0, on = true;
    const note = (e) => { latest = e.timeStamp; };
    window.addEventListener(type, note, true);
    const tick = (now) => {
        if (last) frames.push(now - last);
        last = now;
        if (start === null && sent() > seen) { start = latest; want = drawn() + 1; }
        seen = sent();
        if (start !== null && drawn() >= want) { fresh.push(performance.now() - start); start = null; }
        if (on) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
    const from = v.log.kernelMs.length;
    window.nbpStop = () => { on = false; window.removeEventListener(type, note, true);
        return {fresh, frames, kernel: v.log.kernelMs.slice(from).filter((ms) => ms !== undefined)}; };
}"""


def _wheel(page: Any, x: float, y: float) -> None:
    page.mouse.move(x, y)
    for k in range(24):
        page.mouse.wheel(0, -240 if k % 12 < 6 else 240)
        page.wait_for_timeout(140)


def _drag(page: Any, x: float, y: float) -> None:
    for way in (1, -1, 1, -1):
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + way * 420, y, steps=12)
        page.mouse.up()
        page.wait_for_timeout(300)


def _keys(page: Any, x: float, y: float) -> None:
    for key in "wdas" * 2:
        page.keyboard.down(key)
        page.wait_for_timeout(180)
        page.keyboard.up(key)
        page.wait_for_timeout(160)


def _brush(page: Any, x: float, y: float) -> None:
    for k in range(6):
        page.keyboard.down("Shift")
        page.mouse.move(x - 200 + 20 * k, y)
        page.mouse.down()
        page.mouse.move(x + 100, y, steps=4)
        page.mouse.up()
        page.keyboard.up("Shift")
        page.wait_for_timeout(350)


def _rows(page: Any, x: float, y: float) -> None:
    rows = page.locator(".nbp tbody tr")
    for k in range(6):
        rows.nth(k).click()
        page.wait_for_timeout(400)


QUESTIONS = {"timeline": "lod", "table": "table"}
GESTURES = {
    "wheel zoom": ("wheel", "timeline", _wheel),
    "drag pan": ("pointermove", "timeline", _drag),
    "W A S D": ("keydown", "timeline", _keys),
    "box select": ("pointerup", "table", _brush),
    "row click": ("pointerup", "timeline", _rows),
}


def _p(values: list[float]) -> str:
    return f"{np.median(values):.0f}, {np.percentile(values, 95):.0f}" if values else "–"


def measured(notebook: Any, n: int) -> list[dict[str, Any]]:
    """Rows of an open notebook whose views show a trace of `n` slices."""
    page, out = notebook.page, []
    page.evaluate("() => document.querySelector('.nbp-host').scrollIntoView()")
    box = page.locator(".nbp-timeline").bounding_box()
    x, y = box["x"] + 0.6 * box["width"], box["y"] + 150
    page.mouse.click(x, y)
    for name, (event, count, act) in GESTURES.items():
        notebook.views("(v.store.clear('bench'), v.setView(...v.meta.span))")
        if name in ("drag pan", "W A S D"):
            notebook.views("v.setView(0.4 * v.meta.span[1], 0.45 * v.meta.span[1])")
        page.wait_for_timeout(700)
        page.evaluate(WATCH, [event, QUESTIONS[count], count])
        act(page, x, y)
        page.wait_for_timeout(300)
        found = page.evaluate("() => window.nbpStop()")
        largest = notebook.views("v.log.largest")
        out.append(
            {
                "slices": n,
                "gesture": name,
                "fresh p50, p95": _p(found["fresh"]),
                "frame p50, p95": _p(found["frames"]),
                "kernel p50, p95": _p(found["kernel"]),
                "largest update kB": round(largest / 1e3),
            }
        )
    return out


def run() -> list[dict[str, Any]]:
    """Rows: a gesture at a size each."""
    from tests.browser.jupyter_page import Browser, NotebookPage, Server, find_chromium, write_notebook

    chromium = find_chromium()
    if chromium is None:
        return []
    rows: list[dict[str, Any]] = []
    folder = Path(tempfile.mkdtemp(prefix="nbp-bench-"))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(
        os.pathsep
    )
    server, browser = Server(folder), Browser(chromium)
    try:
        for n in SIZES:
            write_notebook(folder / f"n{n}.ipynb", [SETUP.format(n=n), "p"])
            notebook = NotebookPage(browser, server, f"n{n}.ipynb").open()
            notebook.run_all()
            notebook.wait_ready()
            rows += measured(notebook, n)
            browser.page.goto("about:blank")
    finally:
        browser.close()
        server.close()
    return rows
