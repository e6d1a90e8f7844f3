"""What ``%profile_notebook`` costs a cell: short cells, and longer ones of several kinds, with and without.

python -m benchmarks.notebook_watch [--cells 300] [--rounds 3]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import threading
import time

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
    """Print the cost, each with and without in turn: wall time, CPU time, and that of the watch's thread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    shell = InteractiveShell.instance()
    shell.run_cell("%load_ext notebook_prof")
    pairs = alternating(shell, "x = 1", options.cells, options.rounds)
    for clock in ("wall", "cpu"):
        bare, watched = (1e3 * pairs[with_it, clock] / options.cells for with_it in (False, True))
        print(f"{options.cells} x `x = 1`, {clock} a cell: {bare:.2f} -> {watched:.2f} ms")
    for name, source in LONG.items():
        shell.run_cell(source)
        pairs = alternating(shell, source, 1, options.rounds)
        ratios = " ".join(f"{c} x {pairs[True, c] / pairs[False, c]:.3f}" for c in ("wall", "cpu"))
        own = f"thread {100 * pairs[True, 'own'] / pairs[True, 'wall']:.2f} % of wall"
        print(f"{name:12} {pairs[False, 'wall']:.2f} s  {ratios}  {own}")


def alternating(
    shell: InteractiveShell, source: str, cells: int, rounds: int
) -> dict[tuple[bool, str], float]:
    """Return the medians, in s, without and with the watch; the order changes from round to round."""
    took: dict[tuple[bool, str], list[float]] = {}
    for k in range(rounds):
        for watched in (False, True) if k % 2 else (True, False):
            if watched:
                with contextlib.redirect_stdout(None):
                    shell.run_line_magic("profile_notebook", "")
            wall, cpu, own = time.perf_counter(), time.process_time(), own_s()
            for _ in range(cells):
                shell.run_cell(source, store_history=True)
            numbers = {
                "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "own": own_s() - own
            }  # fmt: skip
            for clock, number in numbers.items():
                took.setdefault((watched, clock), []).append(number)
            if watched:
                shell.run_line_magic("profile_notebook", "off")
    return {key: statistics.median(numbers) for key, numbers in took.items()}


def own_s() -> float:
    """Return the CPU time of the watch's thread."""
    threads = [one.ident for one in threading.enumerate() if one.name == "notebook_prof watch"]
    return sum(time.clock_gettime(time.pthread_getcpuclockid(one)) for one in threads if one is not None)


if __name__ == "__main__":
    main()
