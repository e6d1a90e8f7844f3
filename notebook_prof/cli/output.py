"""Output of commands: tables drawn on a terminal, plain when piped, or as JSON or CSV."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import pandas as pd

from ..profiles.text import aligned


def row_count(text: str) -> int:
    """Parse a number of rows, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows: 0 or more")
    return int(text)


# Tables as text: drawn with lines, as Markdown, or plain.

Rows: TypeAlias = Sequence[Sequence[str]]


def grid(heads: Sequence[str], rows: Rows) -> str:
    """Return a table with borders; a cell may have several lines."""
    cells = [[cell.split("\n") for cell in row] for row in (heads, *rows)]
    widths = [max(len(line) for row in cells for line in row[i]) for i in range(len(heads))]
    widths = [max(width, len(head) + 2) for width, head in zip(widths, heads, strict=True)]

    def rule(left: str, line: str, middle: str, right: str) -> str:
        return left + middle.join(line * (width + 2) for width in widths) + right

    def block(row: Sequence[Sequence[str]]) -> str:
        return "\n".join(
            f"│ {' │ '.join(text.ljust(width) for text, width in zip(line, widths, strict=True))} │"
            for line in zip_longest(*row, fillvalue="")
        )

    inner = rule("├", "─", "┼", "┤")
    body = f"\n{inner}\n".join(block(row) for row in cells[1:])
    parts = [
        rule("╒", "═", "╤", "╕"),
        block(cells[0]),
        rule("╞", "═", "╪", "╡"),
        body,
        rule("╘", "═", "╧", "╛"),
    ]
    return "\n".join(part for part in parts if part)


def markdown(heads: Sequence[str], rows: Rows) -> str:
    """Return a table for Markdown; cells of several lines continue in further rows."""
    flat = [line for row in rows for line in zip_longest(*(c.split("\n") for c in row), fillvalue="")]
    widths = [max(map(len, column)) for column in zip(heads, *flat, strict=True)]
    lines = [heads, *flat]
    drawn = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    return "\n".join([drawn[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *drawn[1:]])


def plain(heads: Sequence[str], rows: Rows) -> str:
    """Return columns separated by two spaces, one line per row."""
    flat = [[" ".join(cell.split("\n")) for cell in row] for row in rows]
    return "\n".join(aligned([heads, *flat], left=range(len(heads))))


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


def add_from(parser: argparse.ArgumentParser) -> None:
    """Add ``--from``, as `source`, to a command that reads FILE."""
    parser.add_argument(
        "--from", dest="source", metavar="FORMAT", help="format of FILE, to skip the recognition"
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
    """Return a table of numbers as JSON records, one a line, or CSV."""
    if format == "csv":
        return str(table.to_csv(index=False)).rstrip("\n")
    lines = str(table.to_json(orient="records", lines=True, double_precision=15)).strip().splitlines()
    return "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"


def say_table(
    format: str, table: pd.DataFrame, spell: Callable[[str, Any], str] = lambda _, value: str(value)
) -> None:
    """Print a table in a format of `FORMATS`; `spell` writes a value of a column for people."""
    if (shape := chosen_format(format)) in ("json", "csv"):
        say(data_text(shape, table))
    else:
        columns = [[spell(str(name), value) for value in values] for name, values in table.items()]
        say(drawn(shape, [str(name) for name in table], list(zip(*columns, strict=True))))


def say(text: str) -> None:
    """Print to standard output."""
    sys.stdout.write(text + "\n")
