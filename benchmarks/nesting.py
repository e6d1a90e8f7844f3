"""How long it takes to nest slices: depth, parent and self time of 1 M and 10 M."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from notebook_prof.trace import nest

TITLE = "Nesting"


def shapes(n: int) -> dict[str, tuple[Any, Any, Any]]:
    """Slices as they come: one flat stream, one root over everything, operators, 64 tracks at random."""
    rng = np.random.default_rng(0)
    at = np.arange(n, dtype=np.int64) * 10
    zero = np.zeros(n, np.int64)
    position = at // 10 % 10
    tree = np.where(position == 0, 99, np.where(position % 3 == 1, 25, 5))
    return {
        "flat stream": (zero, at, np.full(n, 5)),
        "one root over all": (zero, np.append(0, at[:-1] + 1), np.append(n * 10 + 10, np.full(n - 1, 5))),
        "operators, depth 3": (zero, at, tree),
        "64 tracks, partial overlaps": (
            rng.integers(0, 64, n),
            np.sort(rng.integers(0, 100 * n, n)),
            rng.integers(1, 10**4, n),
        ),
    }


def run() -> list[dict[str, Any]]:
    """Rows: slices, shape, seconds, nanoseconds a slice."""
    rows = []
    for n in (1_000_000, 10_000_000):
        for name, (track, ts, dur) in shapes(n).items():
            start = time.perf_counter()
            depth = nest(track, ts, dur).depth
            seconds = time.perf_counter() - start
            rows.append(
                {
                    "slices": n,
                    "shape": name,
                    "depth": int(depth.max()) + 1,
                    "seconds": round(seconds, 2),
                    "ns a slice": round(1e9 * seconds / n),
                }
            )
    return rows
