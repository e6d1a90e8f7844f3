"""The runs of one cell: how long they took, when that changed, and what changed in the source."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pandas as pd

from ..analysis.source.annotated import cell_lines
from ..analysis.source.lines import CELL
from ..comparison.changes import source_changes
from ..comparison.run import Side
from ..comparison.verdict import signed_percent
from ..errors import OptionError, nearest
from ..profiles.text import aligned
from ..statistics import shift_of_steps, widened
from ..units import format_items, format_ns
from .change_sentence import edits, noise_between
from .entry import HistoryRun, read_run
from .identity import kernel_id
from .store import Store
from .table import runs_of

MOST: Final = 40
"""Number of runs that are shown."""
_BLOCKS: Final = "▁▂▃▄▅▆▇█"


class CellHistory:
    """The latest runs of one cell, as text."""

    def __init__(self, table: pd.DataFrame, folder: str, notes: tuple[str, ...] = ()) -> None:
        self.table, self.folder, self.notes = table, folder, notes

    @property
    def sparkline(self) -> str:
        """Median steps as block characters, scaled from the shortest to the longest."""
        values = self.table["p50_ns"].to_numpy(np.float64)
        low, high = np.nanmin(values, initial=math.inf), np.nanmax(values, initial=-math.inf)
        share = (values - low) / (high - low) if high > low else np.zeros(len(values))
        level = np.clip(np.round(np.nan_to_num(share) * (len(_BLOCKS) - 1)), 0, len(_BLOCKS) - 1)
        return "".join(_BLOCKS[i] for i in level.astype(int).tolist())

    def __repr__(self) -> str:
        if not len(self.table):
            return "\n".join([f"No run of this cell is in the history ({self.folder}).", *self.notes])
        rows = [_HEADS, *map(_cells, self.table.to_dict("records"))]
        lines = aligned(rows, left=[len(_HEADS) - 1])
        return "\n".join([f"{self._title}  {self.sparkline}", *lines, *self._calls, *self.notes])

    @property
    def _title(self) -> str:
        values = self.table["p50_ns"].dropna()
        ends = [format_ns(values.min()), format_ns(values.max())] if len(values) else []
        span = " to ".join(dict.fromkeys(ends))  # one run, or equal ones: one time
        return ", ".join(filter(None, (f"{format_items(len(self.table), 'run')} of this cell", span)))

    @property
    def _calls(self) -> list[str]:
        runs = self.table["run"].tolist()
        if len(runs) < 2:
            return []
        changed = self.table.loc[self.table["significant"], ["earlier", "run"]].tail(1).to_numpy().tolist()
        a, b = changed[0] if changed else runs[-2:]
        return [f"%profile_history {a} {b}    or  nbp.compare(nbp.load({a}), nbp.load({b}))"]


_HEADS: Final = ("run", "when (UTC)", "name", "steps", "median", "change", "source")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    change = ""
    if not math.isnan(row["change"]):
        change = ("" if row["significant"] else "≈ ") + signed_percent(row["change"])
        if not math.isnan(row["low"]):
            change += f" ({signed_percent(row['low'])} … {signed_percent(row['high'])})"
    source = row["source_change"]
    words = ", ".join(
        filter(None, [source, "failed" if row["failed"] else "", "kept" if row["kept"] else ""])
    )
    return (
        str(row["run"]),
        f"{row['at']:%Y-%m-%d %H:%M}",
        str(row["name"]),
        str(row["steps"]),
        format_ns(row["p50_ns"]),
        change,
        words,
    )


def cell_history(store: Store, what: str = "", notes: tuple[str, ...] = ()) -> CellHistory:
    """Return the latest runs of a cell. Raises OptionError if nothing matches `what`."""
    # `what` is the number or name of a run, the id of the cell, or text of its source; by default the cell
    # recorded last, in this kernel if possible. `notes` are shown below the table.
    table = runs_of(store)
    lineage = _lineage_of(table, what)
    runs = table[table["lineage"] == lineage].tail(MOST).reset_index(drop=True)
    entries = {run: read_run(store, run) for run in runs["run"].tolist()}
    changes = [_change(store, entries, *pair) for pair in zip(runs["run"], runs["earlier"], strict=True)]
    columns = ["change", "low", "high", "significant", "source_change"]
    return CellHistory(runs.join(pd.DataFrame(changes, columns=columns)), str(store.folder), notes)


def _lineage_of(table: pd.DataFrame, what: str) -> int | None:
    if not len(table):
        return None
    if not what:
        own = table[table["kernel"] == kernel_id()]
        return int((own if len(own) else table)["lineage"].iloc[-1])
    matches = table[
        (table["run"].astype("str") == what)
        if what.isdecimal()
        else (table["name"] == what)
        | (table["cell"] == what)
        | table["source"].str.contains(what, regex=False)
    ]
    if not len(matches):
        names = sorted({*table["name"], *table["run"].astype("str")} - {""})
        raise OptionError(f"the history has no run, name or cell {what!r}: {nearest(what, names)}")
    return int(matches["lineage"].iloc[-1])


def _change(
    store: Store, entries: dict[int, HistoryRun], run: int, earlier: Any
) -> tuple[float, float, float, bool, str]:
    """Return how a run changed, with an interval, whether that exceeds the noise, and the changed lines."""
    before, this = entries.get(earlier) if not pd.isna(earlier) else None, entries[run]
    if before is None:
        return math.nan, math.nan, math.nan, False, ""
    a, b = (Side(one, "").times() for one in (before, this))
    shift = widened(shift_of_steps(a, b), noise_between(store, before, this).factor)
    low, high = math.expm1(shift.low), math.expm1(shift.high)
    return math.expm1(shift.value), low, high, shift.significant, _lines(before.source, this.source)


def _lines(before: str, this: str) -> str:
    if not before or not this:
        return ""
    edited, removed = edits(source_changes({CELL: cell_lines(before)}, {CELL: cell_lines(this)}))
    return ", ".join(filter(None, [edited, f"{removed} removed" if removed else ""])) or "same"
