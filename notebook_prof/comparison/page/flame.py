"""A differential flame graph: the stacks of b, with the time of the same stack in a."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from ... import analysis
from ...analysis.source.stack_nodes import working_threads
from ...service.palette import name_styles
from ...trace import Trace
from ...units import format_count, format_ns
from ..parts import name_key

if TYPE_CHECKING:
    from ...views.figures import Drawn
    from ..linked import LinkedSides

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
