"""Checks that only a card can answer, the most informative first, for the first minutes on one.

``python -m benchmarks.gpu --archive OUT/card.zip --wheels wheels`` needs Python, NumPy and a torch for CUDA;
its other dependencies come from a folder that ``--make-wheels wheels`` fills on a machine with a network.
Each job is a separate process with a time limit, since CUPTI allows one client per process and a card can
hang. A failure becomes a row with its exact error. The archive has all outcomes and small recordings; a later
call resumes from it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

TITLE: Final = "On a GPU"
ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / "tests" / "data" / "gpu" / "card.zip"


def run() -> list[dict[str, Any]]:
    """Return the rows that were kept of a card; [] before there was one."""
    from .outcomes import figures, read

    rows = figures(read(KEPT)[0].values())
    if not rows:
        print("nothing was measured on a GPU yet: see benchmarks/gpu/README.md", file=sys.stderr)
    return rows
