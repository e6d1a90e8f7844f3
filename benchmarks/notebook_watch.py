"""What ``%profile_notebook`` costs a cell: short cells, and longer ones of several kinds, with and without.

python -m benchmarks.notebook_watch [--cells 300] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from IPython.core.interactiveshell import InteractiveShell

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
    """Print the cost, each with and without in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu", action="store_true", help="CPU time of the process, for a busy machine")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    shell = InteractiveShell.instance()
    shell.run_cell("%load_ext notebook_prof")
    short = alternating(shell, lambda: shorts(shell, options.cells, clock), options.rounds)
    print(f"`x = 1`, a cell: {summary([1e3 * a for a in short[0]], [1e3 * b for b in short[1]], 'ms')}")
    for name, source in LONG.items():
        shell.run_cell(source)
        bare, watched = alternating(shell, lambda source=source: one(shell, source, clock), options.rounds)  # type: ignore[misc]
        ratio = statistics.median(b / a for a, b in zip(bare, watched, strict=True))
        print(f"{name:12} {summary(bare, watched, 's')}  x {ratio:.3f}")


def shorts(shell: InteractiveShell, cells: int, clock: Callable[[], float]) -> float:
    """Return the mean time of a short cell, in s."""
    begun = clock()
    for _ in range(cells):
        shell.run_cell("x = 1", store_history=True)
    return (clock() - begun) / cells


def one(shell: InteractiveShell, source: str, clock: Callable[[], float]) -> float:
    """Return the time of one cell, in s."""
    begun = clock()
    shell.run_cell(source, store_history=True)
    return clock() - begun


def alternating(
    shell: InteractiveShell, measure: Callable[[], float], rounds: int
) -> tuple[list[float], list[float]]:
    """Measure without and with the watch, in turn."""
    bare, watched = [], []
    for _ in range(rounds):
        bare.append(measure())
        shell.run_line_magic("profile_notebook", "")
        watched.append(measure())
        shell.run_line_magic("profile_notebook", "off")
    return bare, watched


def summary(bare: list[float], watched: list[float], unit: str) -> str:
    """Return both medians as text."""
    a, b = statistics.median(bare), statistics.median(watched)
    return f"{a:.3f} -> {b:.3f} {unit} (+{b - a:.3f})"


if __name__ == "__main__":
    main()
