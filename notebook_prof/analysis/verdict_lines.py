"""The lines below a verdict: steps, phases, what ran most, memory."""

from __future__ import annotations

from typing import Any

from ..trace import Trace
from ..units import format_bytes, format_count, format_ns, format_share
from .facts import Facts

_SHOWN = 3


def supporting_lines(trace: Trace, facts: Facts) -> list[str]:
    """At most four lines; what was not recorded is said, not left out."""
    lines = [_steps(trace, facts)]
    if facts.total_ns and facts.phase_ns:
        lines.append(_phases(facts))
    if facts.total_ns and (line := _most(facts)):
        lines.append(line)
    lines.append(_memory(facts))
    return lines


def _steps(trace: Trace, facts: Facts) -> str:
    parts = []
    if len(facts.steps):
        dur = facts.steps["dur"]
        first, last = facts.steps["step"].iloc[0], facts.steps["step"].iloc[-1]
        found = trace.metadata.get("steps_source") or facts.steps["source"].iloc[0]
        parts.append(
            f"{format_count(len(dur))} steps ({first} … {last}, found by {found}): "
            f"median {format_ns(dur.median())}, {format_ns(dur.min())} to {format_ns(dur.max())}"
        )
    else:
        parts.append(f"No steps were found; {format_ns(trace.span.dur)} recorded")
    measured: Any = trace.metadata.get("overhead")
    if isinstance(measured, dict) and "ratio" in measured:
        parts.append(
            f"recorded steps take {measured['ratio']:.2f} times as long "
            f"({measured['low']:.2f} to {measured['high']:.2f})"
        )
    if issues := [issue for issue in trace.report if issue.severity != "info"]:
        many = f"{len(issues)} issues" if len(issues) > 1 else "1 issue"
        parts.append(f"{many} in trace.report")
    return " · ".join(parts)


def _phases(facts: Facts) -> str:
    shares = {name: spent / facts.total_ns for name, spent in facts.phase_ns.items() if spent}
    return "Phases: " + " · ".join(f"{name} {format_share(share)}" for name, share in shares.items())


def _most(facts: Facts) -> str:
    if len(facts.kernels):
        rows = facts.kernels.head(_SHOWN)
        return "Kernels: " + " · ".join(
            f"{short(name)} {format_share(share)}"
            for name, share in zip(rows["name"], rows["share"], strict=True)
        )
    rows = facts.top[facts.top["self_ns"] > 0].head(_SHOWN)
    if rows.empty:
        return ""
    what = "Functions" if facts.top_is_python else "Operators"
    return f"{what}: " + " · ".join(
        f"{short(name)} {format_share(self_ns / facts.total_ns)}"
        for name, self_ns in zip(rows["name"], rows["self_ns"], strict=True)
    )


def _memory(facts: Facts) -> str:
    if not len(facts.peak):
        return "Memory was not recorded."
    parts = []
    columns = ("device", "source", "peak_bytes", "ts")
    for device, source, peak, ts in zip(*(facts.peak[column] for column in columns), strict=True):
        where = "host" if device < 0 else f"device {device}"
        kind = ", resident" if source == "rss" else ""
        grows = facts.growth_bytes.get(int(device))
        parts.append(
            f"peak {format_bytes(peak)} ({where}{kind}) at {format_ns(ts)}"
            + (f", growing {format_bytes(grows)} every step" if grows else "")
        )
    return "Memory: " + " · ".join(parts)


def short(name: object, limit: int = 48) -> str:
    """Cut a long name."""
    text = str(name)
    return text if len(text) <= limit else text[: limit - 1] + "…"
