"""Rules for a host that cannot keep up: launches, small operators, an unfused optimizer."""

from __future__ import annotations

from typing import Final

from ...trace import DEVICE_CATEGORIES
from ...units import format_count
from ..verdict.claims import Source, cite_share, say
from ..work.optimizer_steps import OPTIMIZER_STEP
from .context import COSTLY, Advice, AdviceContext, evidence, named

_IDLE: Final = 0.1
_MANY: Final = 50
_UNFUSED: Final = 0.05
_MOMENTS: Final = frozenset({"aten::lerp_", "aten::addcdiv_", "aten::addcmul_"})
"""Operators that tell Adam from plain SGD, which gains nothing from fusion."""
FUSED: Final = 0.7
"""Share of Adam's step time that fused=True saves on a CPU; see ``benchmarks/advice.py``."""


def launch_bound(run: AdviceContext) -> Advice | None:
    """Find devices that wait for the host to launch work."""
    idle = run.idle
    if not len(idle):
        return None
    devices = max(idle["device"].nunique(), 1)
    spent = int((idle["host_ns"] + idle["launch_ns"]).sum()) // devices
    if spent < _IDLE * run.total_ns:
        return None
    causes = ("host-bound", "launch-latency")
    waited, window = (
        Source("idle_causes", column, {"cause": cause}, {"window": run.idle_window})
        for column, cause in (("idle_ns", causes), ("window_ns", causes[0]))
    )
    return Advice(
        "launch-bound",
        say(
            "The device waits for the host ",
            cite_share(waited.evaluate(run.trace) / window.evaluate(run.trace), waited, window),
            " of the time.",
        ),
        "Give it more work at once: a larger batch, torch.compile (mode='reduce-overhead' uses CUDA graphs), "
        "fused or foreach optimizers, and less Python between operators.",
        gain_ns=spent,
        bound=True,
        what_if={"scale": {"*": 0, **dict.fromkeys(_on_devices(run), 1)}, "launch": 0},
        select={"category": "launch"},
        **evidence(run.host, run.host.among("category", ("launch",))),
    )


def _on_devices(run: AdviceContext) -> list[str]:
    """Return `what_if` filters that match all of a run's device work."""
    work = run.device
    return [f"category={name}" for name in DEVICE_CATEGORIES if work.among("category", (name,)).any()]


def small_operators(run: AdviceContext) -> str:
    """Say why small operators are not judged; empty if there are few, or recording hardly slowed them."""
    # There is no rule for small operators: where they bound the steps, recording costs as much time as they
    # do, so a saving cannot be predicted. For a loop over the rows of a tensor, the predicted saving was half
    # of the actual one.
    if len(run.device.rows) or run.facts.calls < _MANY * run.step_count or run.slowdown <= COSTLY:
        return ""
    return (
        f"recorded code ran about {run.slowdown:.1f} times as long as plain code, and that time lies in "
        "small operators: they cannot be judged from this recording"
    )


def unfused_optimizer(run: AdviceContext) -> Advice | None:
    """Find an optimizer that steps parameter by parameter."""
    spent = run.facts.phase_ns.get("optimizer", 0)
    if spent / run.total_ns < _UNFUSED:
        return None
    host = run.host
    of_optimizer = host.among("phase", ("optimizer",)) & host.among("category", ("operator",))
    calls = int(of_optimizer.sum())
    joined = of_optimizer & named(host, ("_foreach_", "_fused_", "fused_adam", "multi_tensor"))
    if calls < _MANY * run.step_count or joined.any():
        return None
    found = evidence(host, of_optimizer)
    took = Source("phases", "host_ns", {"phase": "optimizer"}, run.looking)
    finding = say(
        "The optimizer takes ",
        run.each(spent, took),
        run.a_step,
        run.share(spent, took),
        f", in {format_count(calls // run.step_count)} operators{run.a_step}.",
    )
    if len(run.device.rows):
        idle = run.idle[(run.idle["phase"] == "optimizer").to_numpy()] if len(run.idle) else run.idle
        gain = int((idle["host_ns"] + idle["launch_ns"]).sum()) // max(run.idle["device"].nunique(), 1)
        return Advice(
            "unfused-optimizer",
            finding,
            "Step all parameters at once: fused=True in torch.optim's Adam, AdamW and SGD. Without "
            f"foreach=False the default does so too.{_trial(run)}",
            gain_ns=min(gain, spent),
            bound=True,
            what_if={"phase": {"optimizer": 0}},
            select={"phase": "optimizer"},
            **found,
        )
    names = {str(word) for word in host.slices["name"].iloc[found["rows"]].astype("str").unique()}
    if not names & _MOMENTS:
        return None
    if why := small_operators(run):
        run.withheld["unfused-optimizer"] = why
        return None
    return Advice(
        "unfused-optimizer",
        finding,
        "Step all parameters at once: fused=True in torch.optim's Adam and AdamW; without an accelerator it "
        f"is not the default.{_trial(run)}",
        gain_ns=int((spent - run.cost_ns(host.among("phase", ("optimizer",)))) * FUSED),
        select={"phase": "optimizer"},
        **found,
    )


def _trial(run: AdviceContext) -> str:
    """Return the call that tries a fused step, if PyTorch's range around the step was recorded."""
    names = [str(name) for name in run.trace.slices["name"].cat.categories]
    steps = [name for name in names if OPTIMIZER_STEP.fullmatch(name)]
    return f" p.replay({steps[0]!r}, 'fused') tries it." if len(steps) == 1 else ""
