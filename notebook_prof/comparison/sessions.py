"""Compares two sessions of a notebook, cell by cell."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np
import pandas as pd

from ..analysis.notebook.cells import cells
from ..analysis.notebook.recorded import cell_runs
from ..trace import Trace
from ..trace.schema import Table
from ..units import format_ns
from .verdict import signed_ns

COMPARED: Final = Table.of(
    "compared_cells",
    "name:str status:str a_ns:int64 b_ns:int64 delta_ns:int64 a_kept_bytes:int64 b_kept_bytes:int64",
)
_ALIKE: Final = 0.6


def compare_cells(a: Trace, b: Trace) -> pd.DataFrame:
    """Compare the cells of two sessions.

    Parameters
    ----------
    a, b : Trace
        Sessions of a notebook.

    Returns
    -------
    DataFrame
        One row per cell of either session, with the largest differences first: ``name status a_ns b_ns
        delta_ns a_kept_bytes b_kept_bytes``. ``delta_ns`` sums to the difference of the sessions' *Run All*.
        Cells are matched by their text, even if they moved, then by their id, then by similar text.
    """
    sides = [_side(trace) for trace in (a, b)]
    rows = []
    for one, other in _matched(*sides):
        shown: dict[str, Any] = other or one or {}
        a_ns, b_ns = (0 if side is None else int(side["wall_ns"]) for side in (one, other))
        if one is None or other is None:
            status = "new" if one is None else "gone"
        else:
            status = "same" if one["source"] == other["source"] else "edited"
        kept = [0 if side is None else int(side["kept_bytes"]) for side in (one, other)]
        rows.append(
            {"name": shown["name"], "status": status, "a_ns": a_ns, "b_ns": b_ns, "delta_ns": b_ns - a_ns,
             "a_kept_bytes": kept[0], "b_kept_bytes": kept[1]}
        )  # fmt: skip
    table = COMPARED.of_rows(rows)
    order = np.argsort(-table["delta_ns"].abs().to_numpy(), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def matched_sources(a: Trace, b: Trace) -> list[tuple[str, str, str]]:
    """Return the name in b and both texts of each cell that both sessions have."""
    pairs = _matched(_side(a), _side(b))
    return [(other["name"], one["source"], other["source"]) for one, other in pairs if one and other]


def cells_text(a: Trace, b: Trace, rows: int) -> str:
    """Return the comparison as text: the sums, and the cells that changed most."""
    table = compare_cells(a, b)
    before, after = int(table["a_ns"].sum()), int(table["b_ns"].sum())
    lines = [f"Run All: {format_ns(before)} → {format_ns(after)} ({signed_ns(after - before)})"]
    for row in table.head(rows).to_dict("records"):
        note = "" if row["status"] == "same" else f"  ({row['status']})"
        times = f"{format_ns(row['a_ns'])} → {format_ns(row['b_ns'])}"
        lines.append(f"  {signed_ns(row['delta_ns']):>10}  {times}  {row['name']}{note}")
    return "\n".join(lines)


def _side(trace: Trace) -> list[dict[str, Any]]:
    """Return the cells of a session with their texts."""
    texts = cell_runs(trace).drop_duplicates("cell", keep="last").set_index("cell")["source"]
    table = cells(trace)
    source = table["cell"].map(texts).astype("str").str.strip()
    made: list[dict[str, Any]] = table.assign(source=source).to_dict("records")
    return made


def _matched(
    a: list[dict[str, Any]], b: list[dict[str, Any]]
) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    pairs: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = []
    left, right = list(a), list(b)

    def take(fits: Any) -> None:
        for one in list(left):
            if (other := next((row for row in right if fits(one, row)), None)) is not None:
                pairs.append((one, other))
                left.remove(one)
                right.remove(other)

    take(lambda one, other: one["source"] == other["source"])
    take(lambda one, other: one["cell_id"] and one["cell_id"] == other["cell_id"])
    take(lambda one, other: SequenceMatcher(None, one["source"], other["source"]).ratio() >= _ALIKE)
    return [*pairs, *((one, None) for one in left), *((None, other) for other in right)]
