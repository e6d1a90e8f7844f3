"""What is done once, and was recorded all the same."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...trace import length, union
from ...units import format_ns, format_share
from .finding import Finding, Run, evidence, named

_COMPILERS: Final = (
    *("_compile.compile", "compile_fx", "compile_to_module", "backend_compile", "async_compile"),
    *("triton/compiler", "cumoduleload", "cudamoduleload", "culibraryload", "dynamo_timed", "compile_inner"),
)
_SLOW: Final = 1.5
_STEPS: Final = 4
_COMPILES: Final = 0.01


def compilation(run: Run) -> Finding | None:
    """Something was compiled inside the window."""
    host = run.host
    compiles = named(host, _COMPILERS)
    spent = length(union(host.ts[compiles], host.end[compiles]))
    if spent < _COMPILES * run.total_ns:
        return None
    rows, count = evidence(host, compiles)
    steps = np.unique(host.ints("step")[compiles])
    return Finding(
        "compilation",
        f"{format_ns(spent)}, {format_share(spent / run.total_ns)} of the time, went to compiling and "
        "loading code inside the recorded window.",
        "Record later (--steps 10:20) for figures of the steady state; if it happens again and again, look "
        "for changing shapes: torch.compile(dynamic=True), TORCH_LOGS=recompiles.",
        spent,
        select={"step": [int(number) for number in steps if number >= 0]},
        rows=rows,
        count=count,
    )


def warm_up(run: Run) -> Finding | None:
    """The first recorded step is much longer than the others."""
    steps = run.facts.steps.sort_values("step")
    dur = steps["dur"].to_numpy()
    if len(dur) < _STEPS:
        return None
    usual = float(np.median(dur[1:]))
    if dur[0] < _SLOW * usual or dur[0] < dur[1:].max():
        return None
    number = int(steps["step"].iloc[0])
    extra = int(dur[0] - usual)
    rows, count = evidence(run.host, run.host.ints("step") == number)
    return Finding(
        "warm-up",
        f"Step {number}, the first recorded one, took {format_ns(int(dur[0]))}; the others take "
        f"{format_ns(usual)}.",
        "Leave one-time costs out of the figures: record from a later step on, or give the schedule more "
        "warm-up steps.",
        extra,
        select={"step": [number]},
        rows=rows,
        count=count,
    )
