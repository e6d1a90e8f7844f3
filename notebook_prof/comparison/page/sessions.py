"""Two sessions of a notebook as a page: a row for each cell, and what changed in the edited ones."""

from __future__ import annotations

import html
from difflib import unified_diff
from typing import Any

from ...trace import Trace
from ...units import format_bytes, format_ns
from ..comparison import cells_text, compare_cells, matched_sources
from ..verdict import signed_ns
from .static_html import STYLE, bar_cell, code_cell, delta_cell, document, text_cell


def sessions_page(a: Trace, b: Trace, names: tuple[str, str]) -> str:
    """Return a whole document."""
    table = compare_cells(a, b)
    largest = float(table["delta_ns"].abs().max()) or 1.0
    rows = [_row(row | {"significant": True}, largest) for row in table.to_dict("records")]
    left, right = map(html.escape, names)
    head = (
        f"<tr><th class=t>{left}</th><th class=t>{right}</th><th class=d>Δ</th><th class=b></th>"
        f"<th class=d>Δ kept</th><th class=c></th>{_HEAD}</tr>"
    )
    whole = cells_text(a, b, 0)
    parts = [f"<style>{STYLE}</style><p><b>{html.escape(whole)}</b></p><h3>Cells</h3>"]
    parts.append(f"<table>{head}{''.join(rows)}</table>")
    edited = [_edited(*pair) for pair in matched_sources(a, b) if pair[1] != pair[2]]
    parts += ["<h3>Edited</h3>", *edited] if edited else []
    return document(names, f'<div class="nbp-compare">{"".join(parts)}</div>')


_HEAD = '<th style="text-align:left">cell</th>'


def _row(row: dict[str, Any], largest: float) -> str:
    times = "".join(
        f'<td class="t">{"" if row["status"] == gone else format_ns(row[side])}</td>'
        for side, gone in (("a_ns", "new"), ("b_ns", "gone"))
    )
    kept = int(row["b_kept_bytes"] - row["a_kept_bytes"])
    sign = "+" if kept > 0 else ""
    memory = f'<td class="d soft">{sign}{format_bytes(kept).replace("-", "−")}</td>'
    status = f'<td class="c">{"" if row["status"] == "same" else row["status"]}</td>'
    delta = delta_cell(row) if row["delta_ns"] else f'<td class="d">{signed_ns(0)}</td>'
    return f"<tr>{times}{delta}{bar_cell(row, largest)}{memory}{status}{text_cell(str(row['name']))}</tr>"


def _edited(name: str, before: str, after: str) -> str:
    lines = list(unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))[2:]
    kinds = {"+": "new", "-": "gone"}
    rows = [f'<tr class="{kinds.get(line[:1], "")}">{code_cell(line[1:])}</tr>' for line in lines
            if not line.startswith("@@")]  # fmt: skip
    return f"<p>{html.escape(name)}</p><table>{''.join(rows)}</table>"
