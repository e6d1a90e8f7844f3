"""The source tab: the cell and the user's other files, with the time of each line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ... import analysis
from ...analysis.source.annotated import annotate, source_texts
from ...analysis.source.lines import CELL
from ...selection import filtered
from ...trace import Trace
from .analyses import followed
from .base import Absent, Note, Panel, SourceTable, Tab
from .lines import meaning, selecting_lines, without_lines

_NUMBERS: Final = ("count", "total_ns", "self_ns", "unrecorded_ns", "device_ns", "backward_ns", "peak_bytes")
_HEADS: Final = {
    "total_ns": "total",
    "self_ns": "self",
    "unrecorded_ns": "not recorded",
    "peak_bytes": "at peak",
    "text": "source",
}
_WHOLE: Final = 1000
"""Files of up to this many lines are shown in full, other files only near lines that ran."""
_AROUND: Final = 3
_MOST_FILES: Final = 8
_MOST_STEPS: Final = 32
"""Maximum number of bars for the time over the steps."""


def source(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Return the cell and the user's other files that took time, as `analysis.annotated_source` does."""
    table = filtered(analysis.lines, trace, {**state, "line": None})  # the page marks a selected line
    if not len(table):
        return Absent(without_lines(trace) or "None of your lines ran in the selection.")
    texts = source_texts(trace)
    longest = table.groupby("file", sort=False)["total_ns"].max().sort_values(ascending=False, kind="stable")
    files = sorted(longest.index, key=lambda file: file != CELL)
    trends = _trends(trace, state)
    parts = [
        _listing(trace, table[table["file"] == file], file, texts.get(file, ()), trends, folded=number > 0)
        for number, file in enumerate(files[:_MOST_FILES])
    ]
    left = len(files) - len(parts)
    more = (Note(f"p.lines() lists {left} more files."),) if left else ()
    notes = (*more, meaning(table[_shown(table)]))
    return Panel("Source", (*parts, *notes), followed(analysis.lines))


def _listing(
    trace: Trace, table: pd.DataFrame, file: str, text: tuple[str, ...], trends: pd.DataFrame, *, folded: bool
) -> SourceTable:
    rows = annotate(table, file, text)
    if len(rows) > _WHOLE:
        rows = rows[_near(rows["total_ns"].to_numpy() > 0)].reset_index(drop=True)
    shown = _shown(rows)
    ran = (rows["total_ns"] > 0).tolist()
    select = [patch if one else None for patch, one in zip(selecting_lines(trace, rows), ran, strict=True)]
    return SourceTable(
        rows[["line", *shown, "text"]],
        units={"text": "code", "line": "count"},
        heads=_HEADS,
        bars=("total_ns", "self_ns"),
        select=select,
        title="the cell" if file == CELL else file,
        call="p.lines.source()" if file == CELL else f"p.lines.source({file!r})",
        file=file,
        trends=_of_lines(trends, file, rows["line"].to_numpy()),
        folded=folded,
    )


def _shown(rows: pd.DataFrame) -> list[str]:
    return [name for name in _NUMBERS if (rows[name].fillna(0) > 0).any()]


def _near(ran: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which lines are within a few lines of one that ran."""
    return np.convolve(ran, np.ones(2 * _AROUND + 1), "same") > 0


def _trends(trace: Trace, state: Mapping[str, Any]) -> pd.DataFrame:
    """Return the time of every line (rows, by file and line) in groups of neighbouring steps (columns)."""
    if any(state.get(name) is not None for name in ("name", "category", "track", "phase")):
        return pd.DataFrame()  # known only for everything that a line ran
    table = filtered(analysis.line_steps, trace, {name: state[name] for name in ("window",) if name in state})
    if not len(table):
        return pd.DataFrame()
    steps = len(trace.steps)
    spent = table["total_ns"].to_numpy(float).reshape(-1, steps)
    edges = np.linspace(0, steps, min(steps, _MOST_STEPS) + 1).astype(int)
    means = np.add.reduceat(spent, edges[:-1], axis=1) / np.diff(edges)
    return pd.DataFrame(means, index=pd.MultiIndex.from_frame(table[["file", "line"]].iloc[::steps]))


def _of_lines(
    trends: pd.DataFrame, file: str, lines: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64] | None:
    if trends.shape[1] < 2:
        return None
    rows = trends.reindex(pd.MultiIndex.from_product([[file], lines]))
    return np.nan_to_num(np.asarray(rows, np.float64))


TAB: Final = Tab(
    "Source",
    source,
    without_lines,
    place=15,
    summary="Your cell and your own files with the time, the device work and the memory of each line.",
    calls=("p.lines.source()", "p.lines.steps()"),
)
