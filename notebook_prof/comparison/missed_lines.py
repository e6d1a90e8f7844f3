"""Lines that samples may have missed on one side: they are not called new or gone."""

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
"""Where so much of the time of a line is in names that the other side has too, its work is done there."""


def missed_lines(
    table: pd.DataFrame,
    source: pd.DataFrame,
    sides: tuple[Side, Side],
    labels: Mapping[str, str],
    key: str = "line",
) -> set[str]:
    """Return the lines of a table that one side alone has, and that the other may have run all the same.

    Samples are milliseconds apart. A line that only ever ran between two of them has no time of its own: what
    it did counts for a line that was seen, or for none. So of a line that was sampled, absence is no fact
    where the source does not say that it is new or gone, and at least half of its time is in names, as of
    operators, that the other side has as well.

    Parameters
    ----------
    table : DataFrame
        Of `attribution`, with a column `key`.
    source : DataFrame
        Of `source_changes`.
    sides : (Side, Side)
    labels : mapping of str to str
        What lines of b are called; see `labels_of_b`.
    key : {"line", "statement"}

    Returns
    -------
    set of str
        As in the column `key`. Timed lines are never among them, nor are those of runs of which only totals
        are kept.
    """
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
    """Return a table in which such lines are the same as far as is known: no interval, nothing shown."""
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
    """Return the labels of lines whose times are those of samples."""
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
