"""The host does not keep up: launches, small operators, an optimizer of many pieces."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...units import format_count, format_ns, format_share
from ..facts import TINY_NS
from .finding import Finding, Run, evidence, named

_IDLE: Final = 0.1
_OVERHEAD: Final = 0.3
_MANY: Final = 50
_UNFUSED: Final = 0.05


def launch_bound(run: Run) -> Finding | None:
    """Devices wait for the host to launch work."""
    idle = run.idle
    if not len(idle):
        return None
    devices = max(idle["device"].nunique(), 1)
    spent = int((idle["host_ns"] + idle["launch_ns"]).sum()) // devices
    share = spent / run.total_ns
    if share < _IDLE:
        return None
    kernels = run.device.among("category", ("kernel",))
    short = (run.device.end - run.device.ts)[kernels] < TINY_NS
    rows, count = evidence(run.host, run.host.among("category", ("launch",)))
    return Finding(
        "launch-bound",
        f"The device waits for the host {format_share(share)} of the time, in "
        f"{format_count(len(idle))} gaps; "
        f"{format_share(float(short.mean()) if len(short) else 0.0)} of its kernels are shorter than "
        f"{format_ns(TINY_NS)}.",
        "Give it more work at once: a larger batch, torch.compile (mode='reduce-overhead' uses CUDA graphs), "
        "fused or foreach optimizers, and less Python between operators.",
        spent,
        select={"category": "launch"},
        rows=rows,
        count=count,
    )


def small_operators(run: Run) -> Finding | None:
    """Without a device: the time goes to Python and dispatch around operators that do little."""
    facts = run.facts
    if len(run.device.rows) or facts.calls < _MANY * run.step_count or facts.top_is_python:
        return None
    outside = facts.total_ns - facts.operator_ns
    outside -= facts.phase_ns.get("data", 0) + facts.phase_ns.get("communication", 0)
    spent = min(max(outside, 0) + facts.tiny_ns, facts.total_ns)
    share = spent / run.total_ns
    if share < _OVERHEAD:
        return None
    tiny = run.host.among("category", ("operator",)) & (run.host.self_ns < TINY_NS)
    rows, count = evidence(run.host, tiny)
    return Finding(
        "small-operators",
        f"{format_share(share)} of the time is Python and dispatch around "
        f"{format_count(facts.calls // run.step_count)} operators a step, "
        f"{format_share(count / max(facts.calls, 1))} of which do less than {format_ns(TINY_NS)} of work.",
        "Do more in each call: operate on whole tensors in place of loops over their parts, use "
        "torch.compile, or a larger batch.",
        spent,
        select={"category": "operator"},
        rows=rows,
        count=count,
    )


def unfused_optimizer(run: Run) -> Finding | None:
    """The optimizer steps parameter by parameter."""
    spent = run.facts.phase_ns.get("optimizer", 0)
    if spent / run.total_ns < _UNFUSED:
        return None
    host = run.host
    mine = host.among("phase", ("optimizer",)) & host.among("category", ("operator",))
    calls = int(mine.sum())
    joined = mine & named(host, ("_foreach_", "_fused_", "fused_adam", "multi_tensor"))
    if calls < _MANY * run.step_count or joined.any():
        return None
    if len(run.idle):
        idle = run.idle[(run.idle["phase"] == "optimizer").to_numpy()]
        gain = int((idle["host_ns"] + idle["launch_ns"]).sum()) // max(run.idle["device"].nunique(), 1)
    else:
        gain = max(spent - int(host.self_ns[mine & (host.self_ns >= TINY_NS)].sum()), 0)
    rows, count = evidence(host, mine)
    return Finding(
        "unfused-optimizer",
        f"The optimizer takes {format_share(spent / run.total_ns)} of the time, in "
        f"{format_count(calls // run.step_count)} operators a step.",
        "Step all parameters at once: fused=True (or foreach=True) in torch.optim's Adam, AdamW and SGD.",
        int(np.minimum(gain, spent)),
        select={"phase": "optimizer"},
        rows=rows,
        count=count,
    )
