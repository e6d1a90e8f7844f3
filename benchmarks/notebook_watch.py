"""What ``%profile_notebook`` costs a cell: short cells, and longer ones of several kinds, with and without.

Cells have ids, as JupyterLab sends them, so those that are watched are told to badges.

python -m benchmarks.notebook_watch [--cells 300] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import uuid

from .overhead_cells import Kernel

CLOCKS = ("wall", "cpu")
LONG = {
    "pure Python": "total = 0\nfor i in range(3_000_000):\n    total += i * i",
    "calls": "def f(n):\n    return n + 1\nfor i in range(3_000_000):\n    f(i)",
    "NumPy": "import numpy as np\na = np.random.default_rng(0).random((900, 900))\n"
    "for _ in range(6): a = a @ a / 900",
    "pandas": "import numpy as np, pandas as pd\nd = pd.DataFrame({'k': np.arange(10**6) % 99, 'v': 1.0})\n"
    "for _ in range(12): d.groupby('k').v.sum()",
    "text": "import json\nfor _ in range(60): json.loads(json.dumps([{'a': i} for i in range(9000)]))",
    "allocation": "for _ in range(25): b = bytearray(50_000_000); b[::4096] = b'x' * len(b[::4096])",
    "strings": "text = ' '.join(map(str, range(200_000)))\nfor _ in range(12): len(set(text.split()))",
    "sorting": "import random\nr = random.Random(0)\n"
    "for _ in range(4): sorted(r.random() for _ in range(200_000))",
    "threads": "import hashlib\nfrom concurrent.futures import ThreadPoolExecutor\nblock = b'x' * 10**7\n"
    "with ThreadPoolExecutor(2) as pool: list(pool.map(lambda _: hashlib.sha256(block).digest(), range(40)))",
    "sleep": "import time\ntime.sleep(1)",
}


def main() -> None:
    """Print the cost by the clock, from the request to the reply, and of CPU time of the whole kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    kernels = {False: Kernel(), True: Kernel()}
    try:
        for watched, kernel in kernels.items():
            kernel.run("%load_ext notebook_prof" + "\n%profile_notebook" * watched)
        rows = alternating(kernels, "x = 1", options.cells)
        for clock in (0, 1):
            bare, watched = (
                1e3 * statistics.median(row[clock] for row in rows[way]) for way in (False, True)
            )
            print(f"{options.cells} x `x = 1`, {CLOCKS[clock]} a cell: {bare:.2f} -> {watched:.2f} ms")
        for name, source in LONG.items():
            alternating(kernels, source, 1)
            rows = alternating(kernels, source, options.rounds)
            ratios = (
                statistics.median(row[clock] for row in rows[True])
                / statistics.median(row[clock] for row in rows[False])
                for clock in (0, 1)
            )
            told = " ".join(f"{CLOCKS[clock]} x {ratio:.3f}" for clock, ratio in enumerate(ratios))
            print(f"{name:12} {statistics.median(row[0] for row in rows[False]):.2f} s  {told}")
    finally:
        for kernel in kernels.values():
            kernel.close()


def alternating(
    kernels: dict[bool, Kernel], source: str, times: int
) -> dict[bool, list[tuple[float, float]]]:
    """Return wall and CPU time, in s, of each run without and with the watch, in turn; each is a new cell."""
    took: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for turn in range(times):
        for watched in (False, True) if turn % 2 else (True, False):
            wall, cell_cpu, other_cpu = kernels[watched].run(source, uuid.uuid4().hex)
            took[watched].append((wall, cell_cpu + other_cpu))
    return took


if __name__ == "__main__":
    main()
