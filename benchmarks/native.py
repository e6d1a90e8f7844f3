"""How long a saved recording of a million slices takes to open, against the Chrome trace of the same.

Slices of 1,000 names on six tracks, a third of them kernels with launches, with shapes, modules, phases
and steps, and 100,000 allocations. Medians of fresh reads with the file in the page cache; ``pickle`` of
the same tables is there for scale only: it is neither safe nor stable.
"""

from __future__ import annotations

import pickle
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from notebook_prof.readers import read_trace
from notebook_prof.trace import TABLES, Coded, Trace, TraceBuilder
from notebook_prof.writers.chrome import write_chrome
from notebook_prof.writers.native import write_native

TITLE = "Saving and reopening"
SLICES = 1_000_000
LIMIT_S = 0.5
ROUNDS = 5


def made(count: int = SLICES) -> Trace:
    """A trace of about this many slices."""
    rng = np.random.default_rng(0)
    builder = TraceBuilder()
    threads = [builder.track(f"thread {i}", pid=1, tid=i) for i in range(4)]
    streams = [builder.track(f"stream {i}", "stream", device=0, stream=i) for i in range(2)]
    names = [f"aten::operator_{i}" for i in range(1000)]
    shapes = [f"[[{i}, 64], [64, {i}]]" for i in range(300)]
    modules = [f"layers.{i}.attention" for i in range(96)]
    host, device = count * 2 // 3, count // 3
    rows = builder.slices(
        ts=np.cumsum(rng.integers(100, 4000, host)),
        dur=rng.integers(0, 9000, host),
        track=rng.choice(threads, host),
        name=Coded(rng.integers(0, 1000, host), names),
        phase=Coded(rng.integers(-1, 3, host), ["forward", "backward", "optimizer"]),
        shapes=Coded(rng.integers(-1, 300, host), shapes),
        module=Coded(rng.integers(-1, 96, host), modules),
        correlation=np.where(rng.random(host) < 0.5, rng.integers(0, count, host), -1),
    )
    work = builder.slices(
        ts=np.cumsum(rng.integers(200, 8000, device)),
        dur=rng.integers(0, 200, device),
        track=rng.choice(streams, device),
        name=Coded(rng.integers(0, 200, device), [f"kernel_{i}<float, {i}>" for i in range(200)]),
        category="kernel",
        device=0,
        stream=rng.integers(0, 2, device),
    )
    builder.flows("launch", rows[:device], work)
    builder.steps(np.arange(100), np.arange(100) * 10_000_000, np.full(100, 10_000_000), "mark")
    size = rng.integers(1, 1 << 20, 100_000) * 512
    builder.allocations(
        ts=np.sort(rng.integers(0, 10**9, 100_000)),
        addr=rng.integers(0, 1 << 40, 100_000),
        bytes=size,
        device=0,
        allocated=np.cumsum(size),
        reserved=1 << 40,
        track=threads[0],
    )
    return builder.seal()


def run() -> list[dict[str, Any]]:
    """Write and open each format."""
    trace = made()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, write, read, rounds in (
            ("native folder", write_native, read_trace, ROUNDS),
            ("native zip", write_native, read_trace, ROUNDS),
            ("pickle", _pickle, _unpickle, ROUNDS),
            ("Chrome JSON, gzip", write_chrome, read_trace, 1),
        ):
            path = Path(temporary) / {"native zip": "run.nbprof.zip", "Chrome JSON, gzip": "run.json.gz"}.get(
                name, f"run {name}"
            )
            written = _seconds(lambda: write(trace, path), 1)  # noqa: B023
            opened = _seconds(lambda: read(path), rounds)  # noqa: B023
            within = "yes" if opened < LIMIT_S else "no"
            rows.append(
                {
                    "format": name,
                    "slices": len(trace),
                    "MB": round(_size(path) / 1e6, 1),
                    "write, s": round(written, 2),
                    "open, s": round(opened, 3),
                    f"within {LIMIT_S} s": within if name.startswith("native") else "–",
                }
            )
    return rows


def _seconds(action: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size


def _pickle(trace: Trace, path: Path) -> None:
    tables = {table.name: getattr(trace, table.name) for table in TABLES}
    path.write_bytes(pickle.dumps(tables, protocol=5))


def _unpickle(path: Path) -> Trace:
    return Trace(pickle.loads(path.read_bytes()))
