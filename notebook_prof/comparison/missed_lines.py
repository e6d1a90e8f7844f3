"""Lines that samples may have missed on one side, which do not count as new or gone."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from ..analysis.source.lines import lines
from .run import Side, TraceRun
from .sources import LINE, OF_B

_STILL_THERE: Final = 0.5
"""If names of the other side have this share of a line's time, too, the other side does the line's work."""


def missed_lines(
    table: pd.DataFrame,
    source: pd.DataFrame,
    sides: tuple[Side, Side],
    labels: Mapping[str, str],
    key: str = "line",
) -> set[str]:
    """Return the lines (as in the column `key`) of only one side that the other side may have run, too."""
    # Samples are milliseconds apart. A line that only ran between two of them has no time of its own: its
    # time counts for a sampled line, or for none. So the absence of a sampled line is no fact if the source
    # does not show it as new or gone, and at least half of its time is in names (of operators, say) that the
    # other side has, too. Timed lines, and lines of runs with totals only, are never returned.
    if not all(isinstance(run, TraceRun) for side in sides for run in side.runs):
        return set()
    gone = {f"{file}:{line}" for file, line in _one_sided(source, "a_line", "b_line")}
    missed: set[str] = set()
    for number, change in enumerate(("gone", "new")):
        alone = {
            str(line)
            for line in table.loc[table["change"] == change, key]
            if LINE.fullmatch(str(line)) and not str(line).endswith(OF_B) and line not in gone
        }
        renamed = labels if number else {}
        alone &= {renamed.get(line, line) for line in _sampled(sides[number])}
        if alone:
            missed |= _still_there(alone, sides[number], sides[1 - number], renamed, key)
    return missed


def undecided_lines(table: pd.DataFrame, missed: set[str], key: str = "line") -> pd.DataFrame:
    """Return a table in which such lines count as the same: no interval, not significant."""
    row = table[key].isin(missed) & table["change"].isin(("new", "gone"))
    if not row.any():
        return table
    table = table.copy()
    table.loc[row, ["low_ns", "high_ns"]] = np.nan
    table.loc[row, "change"] = "same"
    table.loc[row, "significant"] = False
    return table


def _one_sided(source: pd.DataFrame, own: str, other: str) -> list[tuple[str, int]]:
    rows = source[source[own].notna() & source[other].isna()]
    return list(zip(rows["file"].astype(str), rows[own].astype(int), strict=True))


def _sampled(side: Side) -> set[str]:
    """Return the labels of sampled lines."""
    sampled: set[str] = set()
    for run in side.runs:
        assert isinstance(run, TraceRun)
        table = lines(run.trace)
        table = table[~table["exact"]]
        for file, line in zip(table["file"].astype(str), table["line"], strict=True):
            sampled |= {f"{file}:{line}", f"{os.path.basename(file)}:{line}"}
    return sampled


def _still_there(alone: set[str], own: Side, other: Side, renamed: Mapping[str, str], key: str) -> set[str]:
    parts = own.parts((key, "name"), "host", renamed)
    counterpart = other.parts(("name",), "host")
    there = {key[0] for key, total in zip(counterpart.keys, counterpart.total, strict=True) if total}
    whole: dict[str, int] = defaultdict(int)
    shared: dict[str, int] = defaultdict(int)
    for (line, name), total in zip(parts.keys, parts.total.tolist(), strict=True):
        whole[line] += total
        shared[line] += total * (name in there)
    return {line for line in alone if whole[line] and shared[line] >= _STILL_THERE * whole[line]}
