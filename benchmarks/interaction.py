"""From a real mouse or key event in JupyterLab (Chromium, software rendering) to the painted frame.

Columns give p50 and p95 in ms, by number of slices:

- *Fresh*: after an event that changes the view, until a picture of the whole view is painted, at 0.7 bins a
  pixel or finer. After a click or a brush, until the answering view has painted the kernel's exact values:
  the timeline answers a row of the table, the table answers a brush.
- *First*: until the timeline has painted what the page knows without the kernel: the brush, or the slices of
  that name.
- *Last*: until the last requested view has painted.
- *Waited*: the events whose next frame was not fresh, since it needed an answer of the kernel. The other
  events show correct pixels from what is ready beside the view.
- *Frame*: the time between painted frames during the gesture, while the old picture moves along.
- *Kernel*: the kernel's part of every answer.

*Update* is the largest answer of a gesture in kB, and *rectangles* the most in one picture, without the
density image. A held key is one event per frame. *CPU* is the time of the page's main thread in seconds
for the whole gesture; a busy machine changes it least. *Kernel 100 ms away*: every message takes 50 ms
longer each way. *Interpreter held*: a loop in C lets no other thread of the kernel run. The last figures
are the seconds from running the cell that shows a Profile to its first timeline, and to all views.
Without Chromium there are no rows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from notebook_prof.views.page_queries import MOST_IN_PAGE

TITLE = "Views: from hand to pixels"
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
ROOT = Path(__file__).parent.parent
OPENING_S = 240
SETUP = (
    "from benchmarks.views import long_trace\nfrom notebook_prof import Profile\np = Profile(long_trace({n}))"
)
# an event is done by the first painted timeline after it that holds the view, or shows what was asked for
WATCH = """([type, count]) => {
    const v = document.querySelector('.nbp-host').nbp, fresh = [], waited = [], frames = [];
    const first = [], last = [];
    const views = {strip: 'overview'};
    const figure = v.timeline.view, panning = count === 'timeline' && type !== 'pointerup';
    const drawn = () => v.counts[count] ?? 0;
    let pending = [], held = false, before = 0, on = true, quads = 0, shown = drawn();
    let picture = null, next = null;
    v.transport.plain ??= v.transport.request;
    v.transport.request = (message) => v.transport.plain(message).then((answer) => {
        if (message.t === 'timeline') next = {...message, width: figure.frame.bbox.width};
        return answer;
    });
    const add = (at) => pending.push({at, tries: 0, of: {...v.log.of}, counts: {...v.counts}});
    const note = (e) => {
        if (!e.isTrusted || (type === 'pointermove' && !e.buttons)) return;
        if (type === 'keydown') held = true; else add(e.timeStamp);
    };
    const release = () => { held = false; };
    window.addEventListener(type, note, true);
    window.addEventListener('keyup', release, true);
    const holds = () => {
        const {start, end} = v.range, width = end - start;
        return picture && start >= picture.a && end <= picture.b
            && picture.px * width / (picture.b - picture.a) / picture.width > 0.7;
    };
    const done = (list) => setTimeout(() => {
        for (const one of list) {
            fresh.push(performance.now() - one.at);
            if (one.tries) waited.push(performance.now() - one.at);
        }
    }, 0);
    const painted = () => {
        if (shown !== drawn()) { shown = drawn(); picture = next ?? picture; }
        quads = Math.max(quads, v.timeline.snapshot().quads ?? 0);
        if (!panning) {
            const note = (one) => { one.first ??= first.push(performance.now() - one.at); };
            for (const one of pending) setTimeout(() => note(one), 0);
            if (count === 'timeline') setTimeout(() => answered(count), 0);
            return;
        }
        if (!pending.length) return;
        if (!holds()) { for (const one of pending) one.tries++; return; }
        done(pending.splice(0));
    };
    // a view has taken its answer in this frame; the timeline paints it in the next
    const answered = (name) => {
        for (const one of pending) {
            const here = (view) => (v.counts[view] ?? 0) > (one.counts[view] ?? 0);
            if (name === count && here(count) && !one.fresh) {
                one.fresh = fresh.push(performance.now() - one.at);
                waited.push(fresh.at(-1));
            }
            const wanted = Object.keys(views).filter((t) => (v.log.of[t] ?? 0) > (one.of[t] ?? 0));
            if (!wanted.length || !one.fresh || !wanted.every((t) => here(views[t] ?? t))) continue;
            one.done = last.push(performance.now() - one.at);
        }
        pending = pending.filter((one) => !one.done);
    };
    v.counted = (name) => {
        if (!panning && (name !== 'timeline' || count !== 'timeline')) setTimeout(() => answered(name), 0);
    };
    figure.repainted.connect(painted);
    const tick = (now) => {
        if (before) frames.push(now - before);
        if (held) add(now);
        before = now;
        if (on) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
    v.log.largest = 0;
    v.timeline.refresh(); // the first picture is known
    const from = v.log.kernelMs.length;
    window.nbpStop = () => { on = false;
        figure.repainted.disconnect(painted);
        window.removeEventListener(type, note, true);
        window.removeEventListener('keyup', release, true);
        v.transport.request = v.transport.plain;
        v.counted = null;
        return {fresh, waited, first, last, frames, quads, largest: v.log.largest,
            kernel: v.log.kernelMs.slice(from).filter((ms) => ms !== undefined)}; };
}"""


def _wheel(page: Any, x: float, y: float) -> None:
    page.mouse.move(x, y)
    for k in range(24):
        page.mouse.wheel(0, -240 if k % 12 < 6 else 240)
        page.wait_for_timeout(140)


def _drag(page: Any, x: float, y: float) -> None:
    for way in (1, -1) * 4:  # further than what lies ready beside the view
        at = x - way * 330
        page.mouse.move(at, y)
        page.mouse.down()
        page.mouse.move(at + way * 660, y, steps=14)
        page.mouse.up()
        page.wait_for_timeout(200)


def _keys(page: Any, x: float, y: float) -> None:
    for key in "wdas" * 2:
        page.keyboard.down(key)
        page.wait_for_timeout(180)
        page.keyboard.up(key)
        page.wait_for_timeout(160)


def _brush(page: Any, x: float, y: float) -> None:
    for k in range(10):
        page.keyboard.down("Shift")
        page.mouse.move(x - 200 + 20 * k, y)
        page.mouse.down()
        page.mouse.move(x + 100, y, steps=4)
        page.mouse.up()
        page.keyboard.up("Shift")
        page.wait_for_timeout(350)


def _rows(page: Any, x: float, y: float) -> None:
    rows = page.locator(".nbp-table tbody tr")
    for k in range(10):
        rows.nth(k % 6).click()
        page.wait_for_timeout(400)


def _type(page: Any, x: float, y: float) -> None:
    box = page.locator(".nbp-panel-head input[type=search]").first
    for text in ("mm", "conv", "relu", "add") * 2:
        box.click(click_count=3)
        page.keyboard.insert_text(text)
        page.wait_for_timeout(400)
    box.click(click_count=3)
    page.keyboard.press("Backspace")
    page.wait_for_timeout(400)


GESTURES = {
    "wheel zoom": ("wheel", "timeline", _wheel),
    "drag pan": ("pointermove", "timeline", _drag),
    "W A S D": ("keydown", "timeline", _keys),
    "box select": ("pointerup", "table", _brush),
    "row click": ("pointerup", "timeline", _rows),
    "typing in the filter": ("input", "table", _type),
}

DISTANCE_MS = 50
FAR = """(ms) => {
    const {line} = document.querySelector('.nbp-host').nbp.transport;
    const later = () => new Promise((done) => setTimeout(done, ms));
    line.near = line.request;
    line.request = async (message) => {
        await later();
        const answer = await line.near(message);
        await later();
        return answer;
    }; }"""
NEAR = "() => { const {line} = document.querySelector('.nbp-host').nbp.transport; line.request = line.near; }"
HELD_S = 30
HELD = """(seconds) => {
    const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    const code = `
import time
began = time.perf_counter(); sum(range(10**7)); one = time.perf_counter() - began
sum(range(int(10**7 * ${seconds} / one)))`;
    window.nbpHeld = kernel.requestExecute({store_history: false, code}).done.then(() => true); }"""
"""`sum` of a range is a loop in C that gives the interpreter to nobody."""


def _p(values: list[float]) -> str:
    return f"{np.median(values):.0f}, {np.percentile(values, 95):.0f}" if values else "–"


def _busy(clock: Any) -> float:
    """CPU seconds of the page's main thread so far."""
    metrics = clock.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def _show(notebook: Any, n: int) -> dict[str, Any]:
    """Run both cells; a trace of ten million slices takes its time to be drawn."""
    page, patience = notebook.page, OPENING_S * 1e3
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')")
    page.wait_for_function(
        """() => window.jupyterapp.shell.currentWidget.content.widgets[0].model.sharedModel
            .execution_count !== null""",
        timeout=patience,
    )
    page.evaluate(
        """() => { window.nbpShown = {}; const began = performance.now();
            window.jupyterapp.commands.execute('notebook:run-cell-and-select-next');
            const look = () => {
                const counts = document.querySelector('.nbp-host')?.nbp?.counts ?? {};
                if (counts.timeline) window.nbpShown.first ??= performance.now() - began;
                const all = counts.timeline && counts.table && counts.phases;
                if (all) window.nbpShown.all = performance.now() - began;
                else requestAnimationFrame(look);
            };
            look(); }"""
    )
    page.wait_for_function("() => window.nbpShown.all", timeout=patience)
    shown = page.evaluate("() => window.nbpShown")
    page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
    return {
        "slices": n,
        "first timeline s": round(shown["first"] / 1e3, 1),
        "all views s": round(shown["all"] / 1e3, 1),
    }


def measured(notebook: Any, n: int, gestures: Sequence[str] = (), case: str = "") -> list[dict[str, Any]]:
    """Rows of an open notebook whose views show a trace of `n` slices: of some gestures, in a case."""
    page, out = notebook.page, []
    page.evaluate("() => document.querySelector('.nbp-host').scrollIntoView()")
    box = page.locator(".nbp-timeline").bounding_box()
    x, y = box["x"] + 0.58 * box["width"], box["y"] + 150
    page.mouse.click(x, y)
    clock = page.context.new_cdp_session(page)
    clock.send("Performance.enable", {"timeDomain": "threadTicks"})
    for name, (event, count, act) in GESTURES.items():
        if gestures and name not in gestures:
            continue
        notebook.views("(v.store.clear('bench'), v.setView(...v.meta.span))")
        if name in ("drag pan", "W A S D"):
            notebook.views("v.setView(0.4 * v.meta.span[1], 0.45 * v.meta.span[1])")
        page.wait_for_timeout(700)
        page.evaluate(WATCH, [event, count])
        page.wait_for_timeout(700)
        before = _busy(clock)
        act(page, x, y)
        page.wait_for_timeout(300)
        busy = _busy(clock) - before
        latencies = page.evaluate("() => window.nbpStop()")
        out.append(
            {
                "slices": n,
                "gesture": f"{name}, {case}" if case else name,
                "fresh p50, p95": _p(latencies["fresh"]),
                "waited p50, p95": _p(latencies["waited"]),
                "first p50, p95": _p(latencies["first"]),
                "last p50, p95": _p(latencies["last"]),
                "waited": f"{len(latencies['waited'])} of {len(latencies['fresh'])}",
                "frame p50, p95": _p(latencies["frames"]),
                "kernel p50, p95": _p(latencies["kernel"]),
                "update kB": round(latencies["largest"] / 1e3),
                "rectangles": latencies["quads"],
                "CPU s": round(busy, 2),
            }
        )
    return out


def _elsewhere(notebook: Any, n: int) -> list[dict[str, Any]]:
    """Rows with the kernel far away and, where the page answers by itself, with its interpreter held."""
    page, asked = notebook.page, ("box select", "row click")
    page.evaluate(FAR, DISTANCE_MS)
    out = measured(notebook, n, asked, f"kernel {2 * DISTANCE_MS} ms away")
    page.evaluate(NEAR)
    if n <= MOST_IN_PAGE:
        page.evaluate(HELD, HELD_S)
        page.wait_for_timeout(1000)
        out += measured(notebook, n, asked, "interpreter held")
        page.evaluate("() => window.nbpHeld")
    return out


def run() -> list[dict[str, Any]]:
    """Rows: a gesture at a size each."""
    from tests.browser.jupyter_page import Browser, NotebookPage, Server, find_chromium, write_notebook

    chromium = find_chromium()
    if chromium is None:
        return []
    rows: list[dict[str, Any]] = []
    opened: list[dict[str, Any]] = []
    folder = Path(tempfile.mkdtemp(prefix="nbp-bench-"))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(
        os.pathsep
    )
    server, browser = Server(folder), Browser(chromium)
    try:
        for n in SIZES:
            write_notebook(folder / f"n{n}.ipynb", [SETUP.format(n=n), "p"])
            notebook = NotebookPage(browser, server, f"n{n}.ipynb").open()
            opened.append(_show(notebook, n))
            if n <= MOST_IN_PAGE:
                notebook.wait_views("v.transport.alone")
            rows += measured(notebook, n) + _elsewhere(notebook, n)
            browser.page.goto("about:blank")
    finally:
        browser.close()
        server.close()
        shutil.rmtree(folder, ignore_errors=True)
    return rows + opened
