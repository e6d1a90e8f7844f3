"""Reprs of a Trace: what is in it, in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..units import format_count, format_ns

if TYPE_CHECKING:
    from .trace import Trace


def trace_repr(trace: Trace) -> str:
    """A Trace in a few lines of text.

    Returns
    -------
    str
        Size and span, the tables that are not empty, how steps were found, and the report unless empty.
    """
    slices = trace.slices
    head = f"<Trace: {format_count(len(slices))} slices over {format_ns(trace.span.dur)}"
    kinds = trace.tracks["kind"].astype("str").value_counts(sort=False)
    if len(kinds):
        head += " on " + ", ".join(f"{count} {kind}{'s' * (count != 1)}" for kind, count in kinds.items())
    lines = [head + ">"]
    names = ("counters", "flows", "stacks", "allocations")
    if parts := [f"{format_count(len(t))} {name}" for name in names if len(t := getattr(trace, name))]:
        lines.append("  " + ", ".join(parts))
    if len(trace.steps):
        first, last = trace.steps["step"].iloc[0], trace.steps["step"].iloc[-1]
        source = trace.metadata.get("steps_source") or trace.steps["source"].iloc[0]
        lines.append(f"  steps {first} … {last}, found by {source}")
    if len(slices):
        shares = slices.groupby("category", observed=True)["self_ns"].sum().sort_values(ascending=False)
        total = max(int(shares.sum()), 1)
        lines.append(
            "  self time: " + ", ".join(f"{c} {100 * v / total:.0f} %" for c, v in shares.head(5).items())
        )
    if trace.report:
        lines.append("  report:")
        lines.extend(f"    {issue}" for issue in trace.report)
    return "\n".join(lines)
