"""Recordings on a real card: what they cost, and how many kernels each route sees.

``python -m benchmarks.gpu --save tests/data/gpu`` runs where there is a card: facts of the machine, every
scene of ``tests/gpu/scenes.py`` by every route, ceilings, kernels against ``ncu``, and every test of
``tests/gpu``. Each is a process of its own with a limit, since CUPTI has one client a process and a card can
hang; what fails is a row with its exact error. Small recordings are kept as native files, figures in
``performance.json``, all that happened in ``outcomes.json``, from where a later call goes on. Everywhere else
the kept figures are shown again, so that this table survives.
Ratios are medians over rounds, recorded and bare in turn, of wall time with the device idle at both ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from notebook_prof.collectors.nvml.collector import NvmlCollector

TITLE: Final = "On a GPU"
ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / "tests" / "data" / "gpu"


def run() -> list[dict[str, Any]]:
    """Rows of the table: measured on the card of this machine, else those that were kept; [] without any."""
    from .outcomes import figures
    from .plan import JOBS, scenes_only
    from .runner import run_all

    state = NvmlCollector.availability()
    if state.ok:
        return figures(run_all(scenes_only(JOBS)))
    path = KEPT / "performance.json"
    if path.is_file():
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return rows
    print(f"nothing was measured on a GPU yet, and there is none here: {state.reason}", file=sys.stderr)
    return []
