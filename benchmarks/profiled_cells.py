"""What ``%%profile`` adds to single cells, beside ``%%prun`` and, if installed, pyinstrument's magic.

Each way has kernels of its own, in turn. A cell is timed from the request to the reply, and half a second
passes between two, so that a figure holds what the prompt waits for, not what is done later. *First* is the
first profiled cell of a kernel, in which each magic loads what it needs; *empty* is ``x = 1``; *next* is a
bare Python loop, asked for as soon as a profiled pandas cell has its reply. Differences are of medians.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from typing import Any, Final

from .overhead_cells import Kernel

TITLE = "Single profiled cells"

_SETUP: Final = """
import numpy as np, pandas as pd
rng = np.random.default_rng(0)
frame = pd.DataFrame({"k": rng.integers(0, 50, 20_000), "v": rng.random(20_000)})
square = rng.random((300, 300))
"""
_WAYS: Final = {
    "bare": ("", ""),
    "%%profile": ("%load_ext notebook_prof", "%%profile\n"),
    "%%prun": ("", "%%prun -q\n"),
    "%%pyinstrument": ("%load_ext pyinstrument", "%%pyinstrument\n"),
}
_CELLS: Final = {
    "empty": "x = 1",
    "Python loop": "total = 0\nfor i in range(1_500_000):\n    total += i & 7\n",
    "NumPy": "a = square\nfor _ in range(12):\n    a = a @ square / 300\n",
    "pandas": "for _ in range(8):\n    frame.merge(frame.groupby('k').mean(), on='k').sort_values('v_x')\n",
}
_NEXT: Final = "count = 0\nfor number in range(2_000_000):\n    count += number & 3\n"
_PAUSE_S: Final = 0.5


def _kernel(way: str, times: int) -> dict[str, list[float]]:
    """Return the times of one kernel's cells, in milliseconds."""
    load, magic = _WAYS[way]
    kernel, took = Kernel(), {}
    try:
        kernel.run(_SETUP + "\n" + load)
        time.sleep(2 * _PAUSE_S)
        took["first"] = [kernel.run(magic + _CELLS["empty"])[0]]
        for name, cell in _CELLS.items():
            kernel.run(magic + cell)
            took[name] = []
            for _ in range(times):
                time.sleep(_PAUSE_S)
                took[name].append(kernel.run(magic + cell)[0])
        took["next"] = []
        for _ in range(times):
            kernel.run(magic + _CELLS["pandas"])
            took["next"].append(kernel.run(_NEXT)[0])
            time.sleep(_PAUSE_S)
    finally:
        kernel.close()
    return {name: [1e3 * one for one in values] for name, values in took.items()}


def run(rounds: int = 3, times: int = 7) -> list[dict[str, Any]]:
    """Rows: a cell each. Of the first cells there is one a round, of the others `times`."""
    ways = [way for way in _WAYS if way != "%%pyinstrument" or importlib.util.find_spec("pyinstrument")]
    took: dict[str, dict[str, list[float]]] = {way: {} for way in ways}
    for turn in range(rounds):
        for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
            for name, values in _kernel(way, times).items():
                took[way].setdefault(name, []).extend(values)
    rows = []
    for name in took["bare"]:
        bare, *others = (statistics.median(took[way][name]) for way in ways)
        added = {f"{way}, + ms": round(other - bare, 1) for way, other in zip(ways[1:], others, strict=True)}
        rows.append(
            {"cell": name, "bare, ms": round(bare, 1), **added, "%%profile ×": round(others[0] / bare, 2)}
        )
    return rows
