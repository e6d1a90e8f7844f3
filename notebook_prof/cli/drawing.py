"""Tables as text: drawn with lines, as Markdown, or plain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Rows: TypeAlias = Sequence[Sequence[str]]


def grid(heads: Sequence[str], rows: Rows) -> str:
    """Return a table with lines around cells, which may have several lines.

    >>> print(grid(["a", "b"], [["1", "x\\ny"]]))
    ╒═════╤═════╕
    │ a   │ b   │
    ╞═════╪═════╡
    │ 1   │ x   │
    │     │ y   │
    ╘═════╧═════╛
    """
    cells = [[cell.split("\n") for cell in row] for row in (heads, *rows)]
    widths = [max(len(line) for row in cells for line in row[i]) for i in range(len(heads))]
    widths = [max(width, len(head) + 2) for width, head in zip(widths, heads, strict=True)]

    def rule(left: str, line: str, middle: str, right: str) -> str:
        return left + middle.join(line * (width + 2) for width in widths) + right

    def block(row: Sequence[Sequence[str]]) -> str:
        height = max(map(len, row))
        lines = [
            "│ " + " │ ".join(_line_at(cell, i).ljust(w) for cell, w in zip(row, widths, strict=True)) + " │"
            for i in range(height)
        ]
        return "\n".join(lines)

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
    """Return a table for Markdown and Confluence; cells of several lines continue in further rows.

    >>> print(markdown(["a", "b"], [["1", "x"]]))
    | a | b |
    |---|---|
    | 1 | x |
    """
    flat = [
        [_line_at(cell.split("\n"), i) for cell in row]
        for row in rows
        for i in range(max(len(cell.split("\n")) for cell in row))
    ]
    widths = [max(map(len, column)) for column in zip(heads, *flat, strict=True)]
    lines = [heads, *flat]
    drawn = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    return "\n".join([drawn[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *drawn[1:]])


def plain(heads: Sequence[str], rows: Rows) -> str:
    """Return columns separated by two spaces, one line per row.

    >>> print(plain(["name", "n"], [["mm", "12"]]))
    name  n
    mm    12
    """
    flat = [[" ".join(cell.split("\n")) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *flat, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (heads, *flat)
    )


def _line_at(lines: Sequence[str], at: int) -> str:
    return lines[at] if at < len(lines) else ""
