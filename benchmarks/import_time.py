"""What ``import notebook_prof``, first uses of its parts and ``%load_ext`` take, against ``import pandas``.

Fresh processes, in turn; medians of the CPU time of the process, measured inside, around the import.
IPython's shell is there before. What `%load_ext` leaves to the first profiled cell is in the last row.
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
    "%load_ext notebook_prof": "shell.run_line_magic('load_ext', 'notebook_prof')",
    "%load_ext and an empty %%profile": (
        "shell.run_line_magic('load_ext', 'notebook_prof'); shell.run_cell('%%profile --quiet\\npass')"
    ),
}

_PROGRAM = """
import os
import time
os.environ["NOTEBOOK_PROF_HISTORY"] = "off"
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
begun = time.process_time()
{statement}
print(time.process_time() - begun)
"""


def seconds(statement: str) -> float:
    """CPU time of one statement in a fresh process."""
    program = _PROGRAM.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def run(rounds: int = 9) -> list[dict[str, Any]]:
    """Rows: statement, median CPU seconds, and how many more than pandas."""
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
            "CPU, s": round(median, 3),
            "more than pandas, s": round(median - medians["import pandas"], 3),
        }
        for name, median in medians.items()
    ]
