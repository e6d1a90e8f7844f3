"""What samplers of Python cost short cells, and what they see of them.

Each cell calls three functions in one statement, which a stopwatch in the functions times. *Seen* is the
share of their time that has a slice of its function, *wrong* the share on a wrong one, both medians. Kernels
with each engine and a bare one run the same cell in turn; *thread CPU* is that of the cell's thread, which
other programs do not disturb. ``auto`` lets py-spy join a recording after 0.1 s, ``py-spy`` waits for it.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from .overhead_cells import Kernel

TITLE = "Samplers of Python in short cells"
WAYS: Final = {"bare": "", **{way: f"--engine {way}" for way in ("auto", "py-spy", "thread")}}
_SETUP: Final = """
import json, time
import numpy as np
true, numbers = [], list(range(400_000, 0, -1)) + list(range(400_000))
def spin(seconds):
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        pass
    true.append(time.perf_counter() - begin)
def sorting(times):
    begin = time.perf_counter()
    for _ in range(times):
        sorted(numbers)
    true.append(time.perf_counter() - begin)
def first(work, size): work(size)
def second(work, size): work(size)
def third(work, size): work(size)
def whole(work, size):
    first(work, size); second(work, size); third(work, size)
def mixed(rounds):
    spent = [0, 0, 0]
    for _ in range(rounds):
        for i, (function, work, size) in enumerate(((first, spin, 0.002), (second, time.sleep, 0.0005))):
            begin = time.perf_counter()
            function(work, size)
            spent[i] += time.perf_counter() - begin
    true.extend(spent)
def judge(p):
    s, real = p.trace.slices, np.array(true[-3:])
    s = s[s["category"] == "python"]
    own = [s.loc[s["name"].astype(str).str.startswith(one + " ("), "dur"].sum() / 1e9 for one in
           ("first", "second", "third")]
    return [float(sum(own) / real.sum()), float(np.abs(np.array(own) - real).sum() / 2 / real.sum())]
"""
CELLS: Final = {
    "x = 1": "x = 1",
    "3 × 10 ms of Python": "whole(spin, 0.01)",
    "3 × 30 ms of Python": "whole(spin, 0.03)",
    "3 × 100 ms of Python": "whole(spin, 0.1)",
    "25 × 2 ms of Python and 0.5 ms of sleep": "mixed(25)",
    "120 × 2 ms of Python and 0.5 ms of sleep": "mixed(120)",
    "400 × 2 ms of Python and 0.5 ms of sleep": "mixed(400)",
    "3 × 4 calls into C that hold the GIL": "whole(sorting, 4)",
}


def run(quick: bool = False) -> list[dict[str, Any]]:
    """A row for each cell and way, and one for the first cell of each kernel."""
    rounds = 3 if quick else 15
    kernels = {way: Kernel() for way in WAYS}
    try:
        with tempfile.TemporaryDirectory() as folder:
            return list(_rows(kernels, rounds, Path(folder) / "judged.json"))
    finally:
        for kernel in kernels.values():
            kernel.close()


def _rows(kernels: dict[str, Kernel], rounds: int, judged: Path) -> Iterator[dict[str, Any]]:
    for way, kernel in kernels.items():
        kernel.run("%load_ext notebook_prof")
        kernel.run(_SETUP)
        time.sleep(1)
        wall, cpu, _ = kernel.run(_cell(way, "x = 1"))
        yield {"cell": "the kernel's first", "way": way, "ms": round(1000 * wall), "thread CPU, ms": _ms(cpu)}
    for name, cell in CELLS.items():
        took: dict[str, list[tuple[float, float, float]]] = {way: [] for way in kernels}
        seen: dict[str, list[tuple[float, float]]] = {way: [] for way in kernels}
        for _ in range(rounds):
            for way, kernel in kernels.items():
                took[way].append(kernel.run(_cell(way, cell)))
                if way != "bare" and cell != "x = 1":
                    kernel.run(f"json.dump(judge(p), open({str(judged)!r}, 'w'))")
                    seen[way].append(json.loads(judged.read_text()))
        for way in kernels:
            row: dict[str, Any] = {"cell": name, "way": way}
            row |= {"ms": _ms(*(one[0] for one in took[way]))}
            row |= {"thread CPU, ms": _ms(*(one[1] for one in took[way]))}
            if seen[way]:
                columns = zip(("seen", "wrong"), zip(*seen[way], strict=True), strict=True)
                row |= {column: f"{100 * statistics.median(values):.0f} %" for column, values in columns}
            yield row


def _cell(way: str, cell: str) -> str:
    return cell if way == "bare" else f"%%profile p --quiet --no-history {WAYS[way]}\n{cell}"


def _ms(*seconds: float) -> float:
    return round(1000 * statistics.median(seconds), 1)
