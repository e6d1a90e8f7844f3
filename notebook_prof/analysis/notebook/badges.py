"""The badges that a front-end shows beside the cells of a notebook."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .path import DELETED, stale_cells


def badges(runs: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a row for the latest run of each cell with an id; `runs` is the table of `cell_runs`."""
    stale = stale_cells(runs)
    rows = runs.drop_duplicates("cell", keep="last").to_dict("records")
    return [
        badge(row["cell_id"], row["number"], row["dur"], row["kept_bytes"], row["source"])
        | {"name": row["name"], "stale": stale.get(row["run"], "")}
        for row in rows
        if row["cell_id"] and stale.get(row["run"]) != DELETED
    ]


def badge(cell_id: str, number: int, wall_ns: int, kept_bytes: int, source: str) -> dict[str, Any]:
    """Return the row of a run about which nothing else is known yet."""
    return {
        "id": cell_id,
        "number": number,
        "wall_ns": wall_ns,
        "kept_bytes": kept_bytes,
        "source": source,
        "name": "",
        "stale": "",
    }
