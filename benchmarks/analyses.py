"""How long each analysis takes on a training run of 10 M slices, and how much memory it needs at its peak.

Seconds are the process's CPU time (what other programs do at the same time does not count) and elapsed time;
memory is the largest of what NumPy and Python held during the call, as a multiple of the table of slices.
"""

from __future__ import annotations

import gc
import inspect
import time
import tracemalloc
from typing import Any

import numpy as np

from notebook_prof import analysis
from notebook_prof.trace import Trace, TraceBuilder

TITLE = "Analyses"
SLICES = 10_000_000
STEPS = 200
_PHASES = ("data", "forward", "backward", "optimizer")


def training(slices: int = SLICES, steps: int = STEPS) -> Trace:
    """A drawn run: operators three deep on two threads, launches, kernels on two streams, allocations."""
    each = slices // 5  # operator around operator around launch, kernel, operator of autograd
    rng = np.random.default_rng(0)
    names = [f"aten::op_{number}" for number in range(300)]
    modules = [f"layers.{number // 8}.part_{number % 8}" for number in range(160)]
    at = np.arange(each, dtype=np.int64) * 10_000
    phase = np.minimum(np.arange(each) * steps % each * len(_PHASES) // each, len(_PHASES) - 1)
    words = np.array(names, dtype=object)[rng.integers(0, len(names), each)]
    b = TraceBuilder(metadata={"devices": ["NVIDIA H100"]})
    main, autograd = b.track("main", tid=1), b.track("autograd", tid=2)
    streams = [b.track("", "stream", device=0, stream=number) for number in (7, 20)]
    phases = np.array(_PHASES, dtype=object)[phase]
    module = np.array(modules, dtype=object)[rng.integers(0, len(modules), each)]
    row: dict[str, Any] = {"phase": phases, "module": module}
    b.slices(ts=at, dur=np.full(each, 8_000), name=words, track=main, **row)
    b.slices(ts=at + 1_000, dur=np.full(each, 4_000), name="aten::inner", track=main)
    calls = b.slices(
        ts=at + 2_000, dur=np.full(each, 1_000), name="cudaLaunchKernel", category="launch", track=main
    )
    b.slices(ts=at + 500, dur=np.full(each, 5_000), name="backward", track=autograd, phase="backward")
    kind = np.where(rng.random(each) < 0.05, "collective", "kernel").astype(object)
    work = b.slices(
        ts=at + 4_000,
        dur=rng.integers(1_000, 9_000, each),
        name=np.array([f"kernel_{number}" for number in range(500)], dtype=object)[
            rng.integers(0, 500, each)
        ],
        category=kind,
        track=np.array(streams)[(kind == "collective").astype(int)],
        device=0,
    )
    b.flows("launch", calls, work)
    edges = at[:: each // steps][:steps]
    b.steps(np.arange(len(edges)), edges, np.diff(np.append(edges, at[-1] + 10_000)), "loop")
    events = each // 2
    size = np.tile([4096, -4096], events // 2 + 1)[:events]
    b.allocations(
        ts=at[:events] * 2 + 3_000,
        addr=np.arange(events) // 2 + 1,
        bytes=size,
        device=0,
        allocated=np.cumsum(size),
        reserved=2**20,
        track=main,
    )
    return b.seal()


def run() -> list[dict[str, Any]]:
    """Rows: analysis, slices, seconds, peak of memory as a multiple of the slices table."""
    trace = training()
    table = int(trace.slices.memory_usage(deep=False).sum())
    rows = []
    for name in sorted(analysis.__all__):
        function = getattr(analysis, name)
        if not inspect.isfunction(function) or not _takes_a_trace(function):
            continue
        gc.collect()
        start, spent = time.perf_counter(), time.process_time()
        function(trace)
        seconds, spent = time.perf_counter() - start, time.process_time() - spent
        gc.collect()
        tracemalloc.start()
        function(trace)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append(
            {
                "analysis": name,
                "slices": len(trace.slices),
                "CPU seconds": round(spent, 2),
                "seconds": round(seconds, 2),
                "peak × slices": round(peak / table, 2),
            }
        )
    return rows


def _takes_a_trace(function: Any) -> bool:
    first, *others = inspect.signature(function).parameters.values()
    return first.name == "trace" and all(
        one.default is not one.empty for one in others if one.kind != one.VAR_KEYWORD
    )
