"""Steps that wait: for data, or for other ranks."""

from __future__ import annotations

from typing import Final

from ...units import format_ns, format_share
from ..distributed import distributed
from .finding import Finding, Run, evidence

WAITS: Final = 0.05
"""Share of the measured time from which a wait is worth a word."""


def input_bound(run: Run) -> Finding | None:
    """Steps wait for batches that workers, or something else than PyTorch's loader, make."""
    return _data(run, in_process=False)


def loader_workers(run: Run) -> Finding | None:
    """The thread of the steps makes its batches itself."""
    return _data(run, in_process=True)


def _data(run: Run, in_process: bool) -> Finding | None:
    spent = run.facts.phase_ns.get("data", 0)
    share = spent / run.total_ns
    if share < WAITS:
        return None
    loaders = run.loaders
    if ("in-process" in loaders and "workers" not in loaders) != in_process:
        return None
    rows, count = evidence(run.host, run.host.among("phase", ("data",)))
    each = format_ns(spent / run.step_count)
    finding = f"Each step spends {each}, {format_share(share)} of its time, on getting its data"
    if in_process:
        return Finding(
            "dataloader-workers",
            f"{finding}, in the training thread itself.",
            "Let other processes make the batches: DataLoader(num_workers=4, persistent_workers=True, "
            "pin_memory=True); or prepare the data once, before training.",
            # other processes can at most hide the shorter of the two behind the longer
            min(spent, max(run.total_ns - spent, 0)) or spent,
            select={"phase": "data"},
            rows=rows,
            count=count,
        )
    return Finding(
        "input-bound",
        f"{finding}.",
        "Raise num_workers or prefetch_factor, make transforms cheaper (or move them to the device), "
        "read from faster storage, and keep workers with persistent_workers=True.",
        spent,
        select={"phase": "data"},
        rows=rows,
        count=count,
    )


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
        select={"category": "collective"},
        rows=rows,
        count=count,
    )
