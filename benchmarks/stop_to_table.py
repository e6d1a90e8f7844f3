"""From the stop of a recording to the first table: our columns against torch's ``key_averages()``.

Every measurement runs in a fresh process. The events are real: small matrix products, so that one step
of the loop is a few events; the recording itself is not timed. Both sides start from a stopped
profiler and end with a table of operators:

- torch: ``profiler.key_averages()``;
- ours: raw result → columns → Trace (nested, phases, flows) → ``operators(trace)``.

Run ``python -m benchmarks.stop_to_table [--events 10000 100000 1000000] [--repeat 1]``. Prints a table in
Markdown and one line of JSON. Times are CPU seconds of the process; memory is the growth of the resident
set's peak from the stop to the table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

TITLE = "From stop to the first table"
SIZES = (10_000, 100_000, 1_000_000)
SIDES = ("key_averages", "ours")


class PeakMemory:
    """Peak of the resident set while it is open, sampled every 5 ms."""

    def __enter__(self) -> PeakMemory:
        self._process = psutil.Process()
        self.start = self.peak = self._process.memory_info().rss
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.peak = max(self.peak, self._process.memory_info().rss)

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
        self.peak = max(self.peak, self._process.memory_info().rss)

    @property
    def extra_mb(self) -> float:
        """How far it rose above the start."""
        return (self.peak - self.start) / 1e6


def events_loop(count: int) -> None:
    """Run until about `count` profiler events have been made."""
    import torch

    a = torch.randn(8, 8, requires_grad=True)
    for _ in range(count // 50):
        ((a @ a).relu() @ a).sum().backward()


def measure(side: str, count: int) -> dict[str, Any]:
    """One measurement, in this process."""
    import torch

    torch.set_num_threads(1)
    make = _torchs if side == "key_averages" else _ours
    table = make(count)
    with PeakMemory() as memory:
        wall, cpu = time.perf_counter(), time.process_time()
        events, rows = table()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "side": side,
        "events": events,
        "rows": rows,
        "cpu_s": round(cpu, 4),
        "wall_s": round(wall, 4),
        "extra_mb": round(memory.extra_mb, 1),
    }


def _torchs(count: int) -> Callable[[], tuple[int, int]]:
    import torch

    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    events_loop(count)
    profiler.stop()

    def table() -> tuple[int, int]:
        rows = profiler.key_averages()
        return len(profiler.events()), len(rows)

    return table


def _ours(count: int) -> Callable[[], tuple[int, int]]:
    from notebook_prof.analysis import operators
    from notebook_prof.collectors.base import Recording
    from notebook_prof.collectors.options import CollectorOptions
    from notebook_prof.collectors.torch.collector import TorchCollector
    from notebook_prof.trace import TraceBuilder

    options = CollectorOptions(shapes=False, memory=False, modules=False)
    recording = Recording([TorchCollector(options)])
    recording.warm()
    recording.start()
    events_loop(count)
    recording.stop()

    def table() -> tuple[int, int]:
        builder = TraceBuilder()
        recording.result(builder)
        trace = builder.seal()
        return len(trace.slices), len(operators(trace))

    return table


def compare(count: int, repeat: int) -> dict[str, Any]:
    """Both sides at one size, each in fresh processes; the best of `repeat`."""
    best: dict[str, Any] = {"asked_events": count}
    for _ in range(repeat):
        for side in SIDES:
            command = [
                sys.executable,
                "-m",
                "benchmarks.stop_to_table",
                "--side",
                side,
                "--events",
                str(count),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            result = json.loads(done.stdout.splitlines()[-1])
            if side not in best or result["cpu_s"] < best[side]["cpu_s"]:
                best[side] = result
    best["ratio"] = round(best["key_averages"]["cpu_s"] / best["ours"]["cpu_s"], 1)
    return best


def run() -> list[dict[str, Any]]:
    """Rows: events, CPU seconds and extra memory of both sides, ratio."""
    return [_flat(compare(count, 1)) for count in SIZES]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    theirs, ours = row["key_averages"], row["ours"]
    return {
        "events": ours["events"],
        "key_averages() s": theirs["cpu_s"],
        "ours s": ours["cpu_s"],
        "times faster": row["ratio"],
        "key_averages() extra MB": theirs["extra_mb"],
        "ours extra MB": ours["extra_mb"],
    }


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.side:
        print(json.dumps(measure(options.side, options.events[0])))
        return []
    results = [compare(count, options.repeat) for count in options.events]
    rows = [_flat(row) for row in results]
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(f"{value:,}" for value in row.values()) + " |")
    print(json.dumps({"stop_to_table": results}))
    return results


if __name__ == "__main__":
    main()
