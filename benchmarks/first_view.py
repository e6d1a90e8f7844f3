"""From running the cell that shows a Profile to the first view, in JupyterLab.

Seconds in Chromium with software rendering, one run each in a fresh kernel; the trace exists before.
*Widget*: the message that opens the widget has arrived. *Picture*: the timeline is seen. *Views*: memory,
phases and operators are seen, too. *Timeline*: its figure is there, and can be brushed. *Table*: all figures.
*Verdict*: the headline on top. *Static*: the picture and the table for readers without a kernel, made after
the first picture. *Again*: another display of the same Profile in the same page. Without Chromium there are
no rows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

TITLE = "Views: the first view"
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
PARTS = ("widget", "picture", "views", "timeline", "table", "verdict", "static")
ROOT = Path(__file__).parent.parent
OPENING_MS = 400e3
SETUP = (
    "from benchmarks.views import long_trace\nfrom notebook_prof import Profile\np = Profile(long_trace({n}))"
)
WATCH = """() => {
    const before = new Set(document.querySelectorAll('.nbp-host'));
    const seen = window.nbpSeen = {}, began = performance.now();
    const note = (what) => { seen[what] ??= (performance.now() - began) / 1e3; };
    const page = window.jupyterapp;
    page.shell.currentWidget.context.sessionContext.session.kernel.iopubMessage.connect((_, message) => {
        if (message.header.msg_type === 'comm_open') note('widget');
    });
    page.commands.execute('notebook:run-cell-and-select-next');
    const look = () => {
        const host = [...document.querySelectorAll('.nbp-host')].find((one) => !before.has(one)),
            output = host?.closest('.jp-OutputArea'), counts = host?.nbp?.counts ?? {};
        if (counts.timeline || host?.querySelector('.nbp-timeline .nbp-early')) note('picture');
        const early = (name) => host?.querySelector(`.nbp-${name} .nbp-early`);
        const drawn = ['memory', 'phases'].every((name) => counts[name] || early(name));
        if (drawn && host.querySelector('.nbp-table tbody tr')) note('views');
        if (counts.timeline) note('timeline');
        if (counts.table && counts.phases) note('table');
        if (host?.querySelector('.nbp-headline .nbp-verdict:not(.nbp-working)')) note('verdict');
        if (output?.querySelector('.nbp-static img')) note('static');
        if (Object.keys(seen).length < 7) requestAnimationFrame(look);
    };
    look();
}"""


def shown(page: Any) -> dict[str, float]:
    """Run the next cell, which shows the Profile; return the seconds until each part came into sight."""
    page.evaluate(WATCH)
    page.wait_for_function("() => Object.keys(window.nbpSeen).length === 7", timeout=OPENING_MS)
    seen = page.evaluate("() => window.nbpSeen")
    return {what: round(seen[what], 2) for what in PARTS}


def measured(notebook: Any, n: int) -> dict[str, Any]:
    """Run the cells of an open notebook, and return a row of the table."""
    page = notebook.page
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')")
    page.wait_for_function(
        """() => window.jupyterapp.shell.currentWidget.content.widgets[0].model.sharedModel
            .execution_count !== null""",
        timeout=OPENING_MS,
    )
    first, again = shown(page), shown(page)
    peak = notebook.kernel(
        "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    more = {f"{what} again": again[what] for what in ("picture", "views", "timeline", "table")}
    return {"slices": n, **first, **more, "peak MB of the kernel": int(peak)}


def run() -> list[dict[str, Any]]:
    """Rows: a size each."""
    from tests.browser.jupyter_page import Browser, NotebookPage, Server, find_chromium, write_notebook

    chromium = find_chromium()
    if chromium is None:
        return []
    folder = Path(tempfile.mkdtemp(prefix="nbp-bench-"))
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths).rstrip(os.pathsep)
    server, browser = Server(folder), Browser(chromium)
    rows = []
    try:
        for n in SIZES:
            write_notebook(folder / f"n{n}.ipynb", [SETUP.format(n=n), "p", "p"])
            rows.append(measured(NotebookPage(browser, server, f"n{n}.ipynb").open(), n))
            browser.page.goto("about:blank")
    finally:
        browser.close()
        server.close()
        shutil.rmtree(folder, ignore_errors=True)
    return rows
