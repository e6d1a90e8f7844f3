"""What ``%profile_notebook`` costs a cell: short cells, and longer ones of several kinds, with and without.

Cells have ids, as JupyterLab sends them, so those that are watched are told to badges.

python -m benchmarks.notebook_watch [--cells 300] [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import uuid

import numpy as np

from notebook_prof.statistics import median_interval

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
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    kernel = Kernel()
    try:
        kernel.run("%load_ext notebook_prof")
        rows = alternating(kernel, "x = 1", options.cells)
        for clock, name in enumerate(CLOCKS):
            bare, watched = (
                1e3 * statistics.median(row[clock] for row in rows[way]) for way in (False, True)
            )
            print(f"{options.cells} x `x = 1`, {name} a cell: {bare:.2f} -> {watched:.2f} ms")
        for name, source in LONG.items():
            alternating(kernel, source, 1)
            rows = alternating(kernel, source, options.rounds)
            told = " ".join(f"{clock} x {interval_of_pairs(rows, i)}" for i, clock in enumerate(CLOCKS))
            print(f"{name:12} {statistics.median(row[0] for row in rows[False]):.2f} s  {told}")
    finally:
        kernel.close()


Rows = dict[bool, list[tuple[float, float]]]


def alternating(kernel: Kernel, source: str, times: int) -> Rows:
    """Return wall and CPU time, in s, of each run without and with the watch, in turn; each is a new cell."""
    # in one kernel: two processes of the same cells differ by more than the watch costs
    took: Rows = {False: [], True: []}
    for turn in range(times):
        for watched in (False, True) if turn % 2 else (True, False):
            kernel.run("%profile_notebook" if watched else "%profile_notebook off")
            wall, cell_cpu, other_cpu = kernel.run(source, uuid.uuid4().hex)
            took[watched].append((wall, cell_cpu + other_cpu))
    return took


def interval_of_pairs(rows: Rows, clock: int) -> str:
    """Format the median ratio of neighbouring runs, and its interval."""
    watched, bare = (np.array(rows[way])[:, clock] for way in (True, False))
    middle, low, high = median_interval(watched / bare)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main()
