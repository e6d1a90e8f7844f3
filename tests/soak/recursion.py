"""Recursive code, profiled cell after profiled cell: no kernel may die.

``python -m tests.soak.recursion [--engine thread] [--depth 3000] [--cells 500]``. A thread that follows
`f_back` while a collection of garbage may begin ended one cell in eight by SIGSEGV at depth 3,000 on Python
3.11. Kernels run with `faulthandler`, so that a death names its thread.
"""

from __future__ import annotations

import argparse
import queue
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from jupyter_client.manager import start_new_kernel

CELLS_PER_KERNEL: Final = 25
_CALLS: Final = 1_200_000
"""Of the recursive function in a cell."""
_SETUP: Final = """
%load_ext notebook_prof
import faulthandler, sys
faulthandler.enable(open("fault.log", "w"))
sys.setrecursionlimit(60_000)
def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)
"""


def ends(manager: Any, client: Any, code: str) -> bool:
    """Run a cell; whether it has ended, as it does not where the kernel has died."""
    client.execute(code)
    while True:
        try:
            return bool(client.get_shell_msg(timeout=1)["content"]["status"] == "ok")
        except queue.Empty:
            if not manager.is_alive():
                return False


def run(engine: str, depth: int, cells: int) -> tuple[int, int]:
    """Run profiled cells in fresh kernels, some in each; return how many cells ran and kernels died."""
    ran = dead = 0
    cell = f"%%profile p --quiet --no-history --engine {engine}\n"
    cell += f"for q in range({_CALLS // depth}): deep({depth})"
    while ran < cells:
        with tempfile.TemporaryDirectory() as folder:
            manager, client = start_new_kernel(kernel_name="python3", cwd=folder)
            try:
                alive = ends(manager, client, _SETUP)
                for _ in range(min(CELLS_PER_KERNEL, cells - ran) if alive else 0):
                    ran += 1
                    if not ends(manager, client, cell):
                        alive = False
                        break
                if not alive:
                    dead += 1
                    print((Path(folder) / "fault.log").read_text()[:2_000], flush=True)
            finally:
                client.stop_channels()
                manager.shutdown_kernel(now=True)
        print(f"{engine}, depth {depth}: {ran} cells, {dead} kernels died", flush=True)
    return ran, dead


def main() -> int:
    """Run all that is asked for; 1 where a kernel died."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.recursion", description=__doc__)
    parser.add_argument("--engine", nargs="+", default=["thread", "py-spy"])
    parser.add_argument("--depth", nargs="+", type=int, default=[900, 3_000])
    parser.add_argument("--cells", type=int, default=500)
    options = parser.parse_args()
    outcomes = [run(engine, depth, options.cells) for engine in options.engine for depth in options.depth]
    return int(any(dead for _, dead in outcomes))


if __name__ == "__main__":
    sys.exit(main())
