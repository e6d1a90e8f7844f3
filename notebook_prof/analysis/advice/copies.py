"""The host waits for the device, or copies in a way that makes it wait."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace.intervals import IntArray
from ...trace.nesting import climb
from ...units import format_count, format_ns, format_share
from ..device.launch_calls import launch_calls
from ..scope import ints
from .finding import Finding, Run, evidence, named, names_of

_PLUMBING: Final = ("launch", "sync", "overhead")
_SHOWN: Final = 3


def sync_points(run: Run) -> Finding | None:
    """Calls in the steps after which the host has waited and the device has run dry."""
    host = run.host
    waits = host.among("category", ("sync",))
    if not waits.any() or int(waits.sum()) < run.step_count or not len(run.idle):
        return None
    start, end = host.ts[waits], host.end[waits]
    idle = run.idle
    at = np.searchsorted(start, idle["ts"].to_numpy(), side="right") - 1
    dried = (at >= 0) & (idle["ts"].to_numpy() <= np.append(end, 0)[at])
    gain = int(idle["dur"].to_numpy()[dried].sum()) // max(idle["device"].nunique(), 1)
    callers = _callers(run, host.rows[waits])
    shown = ", ".join(f"{name} ({format_count(count)})" for name, count in callers.head(_SHOWN).items())
    rows, count = evidence(host, waits)
    waited = int(host.self_ns[waits].sum())
    often = "once" if count == run.step_count else f"{count / run.step_count:.3g} times"
    return Finding(
        "sync-points",
        f"The host waits for the device {often} a step, "
        f"{format_ns(waited / run.step_count)} in all, in {shown}; the device then runs dry for "
        f"{format_ns(gain / run.step_count)} a step.",
        "Leave values on the device: collect losses as tensors and read them once in a while, in place of "
        ".item(), .cpu(), print(tensor), nonzero() and masks in each step; copy with non_blocking=True.",
        gain,
        bound=True,
        select={"category": "sync"},
        rows=rows,
        count=count,
    )


def _callers(run: Run, rows: IntArray) -> pd.Series[int]:
    """Names of the innermost operators around calls, most frequent first."""
    slices = run.trace.slices
    rows = climb(ints(slices["parent"]), rows, slices["category"].isin(_PLUMBING).to_numpy())
    return slices["name"].iloc[rows].astype("str").value_counts()


def pageable_copies(run: Run) -> Finding | None:
    """Copies to the device from memory that is not pinned: the host waits until they are done."""
    work = run.device
    copies = work.among("category", ("memcpy",)) & named(work, ("pageable",)) & named(work, ("htod", "host"))
    if not copies.any():
        return None
    rows, count = evidence(work, copies)
    spent = int((work.end - work.ts)[copies].sum())
    ends = run.idle["next"].fillna(-1).to_numpy(dtype=np.int64)
    waits = int(run.idle.loc[np.isin(ends, work.rows[copies]), "memcpy_ns"].sum())
    calls = launch_calls(run.trace)[work.rows[copies]]
    held = int(run.trace.slices["dur"].to_numpy()[calls[calls >= 0]].sum())
    return Finding(
        "pageable-copies",
        f"{format_count(count)} copies to the device come from memory that is not pinned: {format_ns(spent)} "
        f"of copying ({format_share(spent / run.total_ns)}), during which the host waits {format_ns(held)}.",
        "Pin what is copied (DataLoader(pin_memory=True) or tensor.pin_memory()) and copy with "
        ".to(device, non_blocking=True), so that copies overlap with work.",
        spent + waits,
        bound=True,
        select={"name": names_of(work, copies)},
        rows=rows,
        count=count,
    )
