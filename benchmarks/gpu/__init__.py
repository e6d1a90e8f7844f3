"""The first minutes on a card: what only a card can say, in the order of what teaches most.

``python -m benchmarks.gpu --archive OUT/card.zip --wheels wheels`` needs Python, NumPy and a torch for CUDA;
what else it needs is taken from a folder of wheels that ``--make-wheels wheels`` has made where there is a
network. Each job is a process of its own with a limit, since CUPTI has one client a process and a card can
hang; what fails is a row with its exact error. The archive has all outcomes and small recordings, and a later
call goes on from it. A job that recorded no work of a device is not done.
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
    from .archive import read
    from .outcomes import figures

    rows = figures(read(KEPT).outcomes.values())
    if not rows:
        print("nothing was measured on a GPU yet: see docs/gpu.md", file=sys.stderr)
    return rows
