"""``notebook-prof summary``, ``brief`` and ``sql``: the verdict of a recording, or one of its tables."""

from __future__ import annotations

import argparse
import inspect
from operator import attrgetter
from typing import Any, Final

import pandas as pd

from .. import analysis
from ..analysis.verdict.claims import METHODS
from ..errors import OptionError, nearest
from ..formats.paddle.summary import UNITS, VIEWS
from ..formats.paddle.summary_events import SORTED_KEYS
from ..profiles.files import open_profile
from ..units import cut, format_bytes, format_count, format_ns, format_share
from .output import add_from, add_output_options, row_count, say, say_table

_LONGEST: Final = 60


def add_summary(commands: Any) -> None:
    description = (
        "Print the verdict of a recording with its account, lines, operators and memory; with --style the "
        "tables of paddle.profiler or torch.profiler, or with --table one analysis, filtered and grouped."
    )
    parser = commands.add_parser("summary", help="print the verdict and tables", description=description)
    add = parser.add_argument
    add("file", metavar="FILE")
    add_from(parser)
    add(
        "--style",
        choices=("short", "paddle", "torch"),
        help="ours (default), or the text of another profiler",
    )
    add("--sorted-by", choices=SORTED_KEYS, metavar="KEY", help=" ".join(SORTED_KEYS))
    add("--views", action="append", choices=VIEWS, metavar="VIEW", help=" ".join(VIEWS))
    add("--no-op-detail", action="store_true", help="do not list the parts of operators")
    add("--thread-sep", action="store_true", help="list operators by thread")
    add("--time-unit", choices=UNITS, help="of Paddle's tables; default: ms")
    add("--table", metavar="ANALYSIS", help="print this analysis: operators, kernels, memory.peak, …")
    add("--by", metavar="COLUMNS", help="group by these, separated by commas (with --table)")
    add("--where", metavar="FILTER", help="as in 'conv self>1ms phase=backward step=3:7' (with --table)")
    add("-t", "--top", type=row_count, default=20, help="number of rows of --table; 0 for all (default: 20)")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the tables; returns the exit code."""
    profile = open_profile(options.file, format=options.source)
    if options.table is None and (options.where or options.by or options.format in ("json", "csv")):
        options.table = "operators"
    if options.table is None:
        say(_text(profile, options).rstrip())
        return 0
    table = _table(profile, options)
    say_table(options.format, table.head(options.top) if options.top > 0 else table, _cell)
    return 0


def add_brief(commands: Any) -> None:
    parser = commands.add_parser(
        "brief",
        help="print the verdict, lines, advice and doubts as Markdown",
        description="Print the verdict of a recording of any format with the calls that return its numbers, "
        "its lines, advice and doubts, as Markdown.",
    )
    parser.add_argument("file", metavar="FILE", help="the recording")
    add_from(parser)
    parser.add_argument(
        "--rows", metavar="N", type=row_count, default=5, help="rows of each table (default: 5)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with the numbers unrounded")
    parser.set_defaults(run=run_brief)


def run_brief(options: argparse.Namespace) -> int:
    """Print the brief."""
    result = open_profile(options.file, format=options.source).brief(options.rows)
    say(result.to_json() if options.json else result.text)
    return 0


def add_sql(commands: Any) -> None:
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
    parser.set_defaults(run=run_sql)


def run_sql(options: argparse.Namespace) -> int:
    rows = open_profile(options.file).sql(options.query, timeout=options.timeout)
    say_table(options.format, rows, _plain)
    return 0


def _plain(_column: str, value: Any) -> str:
    return "" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)


def _text(profile: Any, options: argparse.Namespace) -> str:
    paddle = {
        "sorted_by": options.sorted_by,
        "views": options.views,
        "op_detail": False if options.no_op_detail else None,
        "thread_sep": options.thread_sep or None,
        "time_unit": options.time_unit,
    }
    arguments = {name: value for name, value in paddle.items() if value is not None}
    text = str(profile.summary(style=options.style, rows=options.top, **arguments))
    as_paddle = arguments or options.style == "paddle"
    return f"{profile.headline}\n\n{text}" if as_paddle and options.views is None else text


def _table(profile: Any, options: argparse.Namespace) -> pd.DataFrame:
    names = _tables()
    if options.table not in names:
        raise OptionError(f"there is no analysis {options.table!r}: {nearest(options.table, names)}")
    method = attrgetter(options.table)(profile)
    parameters = inspect.signature(method).parameters
    arguments: dict[str, Any] = {}
    for name, value in (("by", options.by.split(",") if options.by else None), ("where", options.where)):
        if value is None:
            continue
        if name not in parameters:
            raise OptionError(f"{options.table} takes no --{name}: choose another analysis")
        arguments[name] = value
    table = method(**arguments)
    if not isinstance(table, pd.DataFrame):
        raise OptionError(f"{options.table} is not a table: open the file in a notebook, or choose operators")
    return table


def _tables() -> list[str]:
    """Return names of the analyses that are methods of a Profile, those of namespaces dotted."""
    names = [name for name in analysis.__all__ if inspect.isfunction(getattr(analysis, name))]
    return [METHODS.get(name, name) for name in names if name not in ("trust", "verdict")]


def _cell(column: str, value: Any) -> str:
    if isinstance(value, list | dict | tuple):
        return str(value)[:_LONGEST]
    if pd.isna(value):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return cut(value, _LONGEST)
    if column.endswith("_ns") or column in ("ts", "dur"):
        return format_ns(float(value))
    if column.endswith("share"):
        return format_share(float(value))
    if column == "bytes" or column.endswith("_bytes"):
        return format_bytes(float(value))
    return format_count(int(value)) if float(value).is_integer() else f"{float(value):.4g}"
