"""The lines tab: the user's own source, the longest line first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ... import analysis
from ...analysis.scope import recorded_table
from ...analysis.source.lines import CELL
from ...analysis.time.account import ACCOUNT
from ...selection import filtered
from ...selection.clauses import line_texts
from ...trace import Trace
from .analyses import followed, has_value
from .base import Absent, Note, Panel, Tab, Table

_COSTS: Final = (
    *("unrecorded_ns", "awaited_ns", "device_ns", "backward_ns", "backward_device_ns", "wait_ns"),
    *("bytes_kept", "peak_bytes"),
)
_SHOWN: Final = ("file", "line", "text", "count", "total_ns", "self_ns", "share", *_COSTS, "threads")
_MEANINGS: Final = {
    "total_ns": "total is the line and everything it calls",
    "self_ns": "self is the same without your other lines that it calls",
    "unrecorded_ns": "not recorded (hatched) is the part outside the recorded steps",
    "awaited_ns": "awaited is the time during which a task was suspended there, while no task ran",
    "device_ns": "device is the device work that the line launched",
    "backward_ns": "backward is the host time of the backward pass of its operators",
    "backward_device_ns": "backward device is the device work of that pass",
    "wait_ns": "wait is the time of its calls that wait for a device",
    "bytes_kept": "kept is what it allocated and did not free",
    "peak_bytes": "at peak is what it had allocated when memory was at its peak",
}
"""The meaning of each column of numbers."""


def lines(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Return the table of `analysis.lines`; a click selects everything that ran for a line."""
    table = filtered(analysis.lines, trace, {**state, "line": None})  # the page marks a selected line
    if not len(table):
        return Absent(without_lines(trace) or "None of your lines ran in the selection.")
    gone = _constant_columns(table)
    shown = table[[name for name in _SHOWN if name not in gone]]
    part = Table(
        shown,
        units={"text": "code", "line": "count", "threads": "count"},
        heads={
            "text": "source of the cell" if "file" in gone else "source",
            "unrecorded_ns": "not recorded",
            "share": f"of {whole_of(trace, state)}",
            "backward_device_ns": "backward device",
            "bytes_kept": "kept",
            "peak_bytes": "at peak",
        },
        bars=("total_ns", "self_ns"),
        select=selecting_lines(trace, table),
        call="p.lines()",
        of=analysis.lines,
    )
    return Panel("Lines", (part, meaning(shown)), followed(analysis.lines))


def meaning(table: pd.DataFrame) -> Note:
    """Explain the columns of a table of lines."""
    words = "; ".join(text for name, text in _MEANINGS.items() if name in table.columns)
    sampled = "count" in table.columns and bool(table["count"].isna().any())
    beside = ", or if some of its steps were not recorded" if "unrecorded_ns" in table.columns else ""
    threads = "self_ns" in table.columns and bool((table["self_ns"] > table["total_ns"]).any())
    sums = " Where several threads run a line at once, total counts once, self for each." if threads else ""
    lines = f" A line has no count if it was sampled{beside}." if sampled else ""
    return Note(f"{words[:1].upper()}{words[1:]}.{sums}{lines}")


def whole_of(trace: Trace, state: Mapping[str, Any]) -> str:
    """Return what the shares of `analysis.lines` refer to, in words."""
    if state.get("step") is not None:
        return "the steps"
    if state.get("window") is not None:
        return "the window"
    account = recorded_table(trace, ACCOUNT)
    return "the recording" if account is None else "the cells" if "cell" in account else "the cell"


def _constant_columns(table: pd.DataFrame) -> list[str]:
    """Return the columns with a single value, and the costs that no line has."""
    constant = {
        "file": (table["file"] == CELL).all(),
        "count": table["count"].isna().all(),
        "threads": (table["threads"] == 1).all(),
    }
    constant |= {name: not table[name].any() for name in _COSTS}
    return [name for name, same in constant.items() if same]


def selecting_lines(trace: Trace, table: pd.DataFrame) -> list[dict[str, Any] | None]:
    """Return what a click on each line selects: its work on the host and on devices."""
    lines = set(trace.slices["line"].cat.categories)
    paths = table["file"].astype(str) + ":" + table["line"].astype(str)
    return [
        {"line": [line]} if (line := path if path in lines else short) in lines else None
        for path, short in zip(paths, line_texts(table), strict=True)
    ]


def without_lines(trace: Trace) -> str:
    if len(trace.slices["line"].cat.categories):
        return ""
    if has_value(trace, "category", "python"):
        return "No lines were recorded: the recording of Python has only functions."
    return "No lines were recorded: no Python code was sampled. Record a cell with %%profile to see them."


TAB: Final = Tab(
    "Lines",
    lines,
    without_lines,
    place=20,
    summary="Your own source by line, the most expensive line first.",
    calls=("p.lines()",),
)
