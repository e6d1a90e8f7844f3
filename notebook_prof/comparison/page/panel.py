"""The linked page apart from its timelines: tables, phases, the source, the flame graph."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from ...service.packing import Answer
from ...service.palette import PHASES, name_styles
from ...views.tab_answers import packed
from ...views.tabs.base import Panel, Part, Table, pictures
from ..parts import IDLE, MISSING, SMALLER
from ..tables import ComparedTables
from .flame import flame_picture

MOST_ROWS: Final = 1000
"""Maximum number of rows of a table in the page; Python has the rest."""
_MOST_LINES: Final = 3000
_UNITS: Final = {
    "delta_ns": "delta",
    "a_ns": "ns",
    "b_ns": "ns",
    "change": "text",
    "name": "name",
    "phase": "text",
}
_NOBODY: Final = {*IDLE.values(), SMALLER}


def compared(c: ComparedTables) -> Answer:
    """Return all of a comparison's content for the page, at once."""
    # ``parts`` are those of a tab (`notebook_prof.views.tab_answers.panel`); ``phases`` has ``phase a_ns b_ns
    # delta_ns sure colour``, ``source`` has ``change a_line b_line text delta_ns sure line`` for each line of
    # the cell.
    parts: list[Part] = [_names(c, c.operators, "Operators", "c.operators")]
    if len(c.kernels):
        parts.append(_names(c, c.kernels, "Kernels", "c.kernels"))
    lines = _lines(c)
    if len(lines.frame):
        parts.append(lines)
    if len(c.conditions):
        heads = dict(zip(("a", "b"), c.names, strict=True))
        title = "Not the code alone differs"
        parts.append(Table(c.conditions, heads=heads, title=title, call="c.conditions"))
    parts += pictures(flame_picture(c))
    answer = packed("compared", Panel("Compared", tuple(parts)), name_styles(c.shown[1].trace), MOST_ROWS)
    answer.content |= {"phases": _phases(c), "source": _source(c)}
    return answer


def _names(c: ComparedTables, table: pd.DataFrame, title: str, call: str) -> Table:
    columns = [name for name in ("delta_ns", "a_ns", "b_ns", "change", "phase", "name") if name in table]
    select: list[dict[str, Any] | None] = []
    for row in table.head(MOST_ROWS).to_dict("records"):
        phase = row.get("phase", MISSING["phase"])
        kept = None if phase == MISSING["phase"] else [phase]
        patch = {"name": [row["name"]], "phase": kept, "line": None}
        select.append(None if row["name"] in _NOBODY or not row["name"] else patch)
    return Table(_worded(table)[columns], _UNITS, _heads(c), select, title, call)


def _lines(c: ComparedTables) -> Table:
    """Return lines of files: those outside the difference of the cell's source."""
    labels = c.attribution("line")["line"]
    own = ~c.lines["file"].isin(("", "cell")) if len(c.source) else c.lines["file"] != ""
    table = _worded(c.lines[own]).assign(at=labels[own])[["delta_ns", "a_ns", "b_ns", "change", "at", "text"]]
    select = [{"line": [label], "name": None, "phase": None} for label in labels[own].head(MOST_ROWS)]
    heads = {**_heads(c), "at": "line"}
    return Table(table, {**_UNITS, "text": "code"}, heads, select, "Lines of files", "c.lines")


def _worded(table: pd.DataFrame) -> pd.DataFrame:
    """Write the change of each row, or that it is within the noise."""
    return table.assign(change=table["change"].where(table["change"] != "same", "≈").str.replace("-", " "))


def _heads(c: ComparedTables) -> dict[str, str]:
    return {"delta_ns": "Δ a step", "a_ns": c.names[0], "b_ns": c.names[1]}


def _phases(c: ComparedTables) -> list[dict[str, Any]]:
    table = c.phases.sort_values("a_ns", ascending=False, kind="stable")
    return [
        {
            "phase": str(row["phase"]),
            **{name: float(row[name]) for name in ("a_ns", "b_ns", "delta_ns")},
            "sure": bool(row["significant"]),
            "colour": PHASES.get(str(row["phase"]), "#888888"),
        }
        for row in table.to_dict("records")
    ]


def _source(c: ComparedTables) -> list[dict[str, Any]]:
    """Return the lines of the cell in the order of b, gone lines at their old place."""
    cell = c.source[c.source["file"] == "cell"].head(_MOST_LINES)
    labels = c.attribution("line")["line"]
    spent = dict(zip(labels, zip(c.lines["delta_ns"], c.lines["significant"], strict=True), strict=True))
    rows = []
    for row in cell.to_dict("records"):
        a, b = (None if pd.isna(row[key]) else int(row[key]) for key in ("a_line", "b_line"))
        line = f"cell:{b} of b" if a is None else f"cell:{a}"
        delta, sure = spent.get(line, (None, False))
        rows.append(
            {
                "change": row["change"],
                "a_line": a,
                "b_line": b,
                "text": row["b_text"] or row["a_text"],
                "delta_ns": None if delta is None else int(delta),
                "sure": bool(sure),
                "line": None if delta is None else line,
            }
        )
    return rows
