"""The cells of a notebook, with their times and memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.arrays import IntArray
from ...trace.intervals import as_ints
from ...trace.schema import Table
from ..time.cpu import cpu_within
from .path import DELETED, stale_cells
from .recorded import cell_runs

CELLS: Final = Table.of(
    "cells",
    "cell:int64 number:int64 name:str ts:int64 wall_ns:int64 share:float64 cpu_ns:Int64 cores:float64 "
    "wait_ns:Int64 peak_bytes:int64 peak_exact:bool kept_bytes:int64 device_bytes:int64 device_ns:Int64 "
    "hottest:str hottest_ns:Int64 runs:int64 error:str imports:str stale:str full:bool cell_id:str",
)


def cells(trace: Trace, *, runs: bool = False) -> pd.DataFrame:
    """List the cells of a notebook that ran under ``%profile_notebook``.

    Parameters
    ----------
    runs : bool
        One row per run, in order of time, including requests of a front-end's tools without a cell. By
        default one row per cell that is still in the notebook, for its latest run.

    Returns
    -------
    DataFrame
        In order of first runs; empty for a Trace that is not a notebook's.

        - ``cell``, ``number`` int64: number of the cell in order of first runs, and execution count;
          ``name`` str: ``In[7]`` and its longest statement; ``cell_id`` str: the front-end's;
        - ``ts``, ``wall_ns`` int64 ns, ``share`` float64 of all rows;
        - ``cpu_ns`` Int64: of the process and its children; ``cores`` float64: `cpu_ns` / `wall_ns`;
          ``wait_ns`` Int64: time in which the main thread neither ran nor waited for a core;
        - ``peak_bytes`` int64: highest resident memory. With ``peak_exact`` the system recorded it;
          otherwise it is the highest of readings 20 ms or more apart;
        - ``kept_bytes`` int64: growth of resident memory, negative if it shrank; ``device_bytes``: of torch's
          memory on GPUs; ``device_ns`` Int64: time that the busiest GPU was busy, by NVML;
        - ``hottest`` str, ``hottest_ns`` Int64: the line that took longest. In cells below a second it is a
          statement of the cell; in longer ones it may be a line of a function, sampled up to 50 times per
          second;
        - ``runs`` int64; ``error`` and ``imports`` str; ``full`` bool: also recorded by ``%%profile``;
        - ``stale`` str: ``edited`` since it ran, ``deleted`` from the notebook, ``x changed in In[9]`` (a
          cell above that ran later), ``x is of In[9], a cell below``, or ``…, which is stale``.

    Notes
    -----
    Cells without an id are the same cell if they have the same source. ``edited`` and ``deleted`` are
    relative to the saved notebook, if the server names its file. What a cell reads is derived from its syntax
    tree: see `path`.
    """
    table = cell_runs(trace)
    if not len(table):
        return CELLS.empty()
    begin = as_ints(table["ts"].to_numpy())
    end = begin + as_ints(table["dur"].to_numpy())
    cpu, _, wait = cpu_within(trace, begin, end) or (None, None, None)
    wall = np.maximum(end - begin, 1)
    hottest, hottest_ns = _hottest(trace, table["track"].to_numpy(), begin, end)
    stale = stale_cells(table)
    columns: dict[str, Any] = {
        **{name: table[name] for name in CELLS.names if name in table},
        "wall_ns": end - begin,
        "share": 0.0,
        "cpu_ns": pd.Series(cpu, table.index, "Int64"),
        "cores": np.nan if cpu is None else cpu / wall,
        "wait_ns": pd.Series(wait, table.index, "Int64"),
        "device_ns": _device_busy(trace, begin, end),
        "hottest": hottest,
        "hottest_ns": hottest_ns,
        "runs": table.groupby("cell")["run"].transform("size").to_numpy(),
        "stale": [stale.get(run, "") for run in table["run"].tolist()],
    }
    made = CELLS.frame(columns)
    if not runs:
        made = made.drop_duplicates("cell", keep="last").sort_values("cell")
        shown = (made["number"] > 0) | (made["cell_id"] != "")  # others are requests of a front-end's tools
        made = made[(made["stale"] != DELETED) & shown].reset_index(drop=True)
    total = int(made["wall_ns"].sum())
    return made.assign(share=made["wall_ns"] / max(total, 1))


def _hottest(trace: Trace, track: IntArray, begin: IntArray, end: IntArray) -> tuple[Any, Any]:
    """Return the line with the most self time in each run, by the slices named like lines."""
    slices = trace.slices.loc[trace.slices["category"] == "python", ["ts", "track", "line", "self_ns"]]
    runs = pd.DataFrame({"ts": begin, "track": track, "end": end, "run": np.arange(len(begin))})
    runs = runs.astype({"track": slices["track"].dtype}).sort_values("ts", kind="stable")
    own = pd.merge_asof(slices[slices["line"].notna()], runs, on="ts", by="track")
    own = own[own["ts"] < own["end"]].astype({"line": "str"})
    sums = own.groupby(["run", "line"], sort=False)["self_ns"].sum().reset_index()
    top = sums.sort_values("self_ns", kind="stable").drop_duplicates("run", keep="last").set_index("run")
    rows = top.reindex(np.arange(len(begin)))
    return rows["line"].astype("object"), rows["self_ns"].astype("Int64")


def _device_busy(trace: Trace, begin: IntArray, end: IntArray) -> Any:
    """Return the time that the busiest GPU was busy in each run. NVML averages between readings."""
    tracks = trace.tracks
    use = tracks[(tracks["kind"] == "counter") & tracks["name"].str.endswith(" utilisation")]
    best = np.full(len(begin), -1, np.int64)
    for track in use["track"].tolist():
        rows = trace.counters[trace.counters["track"] == track]
        ts, value = as_ints(rows["ts"].to_numpy()), rows["value"].to_numpy(np.float64)
        if len(ts) < 2:
            continue
        total = np.append(0.0, np.cumsum(np.diff(ts) * value[1:]))
        busy = np.interp(end, ts, total) - np.interp(begin, ts, total)
        seen = np.searchsorted(ts, end, side="right") > np.searchsorted(ts, begin, side="left")
        best = np.where(seen, np.maximum(best, busy.astype(np.int64)), best)
    return pd.arrays.IntegerArray(np.maximum(best, 0), best < 0)


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
    times = {"id": cell_id, "number": number, "wall_ns": wall_ns, "kept_bytes": kept_bytes}
    return {**times, "source": source, "name": "", "stale": ""}
