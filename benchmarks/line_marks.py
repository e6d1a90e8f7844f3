"""What watching the lines of a cell costs: the same code watched and bare, in turn, in one process.

Marks between statements cost what `benchmarks.overhead` tells; this is ``sys.monitoring``, from 3.12 on.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from notebook_prof.collectors.line_monitor import LineMonitor, available

TITLE = "Lines of functions as they run"
ROUNDS = 9
CELLS = {
    "a million statements, top level": "s = 0\nfor i in range(500_000):\n    s += i\n    s -= 1\n",
    "a million statements in a function": (
        "def f():\n    s = 0\n    for i in range(500_000):\n        s += i\n        s -= 1\nf()\n"
    ),
    "200,000 calls of a small function": "def g(x):\n    return x\nfor i in range(200_000):\n    g(i)\n",
    "NumPy, operations of 2 us": "for i in range(8_000):\n    b = a + 1\n    c = b * 2\n    d = c - a\n",
    "NumPy, products of 1 ms": "for i in range(100):\n    m = w @ w\n",
}


def _once(source: str, watched: bool) -> float:
    code = compile(source, "<benchmark>", "exec")
    space = {"a": np.ones(1000), "w": np.ones((300, 300))}
    monitor = LineMonitor("<benchmark>", source) if watched else None
    if monitor is not None:
        monitor.start()
    begun = time.process_time()
    try:
        exec(code, space)
        return time.process_time() - begun
    finally:
        if monitor is not None:
            monitor.stop()


def run() -> list[dict[str, Any]]:
    """Measure; one row a cell, none before Python 3.12."""
    rows = []
    for name, source in CELLS.items() if available() else ():
        ratios = []
        for turn in range(ROUNDS):
            duration_of = {
                watched: _once(source, watched) for watched in ((False, True), (True, False))[turn % 2]
            }
            ratios.append(duration_of[True] / duration_of[False])
        rows.append({"cell": name, "watched : bare": round(statistics.median(ratios), 2)})
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
