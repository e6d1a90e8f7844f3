"""What bounds this run, in one sentence with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from ..trace import Trace
from ..units import format_count, format_items, format_ns, format_share
from .facts import TINY_NS, Facts, gather
from .scope import WindowLike, sharing
from .verdict_lines import short, supporting_lines
from .verdict_python import python_verdict
from .verdict_runtime import runtime_verdict

WAITING: Final = 0.25
"""Share of the time in data, communication or synchronisation from which a run is bound by it."""
BUSY_DEVICE: Final = 0.7
TINY: Final = 0.5


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """What bounds a run.

    Attributes
    ----------
    kind : str
        ``input-bound``, ``communication-bound``, ``sync-bound``, ``launch-bound``, ``overhead-bound``,
        ``compute-bound``, ``python-bound``, ``library-bound``, ``wait-bound`` or ``nothing-recorded``.
    sentence : str
        The verdict in words.
    share : float
        Of the measured time, 0–1: what `kind` takes.
    evidence : mapping of str to number or str
        What it rests on; units are in the names.
    select : mapping
        A selection that shows it: ``p.selection.update(**p.verdict.select)``.
    lines : tuple of str
        The verdict in at most five lines: sentence, steps, phases, what ran most, memory.
    """

    kind: str
    sentence: str
    share: float
    evidence: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    select: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines or (self.sentence,))

    __repr__ = __str__


@sharing
def verdict(trace: Trace, *, window: WindowLike = None) -> Verdict:
    """Say what bounds the run.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns: judge this part only.

    Returns
    -------
    Verdict
        Never None; ``nothing-recorded`` for an empty trace, and for one of instants only.

    Notes
    -----
    Shares are of the summed steps or, without steps, of the time from the first work to the last. In this
    order:

    1. *communication-bound*, *input-bound*: at least 25 % of the steps is in that phase (for communication
       also: is communication on the device that no kernel hides); the larger one.
    2. With device work: *sync-bound* if the thread waits for the device at least 25 % of the time while
       the device is less than 70 % busy; *compute-bound* from 70 % busy; else *launch-bound*: the host
       does not launch fast enough.
    3. Without: *overhead-bound* if at least half of the time is Python between operators, or operators of
       less than 10 µs; else *compute-bound*.
    4. Where the thread of the steps ran no operator: *compute-bound* if a runtime's own threads run
       operators, while it waits, for longer than anything it does by itself (XLA on a CPU); else *wait-bound*
       if half of the time is waiting for locks, sockets, processes, a runtime or the clock; *library-bound*
       if the function that takes most is an installed library's, with the line that called it; else
       *python-bound*, with the line or function that takes most.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> row = dict(track=b.track("main"), phase=["data", "forward"], name=["next", "mm"])
    >>> _ = b.slices(ts=[0, 70_000], dur=[70_000, 30_000], **row)
    >>> b.steps(step=0, ts=0, dur=100_000, source="loop")
    >>> verdict(b.seal()).sentence
    'Input-bound: 70.0 % of each step waits for data (70 µs of 100 µs).'
    """
    facts = gather(trace, window)
    found = _judge(trace, facts, window)
    return Verdict(
        found.kind,
        found.sentence,
        found.share,
        MappingProxyType(dict(found.evidence, total_ns=facts.total_ns)),
        MappingProxyType(dict(found.select)),
        (found.sentence, *supporting_lines(trace, facts)),
    )


def _judge(trace: Trace, facts: Facts, window: WindowLike) -> Verdict:
    if not facts.total_ns:
        return Verdict("nothing-recorded", "Nothing was recorded: the trace has no slices.", 0.0)
    waiting = {name: facts.phase_ns.get(name, 0) for name in ("communication", "data")}
    waiting["communication"] = max(waiting["communication"], _exposed_ns(facts))
    longest = max(waiting, key=lambda name: waiting[name])
    if waiting[longest] >= WAITING * facts.total_ns:
        return _waits(facts, longest, waiting[longest])
    if len(facts.device):
        return _with_device(facts)
    if facts.top.empty:
        return Verdict("nothing-recorded", "Nothing was recorded in the steps: no slice lies in them.", 0.0)
    if not facts.top["self_ns"].any():
        return _instants(facts)
    if facts.top_is_python:
        return _python(trace, facts, window)
    outside = facts.total_ns - facts.operator_ns - sum(waiting.values())
    overhead = max(outside, 0) + facts.tiny_ns
    if overhead >= TINY * facts.total_ns and facts.calls:
        return _overhead(facts, overhead)
    return _compute(facts)


def _exposed_ns(facts: Facts) -> int:
    """Communication on the device that no kernel hides, at the scale of `total_ns`."""
    device = facts.device
    share = device["exposed_communication_ns"] / device["window_ns"].clip(lower=1)
    return round(float(share.max()) * facts.total_ns) if len(device) else 0


def _waits(facts: Facts, phase: str, spent: int) -> Verdict:
    share = spent / facts.total_ns
    kind, doing = {
        "data": ("input-bound", "waits for data"),
        "communication": ("communication-bound", "is communication"),
    }[phase]
    count = max(len(facts.steps), 1)
    of_what = "each step" if len(facts.steps) else "the time"
    sentence = (
        f"{kind.capitalize()}: {format_share(share)} of {of_what} {doing} "
        f"({format_ns(spent / count)} of {format_ns(facts.total_ns / count)})."
    )
    return Verdict(kind, sentence, share, {f"{phase}_ns": spent}, {"phase": phase})


def _with_device(facts: Facts) -> Verdict:
    busiest = facts.device.iloc[int(facts.device["busy_ns"].to_numpy().argmax())]
    busy = int(busiest["busy_ns"]) / max(int(busiest["window_ns"]), 1)
    waits = facts.sync_ns / facts.total_ns
    evidence = {
        "device": int(busiest["device"]),
        "device_busy_share": busy,
        "sync_ns": facts.sync_ns,
        "kernels": int(facts.kernels["count"].sum()),
    }
    if waits >= WAITING and busy < BUSY_DEVICE:
        sentence = (
            f"Sync-bound: the host waits for the device {format_share(waits)} of the time, "
            f"while the device is busy only {format_share(busy)}."
        )
        return Verdict("sync-bound", sentence, waits, evidence, {"category": "sync"})
    kernel = facts.kernels.iloc[0] if len(facts.kernels) else None
    if busy >= BUSY_DEVICE and kernel is not None:
        sentence = (
            f"Compute-bound: device {evidence['device']} is busy {format_share(busy)} of the time; "
            f"{short(kernel['name'])} takes {format_share(float(kernel['share']))} of its work."
        )
        return Verdict("compute-bound", sentence, busy, evidence, {"name": kernel["name"]})
    mean = facts.kernels["total_ns"].sum() / max(evidence["kernels"], 1)
    sentence = (
        f"Launch-bound: device {evidence['device']} is idle {format_share(1 - busy)} of the time, waiting "
        f"for the host to launch its {format_items(int(evidence['kernels']), 'kernel')} "
        f"(mean {format_ns(mean)} each)."
    )
    return Verdict("launch-bound", sentence, 1 - busy, evidence, {"category": "launch"})


def _overhead(facts: Facts, overhead: int) -> Verdict:
    share = min(overhead / facts.total_ns, 1.0)
    count = max(len(facts.steps), 1)
    each = facts.operator_ns / facts.calls
    sentence = (
        f"Overhead-bound: {format_share(share)} of the time is Python and framework overhead around "
        f"{format_count(round(facts.calls / count))} small operators"
        f"{' a step' if len(facts.steps) else ''} (mean {format_ns(each)} each)."
    )
    evidence = {
        "overhead_ns": overhead,
        f"operators_under_{TINY_NS // 1000}us_ns": facts.tiny_ns,
        "calls": facts.calls,
        "operator_ns": facts.operator_ns,
    }
    return Verdict("overhead-bound", sentence, share, evidence)


def _compute(facts: Facts) -> Verdict:
    first = facts.top.iloc[0]
    share = min(int(first["self_ns"]) / facts.total_ns, 1.0)
    sentence = (
        f"Compute-bound on the CPU: {short(first['name'])} alone takes {format_share(share)} of the time "
        f"({format_ns(int(first['self_ns']))} in {format_items(int(first['count']), 'call')})."
    )
    evidence = {"name": first["name"], "self_ns": int(first["self_ns"]), "calls": int(first["count"])}
    return Verdict("compute-bound", sentence, share, evidence, {"name": first["name"]})


def _python(trace: Trace, facts: Facts, window: WindowLike) -> Verdict:
    found, own = runtime_verdict(trace, facts, window)
    found = found or python_verdict(trace, own, facts.thread)
    return Verdict(found.kind, found.sentence, found.share, found.evidence, found.select)


def _instants(facts: Facts) -> Verdict:
    count = int(facts.top["count"].sum())
    sentence = (
        f"Nothing took time: of {format_ns(facts.total_ns)}, {format_items(count, 'instant')} "
        f"{'were' if count != 1 else 'was'} recorded and nothing that lasts."
    )
    return Verdict("nothing-recorded", sentence, 0.0, {"instants": count})
