"""The table with one row per run of a cell, which a notebook's watch adds to a Trace."""

from __future__ import annotations

from typing import Final

import pandas as pd

from ...trace import Trace
from ...trace.schema import Column, Table

CELL_RUNS: Final = Table(
    "cell_runs",
    (
        Column("run", "int64", "", "number of the run, from 0"),
        Column("cell", "int64", "", "number of the cell, by first run: equal id or, without ids, source"),
        Column("number", "int64", "", "execution count"),
        Column("cell_id", "str", "", "the front-end's id; may be empty"),
        Column("name", "str", "", "`In[7]` and the statement that took longest"),
        Column("track", "int64", "", "of its thread"),
        Column("ts", "int64", "ns", "begin"),
        Column("dur", "int64", "ns", "duration"),
        Column("source", "str", "", "text of the cell"),
        Column("error", "str", "", "type of its exception, or empty"),
        Column("imports", "str", "", "packages that it was the first to import"),
        Column("full", "bool", "", "whether `%%profile` recorded it"),
        Column("running", "bool", "", "whether it had not ended"),
        Column("rss_bytes", "int64", "bytes", "resident memory at its start"),
        Column("kept_bytes", "int64", "bytes", "growth of resident memory"),
        Column("peak_bytes", "int64", "bytes", "highest resident memory"),
        Column(
            "peak_exact", "bool", "", "whether the system recorded the peak; otherwise the highest reading"
        ),
        Column("device_bytes", "int64", "bytes", "growth of torch's memory on GPUs"),
        Column("position", "int64", "", "position in the saved notebook; -1 if unknown"),
        Column("now", "str", "", "text of the cell in the saved notebook; missing if unknown"),
    ),
)
CELL_BUFFERS: Final = "cell_buffers"
"""Table of the large buffers of the last walk over names, with the run after which each was first seen."""


def cell_runs(trace: Trace) -> pd.DataFrame:
    """Return the recorded runs, by time; empty if the Trace is not a notebook's."""
    table = (trace.metadata.get("tables") or {}).get(CELL_RUNS.name)
    if not isinstance(table, pd.DataFrame) or not set(CELL_RUNS.names) <= set(table.columns):
        return CELL_RUNS.empty()
    return table.sort_values("run", kind="stable").reset_index(drop=True)


def is_notebook(trace: Trace) -> bool:
    """Return whether the Trace is a notebook's."""
    return CELL_RUNS.name in (trace.metadata.get("tables") or {})
