"""``notebook-prof diff``: the changes between two recordings."""

from __future__ import annotations

import argparse
import math
import os
from typing import Any

from ..analysis.notebook.recorded import is_notebook
from ..atomic_files import atomic_file
from ..comparison.comparison import Comparison, compare
from ..comparison.verdict import cells_text, compare_cells, comparison_text
from ..expectations.outcomes import Expectations
from ..profiles.files import open_profile
from ..profiles.profile import Profile
from .expect import add_expect_option, exit_code
from .output import data_text, row_count, say


def add_diff(commands: Any) -> None:
    description = (
        "Compare two recordings, of any format: by how much a step is faster or slower, with its interval, "
        "and in which phases, lines, operators and kernels. The differences of each table add up to that of "
        "a mean step. Two sessions of a notebook are compared cell by cell."
    )
    parser = commands.add_parser("diff", help="compare two recordings", description=description)
    add = parser.add_argument
    add("a", metavar="A", help="the recording before; several runs, separated by commas")
    add("b", metavar="B", help="the recording after; several runs, separated by commas")
    add("-t", "--top", type=row_count, default=8, help="number of rows of each table (default: 8)")
    add("--json", action="store_true", help="print one JSON object instead")
    add("--html", metavar="FILE", help="write a page with the steps, the source and the tables")
    add_expect_option(parser, "'slower < 3%%', or of B as in 'step p50 < 120ms'")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the comparison; returns the exit code."""
    if (sessions := _sessions(options)) is not None:
        return _sessions_diff(*sessions, options)
    compared = compare(_runs(options.a), _runs(options.b))
    results = compared.expect(*options.expect, check=False) if options.expect else None
    say(as_json(compared, results) if options.json else comparison_text(compared, options.top))
    if options.html:
        compared.to_html(options.html)
    if results is not None and not options.json:
        say(str(results))
    return 0 if results is None else exit_code(results)


def _runs(files: str) -> list[str]:
    return [file for file in files.split(",") if file]


def _sessions(options: argparse.Namespace) -> tuple[Profile, Profile] | None:
    """Return both sides if they are sessions of a notebook, which are compared cell by cell."""
    if "," in options.a + options.b:
        return None
    a = open_profile(options.a)
    if not is_notebook(a.trace):
        return None
    b = open_profile(options.b)
    return (a, b) if is_notebook(b.trace) else None


def _sessions_diff(a: Profile, b: Profile, options: argparse.Namespace) -> int:
    table = compare_cells(a.trace, b.trace)
    say(data_text("json", table) if options.json else cells_text(a.trace, b.trace, options.top))
    if options.html:
        from ..comparison.page.static_html import sessions_page  # loads what draws

        names = os.path.basename(options.a), os.path.basename(options.b)
        with atomic_file(options.html) as file:
            file.write(sessions_page(a.trace, b.trace, names).encode("utf-8"))
    if not options.expect:
        return 0
    results = b.expect(*options.expect, check=False)
    if not options.json:
        say(str(results))
    return exit_code(results)


def as_json(compared: Comparison, results: Expectations | None = None) -> str:
    """Return verdict, change and tables as one JSON object; unknown values are null."""
    import json

    low, high = (None if math.isnan(end) else end for end in compared.interval)
    tables = ("steps", "stalls", "phases", "lines", "operators", "kernels", "memory", "conditions")
    content = {
        "verdict": compared.verdict,
        "change": compared.change,
        "interval": [low, high],
        "significant": compared.significant,
        "delta_ns": compared.delta_ns,
        **{name: json.loads(getattr(compared, name).to_json(orient="records")) for name in tables},
    }
    if results is not None:
        content["expectations"] = json.loads(results.table.to_json(orient="records"))
    return json.dumps(content, ensure_ascii=False)
