"""The table with one row per run of a cell, which a notebook's watch adds to a Trace."""

from __future__ import annotations

from typing import Final

import pandas as pd

from ...trace import Trace
from ...trace.schema import Table

CELL_RUNS: Final = Table.of(
    "cell_runs",
    # ``cell`` is a number by first run: equal id or, without ids, source. ``full``: `%%profile` recorded it.
    "run:int64 cell:int64 number:int64 cell_id:str name:str track:int64 ts:int64 dur:int64 source:str "
    # ``running``: it had not ended. ``peak_exact``: the system recorded the peak, which else is the highest
    # reading. ``imports``: packages that it was the first to import.
    "error:str imports:str full:bool running:bool rss_bytes:int64 kept_bytes:int64 peak_bytes:int64 "
    # ``position`` in the saved notebook is -1, and ``now``, its text there, is missing if unknown.
    "peak_exact:bool device_bytes:int64 position:int64 now:str",
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
