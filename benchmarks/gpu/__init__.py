"""The first minutes on a card: what only a card can say, in the order of what teaches most.

``python -m benchmarks.gpu --archive OUT/card.zip --wheels wheels`` needs Python, NumPy and a torch for CUDA;
what else it needs comes from a folder that ``--make-wheels wheels`` fills where there is a network. Each job
is a process of its own with a limit, since CUPTI has one client a process and a card can hang. What fails is
a row with its exact error. The archive has all outcomes and small recordings; a later call goes on from it.
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
        print("nothing was measured on a GPU yet: see docs/gpu.md", file=sys.stderr)
    return rows
