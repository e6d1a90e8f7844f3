"""The host does not keep up: launches, small operators, an optimizer of many pieces."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ...units import format_count, format_ns, format_share
from ..claims import Claim
from ..facts import TINY_NS
from .finding import COSTLY, Finding, Run, evidence, named

_IDLE: Final = 0.1
_OVERHEAD: Final = 0.3
_MANY: Final = 50
_UNFUSED: Final = 0.05
_PIECES: Final = 100
"""So often a step an operator runs on pieces of something."""
_MOMENTS: Final = frozenset({"aten::lerp_", "aten::addcdiv_", "aten::addcmul_"})
"""Operators of Adam; the ones of plain SGD gain nothing from being fused."""
FUSED: Final = 0.7
"""Part of the time of Adam's step that fused=True saves on a CPU; ``benchmarks/advice.py``."""


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
        bound=True,
        select={"category": "launch"},
        rows=rows,
        count=count,
    )


def small_operators(run: Run) -> Finding | None:
    """Without a device: one operator is called on small pieces, again and again, in each step."""
    facts, host = run.facts, run.host
    if len(run.device.rows) or facts.calls < _MANY * run.step_count or not len(facts.steps):
        return None
    operators = host.among("category", ("operator",))
    forward = operators & ~host.among("phase", ("optimizer", "backward", "data"))
    codes = host.codes("name")[forward]
    if not len(codes):
        return None
    often = int(np.bincount(codes).argmax())
    pieces = int((codes == often).sum()) // run.step_count
    outside = facts.total_ns - facts.operator_ns
    outside -= facts.phase_ns.get("data", 0) + facts.phase_ns.get("communication", 0)
    spent = min(max(outside, 0) + facts.tiny_ns, facts.total_ns)
    if pieces < _PIECES or spent < _OVERHEAD * run.total_ns or host.among("category", ("module",)).any():
        return None
    if _withheld(run, "small-operators"):
        return None
    name = str(host.slices["name"].cat.categories[often])
    asked = {**run.looking, "step": tuple(facts.steps["step"].tolist())}
    rows, count = evidence(run.threads, run.threads.codes("name") == often)
    return Finding(
        "small-operators",
        f"{format_share(spent / run.total_ns)} of {run.whole} is Python and dispatch around small operators: "
        f"{name} alone runs {format_count(pieces)} times a step.",
        "Do more in each call: operate on whole tensors in place of a loop over their parts.",
        max(spent - run.cost_ns(), 0),
        claims=(Claim(format_count(pieces), "operators", {"name": name}, "count", count, None, asked),),
        select={"name": name},
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
    rows, count = evidence(host, mine)
    finding = (
        f"The optimizer takes {format_share(spent / run.total_ns)} of {run.whole}, in "
        f"{format_count(calls // run.step_count)} operators a step."
    )
    claim = Claim(format_share(spent / run.total_ns), "phases", {"phase": "optimizer"}, "host_ns", spent)
    claims = (replace(claim, arguments=run.looking),)
    if len(run.device.rows):
        idle = run.idle[(run.idle["phase"] == "optimizer").to_numpy()] if len(run.idle) else run.idle
        gain = int((idle["host_ns"] + idle["launch_ns"]).sum()) // max(run.idle["device"].nunique(), 1)
        return Finding(
            "unfused-optimizer",
            finding,
            "Step all parameters at once: fused=True in torch.optim's Adam, AdamW and SGD. Without "
            "foreach=False the default does so too.",
            min(gain, spent),
            bound=True,
            claims=claims,
            select={"phase": "optimizer"},
            rows=rows,
            count=count,
        )
    names = {str(word) for word in host.slices["name"].iloc[rows].astype("str").unique()}
    if not names & _MOMENTS or _withheld(run, "unfused-optimizer"):
        return None
    return Finding(
        "unfused-optimizer",
        finding,
        "Step all parameters at once: fused=True in torch.optim's Adam and AdamW; without an accelerator it "
        "is not the default.",
        int((spent - run.cost_ns(host.among("phase", ("optimizer",)))) * FUSED),
        claims=claims,
        select={"phase": "optimizer"},
        rows=rows,
        count=count,
    )


def _withheld(run: Run, rule: str) -> bool:
    """Whether recording made small operators look too long to judge them; said in `withheld`."""
    if run.slowdown <= COSTLY:
        return False
    run.withheld[rule] = (
        f"recorded steps ran about {run.slowdown:.1f} times as long as plain ones, and that time lies in "
        "small operators: they cannot be judged from this recording"
    )
    return True
