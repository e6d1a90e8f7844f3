"""How long ``import notebook_prof`` takes, and the first uses of its parts, against ``import pandas``.

Fresh processes, in turn; medians. The time is measured inside, around the import.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

TITLE = "Import time"

STATEMENTS = {
    "import pandas": "import pandas",
    "import notebook_prof": "import notebook_prof",
    "import notebook_prof; nbp.Trace": "import notebook_prof; notebook_prof.Trace",
    "import notebook_prof; nbp.profile": "import notebook_prof; notebook_prof.profile",
    "import notebook_prof.jupyter.extension": "import notebook_prof.jupyter.extension",
}

_PROGRAM = """
import time
begun = time.perf_counter()
{statement}
print(time.perf_counter() - begun)
"""


def seconds(statement: str) -> float:
    """Time of one statement in a fresh process."""
    program = _PROGRAM.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout)


def run(rounds: int = 9) -> list[dict[str, Any]]:
    """Rows: statement, median seconds, seconds more than pandas."""
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for turn in range(rounds + 1):
        for name, statement in STATEMENTS.items():
            duration = seconds(statement)
            if turn:  # the first round fills the disk cache
                times[name].append(duration)
    medians = {name: statistics.median(durations) for name, durations in times.items()}
    return [
        {
            "statement": name,
            "seconds": round(median, 3),
            "more than pandas, s": round(median - medians["import pandas"], 3),
        }
        for name, median in medians.items()
    ]
