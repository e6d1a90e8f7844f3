"""``notebook-prof sql``: queries a recording in SQL."""

from __future__ import annotations

import argparse
from typing import Any

from ..profiles.files import open_profile
from .output import add_output_options, chosen_format, data_text, drawn, say


def add_sql(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "sql",
        help="query a recording in SQL",
        description="Run one SELECT over the tables of a recording, of any format, and of its analyses: "
        "slices, operators, kernels, lines, memory_names and more. Without a query it lists the tables.",
    )
    parser.add_argument("file", metavar="FILE", help="the recording")
    parser.add_argument("query", metavar="QUERY", nargs="?", help="one SELECT or EXPLAIN")
    parser.add_argument(
        "--timeout", metavar="TIME", default="30s", help="time limit of the query (default: 30s)"
    )
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the answer."""
    rows = open_profile(options.file).sql(options.query, timeout=options.timeout)
    shape = chosen_format(options.format)
    if shape in ("json", "csv"):
        say(data_text(shape, rows))
    else:
        cells = rows.astype(object).where(rows.notna(), "").astype(str).to_numpy(dtype=object)
        say(drawn(shape, [str(name) for name in rows], cells.tolist()))
    return 0
