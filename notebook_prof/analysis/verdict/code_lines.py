"""Lines of code in words, and as selections."""

from __future__ import annotations

from typing import Any

from ..source.lines import CELL
from .claims import short


def line_select(row: Any) -> dict[str, Any]:
    """Return a selection of the slices of one row of `lines`."""
    return {"name": f"{_file(row['file'])}:{row['line']}  {row['text']}".rstrip()}


def line_words(row: Any) -> tuple[str, ...]:
    """Return a line in words and its text, like ``line 7, `x = f(y)```; with its file outside of the cell."""
    line_name = f"line {row['line']}" if row["file"] == CELL else f"{_file(row['file'])}:{row['line']}"
    return (line_name, f", `{short(row['text'], 60)}`" if row["text"] else "")


def _file(path: object) -> str:
    return str(path).replace("\\", "/").rpartition("/")[2]
