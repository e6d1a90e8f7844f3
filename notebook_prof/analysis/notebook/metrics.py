"""The numbers of a run as one flat dict, for experiment trackers."""

from __future__ import annotations

import math
from typing import Any

from ...trace import Trace
from ..device.busy import device
from ..memory.curve import memory_peak
from ..time.account import account
from ..time.phases import phases
from ..time.steps import steps
from .cells import cells
from .recorded import is_notebook


def metrics(trace: Trace) -> dict[str, float]:
    """Return the numbers of a run as a flat dict, for ``mlflow.log_metrics``, ``wandb.log`` or a CSV.

    Returns
    -------
    dict of str to float
        Names end with their unit: ``_s``, ``_bytes``, ``_share`` (0–1) or ``_count``. Values are finite;
        unrecorded ones have no entry.

        - ``wall_s``: the length of the cell, the notebook's session, or the file; ``cpu_s``;
        - ``step_count``, ``step_mean_s``, ``step_p50_s``, ``step_p90_s``, and ``phase_NAME_share`` of steps;
        - ``host_peak_bytes`` and ``device_N_peak_bytes``; ``device_N_busy_share``;
        - for a notebook: ``cells_s``, ``idle_s``, ``cell_count``, ``run_count``, ``stale_count``,
          ``error_count``, and for each cell ``cell_N_wall_s`` and ``cell_N_kept_bytes``, where N is its
          number in order of first runs, which is equal in all runs of one notebook.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> metrics(draw("main: [mm ]"))["wall_s"]
    5e-09
    """
    found: dict[str, Any] = {}
    parts = account(trace)
    if len(parts):
        found["wall_s"] = int(parts["dur"].sum()) / 1e9
        if parts["cpu_ns"].notna().all():
            found["cpu_s"] = int(parts["cpu_ns"].sum()) / 1e9
    took = steps(trace)["dur"]
    if len(took):
        found["step_count"] = len(took)
        found["step_mean_s"] = float(took.mean()) / 1e9
        for name, share in (("p50", 0.5), ("p90", 0.9)):
            found[f"step_{name}_s"] = float(took.quantile(share)) / 1e9
        by_phase = phases(trace).groupby("phase", observed=True)["host_ns"].sum()
        for phase, spent in by_phase.items():
            if spent > 0:
                found[f"phase_{phase}_share"] = int(spent) / max(int(by_phase.sum()), 1)
    for row in memory_peak(trace).to_dict("records"):
        name = "host" if row["device"] < 0 else f"device_{row['device']}"
        key = f"{name}_peak_bytes"
        found[key] = max(found.get(key, 0), int(row["peak_bytes"]))
    for row in device(trace).to_dict("records"):
        found[f"device_{row['device']}_busy_share"] = row["busy_ns"] / max(row["window_ns"], 1)
    if is_notebook(trace):
        table = cells(trace)
        found["cells_s"] = int(parts.loc[parts["kind"] == "code", "dur"].sum()) / 1e9
        found["idle_s"] = int(parts.loc[parts["kind"] != "code", "dur"].sum()) / 1e9
        found["cell_count"], found["run_count"] = len(table), int(table["runs"].sum())
        found["stale_count"] = int((table["stale"] != "").sum())
        found["error_count"] = int((table["error"] != "").sum())
        for row in table.to_dict("records"):
            found[f"cell_{row['cell']}_wall_s"] = row["wall_ns"] / 1e9
            found[f"cell_{row['cell']}_kept_bytes"] = row["kept_bytes"]
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}
