"""``notebook-prof analyze``: MegEngine's ``profile_analyze``, for traces of every format."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import Any, Final

import pandas as pd

from ..analysis.time.operators import calls
from ..formats.megengine.ranking import AGGREGATES, ORDERS, ranked_calls
from ..readers import read_trace
from ..selection import Query, passing
from .output import add_output_options, chosen_format, data_text, drawn, markdown, row_count, say

# Numbers as MegEngine's ``profile_analyze`` writes them.

_UNITS: Final = {1000: ("", "K", "M", "G", "T", "P"), 1024: ("byte", "KiB", "MiB", "GiB", "TiB", "PiB")}
_WIDTH: Final = 30


def seconds_text(value: float) -> str:
    """Format seconds with three significant digits."""
    return f"{value:.3g}" if value else "0.0"


def wrapped(text: str) -> str:
    """Wrap a long name in pieces of 30 characters, as in MegEngine's column of operators."""
    pieces = [text[i : i + _WIDTH] for i in range(0, len(text), _WIDTH)] or [""]
    return "\n-  ".join(pieces)


def shape_lines(shapes: Any, layouts: Any = None) -> list[str]:
    """Format shapes as ``{8,3}``, followed by unusual strides."""
    if not isinstance(shapes, str):
        return []
    strides = json.loads(layouts) if isinstance(layouts, str) else []
    lines = []
    for i, shape in enumerate(json.loads(shapes)):
        text = "{" + ",".join(str(size) for size in shape) + "}"
        if i < len(strides) and strides[i]:
            text += "\n-" + json.dumps(strides[i], separators=(",", ":"))
        lines.append(text)
    return lines


def _scaled(value: float, base: int, suffix: str = "") -> str:
    """Format as ``12.46`` and ``MFLO`` on two lines; ``N/A`` if unknown."""
    units = _UNITS[base]
    if not math.isfinite(value):
        return f"{'N/A' if math.isnan(value) else 'inf'}\n{units[0]}{suffix}"
    at = 0
    while abs(value) >= base and at < len(units) - 1:
        value, at = value / base, at + 1
    return f"{value:.2f}\n{units[at]}{suffix}"


_HEADS = (
    "cumulative", "operator info", "computation", "FLOPS", "memory", "bandwidth", "in_shapes", "out_shapes",
)  # fmt: skip


def add_analyze(commands: Any) -> None:
    parser = commands.add_parser(
        "analyze",
        help="rank the calls of operators by time, work or rate",
        description="Rank the calls of operators by time, work or rate, with the options of MegEngine's "
        "profile_analyze. FILE may have any format that `notebook-prof formats` lists.",
    )
    add = parser.add_argument
    add("file", metavar="FILE")
    add("-t", "--top", type=row_count, default=3, help="number of rows; 0 for all (default: 3)")
    add("--type", action="append", help="keep operators of this type; may be given several times")
    add("--aggregate-by", choices=["type"], help="one row for each type")
    add("--aggregate", choices=AGGREGATES, help="how to aggregate (default with --aggregate-by: sum)")
    add("--opr-name", metavar="REGEX", help="keep operators whose name matches from its start")
    add("--input-dtype", metavar="TYPE", help="keep operators with an input of this type")
    add("--where", metavar="FILTER", help="keep calls that pass a filter, as in 'conv host>1ms'")
    ends = "time until the work ended, or until the call to the kernel returned (default: end)"
    add("--top-end-key", choices=["end", "kern"], default="end", help=ends)
    orders = f"COL: largest first, +COL: smallest first; one of {', '.join(ORDERS)} (default: time)"
    add("--order-by", default="time", metavar="±COL", help=orders)
    add("--copy-time", action="store_true", help="also print the time of copies")
    add("--min-time", type=float, default=-math.inf, metavar="S", help="shortest time to print, in seconds")
    add("--max-time", type=float, default=math.inf, metavar="S", help="longest time to print, in seconds")
    add("--show-host", action="store_true", help="also rank by time on the host")
    add("--print-only", choices=["summary", "device", "host"], help="print only this part")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Rank and print; returns the exit code."""
    table = calls(read_trace(options.file))
    totals = _totals(table, options.copy_time)
    if options.where:
        table = table[passing(table, Query.parse(options.where))]
    parts = _parts(options, table)
    shape = chosen_format(options.format)
    ranked = {part: _ranked(options, table, part, totals) for part in parts}
    if shape in ("json", "csv"):
        joined = [frame.assign(on=part) for part, frame in ranked.items()]
        sums = pd.DataFrame({"name": list(totals), "time_s": list(totals.values())})
        say(data_text(shape, pd.concat(joined) if joined else sums))
        return 0
    texts = []
    if options.print_only in (None, "summary"):
        texts.append(_summary(totals, shape))
    for part, frame in ranked.items():
        spell = wrapped if shape == "grid" else str
        cells = [_cell(i, row, spell) for i, row in enumerate(frame.to_dict("records"))]
        texts.append(drawn(shape, [f"{part} self time", *_HEADS], cells))
    say("\n\n".join(texts))
    return 0


def _parts(options: argparse.Namespace, table: pd.DataFrame) -> list[str]:
    if options.print_only == "summary":
        return []
    if options.print_only:
        return [options.print_only]
    parts = ["device"] if table["device_ns"].notna().any() else ["host"]
    return [*parts, "host"] if options.show_host and parts != ["host"] else parts


def _ranked(
    options: argparse.Namespace, table: pd.DataFrame, part: str, totals: dict[str, float]
) -> pd.DataFrame:
    frame = ranked_calls(
        table,
        on=part,
        end_key=options.top_end_key,
        top=options.top,
        types=options.type,
        name=options.opr_name,
        input_dtype=options.input_dtype,
        aggregate=options.aggregate,
        aggregate_by=options.aggregate_by,
        order_by=options.order_by,
        min_time_s=options.min_time,
        max_time_s=options.max_time,
    )
    total = totals[f"total {part} time"]  # of the whole file, without filters
    frame["share"] = frame["time_s"] / total if total else 0.0
    frame["cumulative_share"] = frame["cumulative_s"] / total if total else 0.0
    return frame


def _totals(table: pd.DataFrame, copies: bool) -> dict[str, float]:
    totals = {f"total {part} time": float(table[f"{part}_ns"].sum()) / 1e9 for part in ("device", "host")}
    if copies:
        copied = table["type"].str.contains("copy", case=False).astype(bool)
        totals["copy time"] = float(table.loc[copied, "device_ns"].sum()) / 1e9
    return totals


def _summary(totals: dict[str, float], format: str) -> str:
    values = [(name, f"{seconds:g}") for name, seconds in totals.items()]
    if format == "markdown":
        return markdown(["name", "value"], values)
    widths = [max(map(len, column)) for column in zip(*values, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    lines = [f"{name.ljust(widths[0])}  {value.ljust(widths[1])}".rstrip() for name, value in values]
    return "\n".join([rule, *lines, rule])


def _cell(rank: int, row: dict[Any, Any], spell: Callable[[str], str]) -> list[str]:
    one = bool(row["name"])
    info = [spell(row["name"]), spell(row["type"])] if one else [spell(row["type"]), str(row["count"])]
    return [
        f"#{rank}\n{seconds_text(row['time_s'])}\n{100 * row['share']:.1f}%",
        f"{seconds_text(row['cumulative_s'])}\n{100 * row['cumulative_share']:.1f}%",
        "\n".join([*info, str(row["id"])]),
        _scaled(row["computation"], 1000, "FLO"),
        _scaled(row["flops_per_s"], 1000, "FLOPS"),
        _scaled(row["memory_bytes"], 1024),
        _scaled(row["bytes_per_s"], 1024, "/s"),
        "\n".join(shape_lines(row["in_shapes"], row["in_layouts"])) if one else "None",
        "\n".join(shape_lines(row["out_shapes"])) if one else "None",
    ]
