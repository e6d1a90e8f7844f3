"""The HTML report of 10 k to 10 M slices: how long the file is, what it costs to write, what is left out."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.views import long_trace
from notebook_prof.selection import Selection
from notebook_prof.views.report.report import report_page
from notebook_prof.views.report.static_html import fragment

TITLE = "The report's file"


def run() -> list[dict[str, Any]]:
    """Rows: a trace each."""
    rows = []
    for n in (10_000, 100_000, 1_000_000, 10_000_000):
        trace, selection = long_trace(n), Selection()
        begin = time.process_time()
        page = report_page(trace, selection, verdict="", static=fragment(trace, selection))
        spent = time.process_time() - begin
        part = page.partition("This file holds ")[2].partition(" of ")[0]
        rows.append(
            {
                "slices": n,
                "in the file": int(part.replace(",", "")) if part else n,
                "MB": round(len(page.encode()) / 1e6, 2),
                "CPU s": round(spent, 1),
            }
        )
    return rows
