"""When a rank computes in each step, as far as that matters to a pipeline."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...analysis.distributed.collectives import collectives, operation_of
from ...analysis.grouping import covered
from ...analysis.scope import Mask, Scope, on_device
from ...analysis.time.recorded_steps import recorded_table
from ...trace import Trace
from ...trace.intervals import IntArray, as_ints

_DIRECT: Final = ("send", "recv", "send_recv")
COLUMNS: Final = ("step", "first_ns", "last_ns", "compute_ns", "other_ns", "sends", "receives")


def stage_work(trace: Trace) -> pd.DataFrame:
    """Computation of each step, for ranks that send to or receive from single other ranks.

    Returns
    -------
    DataFrame
        By step; no rows for ranks without sends and receives, or without device work in steps.

        - ``step`` int32; ``first_ns``, ``last_ns`` int64: start of the first and end of the last kernel, in
          the trace's time; ``compute_ns`` int64: union of kernels; ``other_ns`` int64: collectives among
          them (no sends and receives) without computation; ``sends``, ``receives`` int64.
    """
    work = on_device(trace)
    step = work.ints("step")
    talks = work.among("category", ("collective",))
    moves = work.among("category", ("memcpy", "memset"))
    computes = ~talks & ~moves & (step >= 0)
    direct = _messages(trace, work.only(talks)) if computes.any() else None
    if direct is None or not len(direct):
        return pd.DataFrame({name: np.empty(0, np.int64) for name in COLUMNS}).astype({"step": "int32"})
    steps, code = np.unique(step, return_inverse=True)
    first, last = np.full(len(steps), np.iinfo(np.int64).max), np.full(len(steps), np.iinfo(np.int64).min)
    np.minimum.at(first, code[computes], work.ts[computes])
    np.maximum.at(last, code[computes], work.end[computes])
    others = talks & ~np.isin(work.rows, direct["slice"].to_numpy()) & (last[code] > first[code])
    start = np.maximum(work.ts, np.where(others, first[code], work.ts))
    end = np.minimum(work.end, np.where(others, last[code], work.end))
    others &= end > start

    def during(keep: Mask) -> IntArray:
        spent = covered(code[keep], start[keep], end[keep])
        return as_ints(np.bincount(code[keep], spent, minlength=len(steps)))

    table = pd.DataFrame(
        {
            "step": steps.astype(np.int32),
            "first_ns": first,
            "last_ns": last,
            "compute_ns": during(computes),
            "other_ns": during(computes | others) - during(computes),
            "sends": _count(direct, "send", steps),
            "receives": _count(direct, "recv", steps),
        }
    )
    return table[last > first].reset_index(drop=True)


def _messages(trace: Trace, talks: Scope) -> pd.DataFrame | None:
    """Sends and receives on devices; None, without a closer look, where no name or argument tells of any."""
    words = trace.slices["name"].cat.categories
    names = {operation_of(str(words[code])) for code in np.unique(talks.codes("name")) if code >= 0}
    told = recorded_table(trace, "collectives")
    if told is not None and "operation" in told:
        names |= {operation_of(str(word)) for word in told["operation"].cat.categories}
    if names.isdisjoint(_DIRECT):
        return None
    found = collectives(trace)
    return found[found["operation"].isin(_DIRECT) & (found["device"] >= 0)]


def _count(direct: pd.DataFrame, operation: str, steps: IntArray) -> IntArray:
    counts = direct.loc[direct["operation"] == operation, "step"].value_counts()
    return as_ints(counts.reindex(steps).fillna(0).to_numpy(np.int64))
