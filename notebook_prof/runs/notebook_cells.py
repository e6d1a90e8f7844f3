"""Writes a row of the history for each cell of a notebook's session."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ..analysis.notebook.cells import cells
from ..analysis.notebook.recorded import cell_runs
from ..comparison.changes import facts_of
from ..comparison.parts import MISSING, MOST_KEYS, StepParts, limited, undivided
from ..comparison.run import TOTALS, Summary
from ..profiles.profile import Profile
from ..trace import Trace
from ..units import format_ns
from .entry import packed
from .folder import history_folder
from .identity import Identity, earlier_run, is_dirty, kernel_id, load_now, of_run, revision_of
from .previous_run import OF_A_MACHINE
from .store import Store

OPTIONS: Final = "notebook"


def last_run_ns(path: str) -> int:
    """Return how long all cells took in the last run of a notebook; 0 if the history has none."""
    folder = history_folder(path)
    if folder is None:
        return 0
    of_last = "WHERE notebook = ? AND options = ? GROUP BY at_ns ORDER BY at_ns DESC LIMIT 1"
    rows = Store(folder).select("SUM(total_ns)", of_last, (_notebook(path, folder), OPTIONS))
    return int(rows[0][0]) if rows else 0


def _notebook(path: str, folder: Path) -> str:
    return os.path.relpath(path, folder.parent).replace(os.sep, "/")


def remember_cells(profile: Profile, path: str) -> int:
    """Add a row for the latest run of each cell; `path` is the notebook's. Returns their number."""
    folder = history_folder(path)
    if folder is None:
        return 0
    trace, store = profile.trace, Store(folder)
    notebook = _notebook(path, folder)
    facts = dict(facts_of(trace))
    revision, load = revision_of(folder.parent), load_now()
    dirty = is_dirty(folder.parent) if revision else None
    texts = cell_runs(trace).drop_duplicates("cell", keep="last").set_index("cell")["source"]
    now_ns, table = time.time_ns(), cells(trace)
    for row in table.to_dict("records"):
        me = Identity(now_ns, kernel_id(), notebook, row["cell_id"], "", str(texts[row["cell"]]))
        link = earlier_run(store, me)
        source, content = packed(_summary(trace, row, me.source, facts))
        wall_ns = int(row["wall_ns"])
        store.add(
            {
                **of_run(me, link), "options": OPTIONS,
                "environment": {name: facts.get(name, "") for name in OF_A_MACHINE},
                "revision": revision, "dirty": dirty, "failed": bool(row["error"]),
                "steps": 1, "p50_ns": wall_ns, "mean_ns": wall_ns, "total_ns": wall_ns,
                "peak_bytes": int(row["peak_bytes"]), "load": load,
                "verdict": f"{row['name']} took {format_ns(wall_ns)}.", "trust": "",
                "kept": "", "source": source, "content": content,
            }
        )  # fmt: skip
    return len(table)


def _summary(trace: Trace, row: dict[str, Any], source: str, facts: dict[str, str]) -> Summary:
    """Return the totals of a cell: one step, divided into its statements."""
    wall_ns = int(row["wall_ns"])
    steps = pd.DataFrame({"step": [-1], "ts": [0], "dur_ns": [wall_ns], "used": [True], "slow": [False]})
    one = np.ones(1, np.int64)
    whole = StepParts([("other",)], np.array([[wall_ns]], np.int64), one, one)
    totals = {"phases": whole, **{name: undivided(whole, *TOTALS[name]) for name in ("operators", "kernels")}}
    lines = _lines(trace, row)
    sums = np.array([[*lines.tolist(), wall_ns - int(lines.sum())]], np.int64)
    keys: list[tuple[str, ...]] = [*((str(label),) for label in lines.index), (MISSING["line"],)]
    totals["lines"] = limited(StepParts(keys, sums, np.ones(len(keys), np.int64), one), MOST_KEYS)
    peak = pd.DataFrame({"device": [-1], "source": ["process"], "bytes": [int(row["peak_bytes"])]})
    return Summary(steps, totals, source, facts, peak)


def _lines(trace: Trace, row: dict[str, Any]) -> pd.Series[int]:
    """Return the time of each statement of the cell by line."""
    slices = trace.slices
    of_cell = slices[(slices["ts"] >= row["ts"]) & (slices["ts"] < row["ts"] + row["wall_ns"])]
    line = of_cell["line"].astype("str").str.extract(rf"^In\[{row['number']}\]:(\d+)", expand=False)
    parent, category = of_cell["parent"].fillna(-1).to_numpy("int64"), slices["category"].to_numpy()
    statements = of_cell[line.notna() & (parent >= 0) & (category[parent] == "annotation")]
    label = "cell:" + line[statements.index]
    return statements.groupby(label, sort=False)["dur"].sum()
