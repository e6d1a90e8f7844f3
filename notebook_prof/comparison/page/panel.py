"""The linked page apart from its timelines: tables, phases, the source, the flame graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from ... import analysis
from ...analysis.source.stack_nodes import working_threads
from ...service.packing import Answer
from ...service.palette import PHASES, name_styles
from ...trace import Trace
from ...units import format_count, format_ns
from ...views.tab_answers import packed
from ...views.tabs.base import Panel, Part, Table, pictures
from ..parts import IDLE, MISSING, SMALLER, name_key
from ..tables import ComparedTables

if TYPE_CHECKING:
    from ...views.figures import Drawn
    from ..linked import LinkedSides

# A differential flame graph: the stacks of b, with the time of the same stack in a.

_MOST: Final = 2000
_LEVELS: Final = 40


def stacks_of_both(sides: LinkedSides) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the stacks of both recordings like `analysis.flame` without threads, in ns of a mean step."""
    # ``path`` is the same number on both sides for the same names from the root (as matched by the
    # comparison); ``other`` is the other side's time for that path, divided among its nodes by their totals;
    # NaN if the other side lacks the path.
    tables = [_stacks(sides, number) for number in (0, 1)]
    _number_paths(tables)
    sums = [table.groupby("path")["total"].sum() for table in tables]
    for number, table in enumerate(tables):
        share = table["total"] / table["path"].map(sums[number])
        table["other"] = table["path"].map(sums[1 - number]) * share
    return tables[0], tables[1]


def flame_picture(sides: LinkedSides) -> Drawn | None:
    """Draw the stacks of b in colours that show the difference from a; None without stacks of b."""
    from ...views.figures import flame_difference
    from ...views.figures.drawn import patches

    a, b = stacks_of_both(sides)
    if not len(b) or not b["total"].any():
        return None
    shown = b[(b["total"] > 0) & (b["depth"] < _LEVELS)].nlargest(_MOST, "total").sort_index()
    name_a, name_b = sides.names
    step = "a mean step of the run shown" if sides.several_runs else "a mean step"
    title = f"Stacks of {name_b}, as wide as in {step}; colours say how they differ from {name_a}"
    left = int((b["total"] > 0).sum()) - len(shown)
    title += f" · without {format_count(left)} narrow ones" if left else ""
    gone = a[a["other"].isna()]
    gone = gone[~gone["parent"].isin(gone.index)]
    if len(gone):
        title += f" · gone: {format_ns(float(gone['total'].sum()))}"
    keys = [name_key(name) for name in shown["name"]]
    table = shown.assign(before=shown["other"], select=patches("name", keys))
    styles = name_styles(sides.shown[1].trace)
    labels = [styles.label(str(name)) for name in shown["name"]]
    return flame_difference(table, title, labels)


def _stacks(sides: LinkedSides, side: int) -> pd.DataFrame:
    trace: Trace = sides.shown[side].trace
    steps = sides.counted_steps(side)
    threads = working_threads(trace)
    table = analysis.flame(trace, step=steps or None, track=threads, by_thread=False)
    count = max(len(steps), 1)
    table["start"], table["total"] = (table[name].to_numpy(np.float64) / count for name in ("start", "total"))
    return table


def _number_paths(tables: list[pd.DataFrame]) -> None:
    """Add ``path``: level by level, by the number of the parent's path and the name."""
    keys = {name: name_key(name) for table in tables for name in table["name"].unique()}
    paths = [np.zeros(len(table) + 1, np.int64) for table in tables]  # the last entry is for roots
    for numbers in paths:
        numbers[-1] = -1
    after = 0
    for depth in range(max((int(table["depth"].max()) + 1 for table in tables if len(table)), default=0)):
        rows = [np.flatnonzero(table["depth"].to_numpy() == depth) for table in tables]
        level = pd.concat(
            [
                pd.DataFrame(
                    {
                        "above": numbers[table["parent"].iloc[at].to_numpy(np.int64, na_value=-1)],
                        "key": table["name"].iloc[at].map(keys).to_numpy(),
                    }
                )
                for table, numbers, at in zip(tables, paths, rows, strict=True)
            ]
        )
        number = level.groupby(["above", "key"], sort=False).ngroup().to_numpy(np.int64) + after
        paths[0][rows[0]], paths[1][rows[1]] = number[: len(rows[0])], number[len(rows[0]) :]
        after = int(number.max(initial=after - 1)) + 1
    for table, numbers in zip(tables, paths, strict=True):
        table["path"] = numbers[:-1]


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


def compared(c: LinkedSides) -> Answer:
    """Return all content of a comparison for the page at once."""
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
        title = "The recordings differ in more than the code"
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
