"""Output of commands: tables drawn on a terminal, plain when piped, or as JSON or CSV."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

import pandas as pd

from .drawing import Rows, grid, markdown, plain

FORMATS: Final = ("auto", "grid", "plain", "markdown", "json", "csv")


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--format`` and its short forms to a command."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--format",
        choices=FORMATS,
        default="auto",
        help="how to print tables; auto draws lines on a terminal and none when piped (default: auto)",
    )
    for word in ("json", "csv"):
        group.add_argument(
            f"--{word}", dest="format", action="store_const", const=word, help=f"print {word.upper()}"
        )


def chosen_format(format: str) -> str:
    """Return the format that ``auto`` means for this standard output."""
    if format != "auto":
        return format
    return "grid" if sys.stdout.isatty() else "plain"


def drawn(format: str, heads: Sequence[str], rows: Rows) -> str:
    """Return a table of texts in this format."""
    draw = {"grid": grid, "markdown": markdown}.get(format, plain)
    return draw(heads, rows)


def data_text(format: str, table: pd.DataFrame) -> str:
    """Return a table of numbers as JSON records, one a line, or CSV.

    >>> data_text("json", pd.DataFrame({"name": ["mm"], "count": [3]}))
    '[\\n{"name":"mm","count":3}\\n]'
    """
    if format == "csv":
        return str(table.to_csv(index=False)).rstrip("\n")
    lines = str(table.to_json(orient="records", lines=True, double_precision=15)).strip().splitlines()
    return "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"


def say(text: str) -> None:
    """Print to standard output."""
    sys.stdout.write(text + "\n")
