"""Steps that wait for other ranks."""

from __future__ import annotations

from typing import Final

from ...units import format_ns, format_share
from ..distributed.distributed import distributed
from .finding import Finding, Run, evidence

WAITS: Final = 0.05
"""Share of the measured time from which a wait is worth a word."""


def communication_exposed(run: Run) -> Finding | None:
    """Collectives run while nothing computes."""
    spent = run.facts.phase_ns.get("communication", 0)
    table = distributed(run.trace, window=run.window, by="trace")
    on_devices = table[table["device"] >= 0]
    scope = run.threads
    if len(on_devices) and int(on_devices["communication_ns"].sum()):
        spent, scope = int(on_devices["exposed_ns"].max()), run.device
    share = spent / run.total_ns
    if share < WAITS:
        return None
    rows, count = evidence(scope, scope.among("category", ("collective",)))
    return Finding(
        "communication-exposed",
        f"{format_share(min(share, 1.0))} of the time is communication behind which nothing computes "
        f"({format_ns(spent / run.step_count)} a step).",
        "Overlap it with backward (DDP's buckets: bucket_cap_mb, gradient_as_bucket_view), exchange less "
        "often (no_sync with gradient accumulation) or less (compression hooks, bfloat16), and look for a "
        "rank that arrives late: the others' communication is then waiting.",
        min(spent, run.total_ns),
        bound=True,
        select={"category": "collective"},
        rows=rows,
        count=count,
    )
