"""How long collectives ran in each step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.intervals import IntArray, as_ints
from ..grouping import covered
from ..scope import on_device, on_host
from .recorded_steps import recorded_table


def reduce_times(trace: Trace, spans: pd.DataFrame) -> IntArray:
    """Union of the collectives of each step, on the devices or, where none is there, on the host.

    Parameters
    ----------
    trace : Trace
    spans : DataFrame
        ``step``, and ``rank`` where there are several.

    Returns
    -------
    ndarray of int64, shape (steps,)
        ns; 0 for steps without.
    """
    recorded = recorded_table(trace, "reduces") if "rank" in spans else None
    if recorded is not None:
        ordered = recorded.sort_values("start_ns", kind="stable")
        start = ordered["start_ns"].to_numpy(dtype=np.int64)
        end = start + ordered["dur_ns"].to_numpy(dtype=np.int64)
        keys = pd.MultiIndex.from_frame(ordered[["rank", "step"]].astype("int64"))
        wanted = pd.MultiIndex.from_frame(spans[["rank", "step"]].astype("int64"))
        return _sum(wanted.get_indexer(keys), start, end, len(spans))
    work = on_device(trace)
    talks = work.only(work.among("category", ("collective",)))
    if not len(talks.rows):
        host = on_host(trace)
        talks = host.only(host.among("category", ("collective",)))
    number = pd.Index(spans["step"].to_numpy(dtype=np.int64))
    row = number.drop_duplicates().get_indexer(talks.ints("step"))
    first = np.flatnonzero(~number.duplicated())
    return _sum(np.append(first, -1)[row], talks.ts, talks.end, len(spans))


def _sum(row: IntArray, ts: IntArray, end: IntArray, count: int) -> IntArray:
    known = row >= 0
    spent = covered(row[known], ts[known], end[known])
    return as_ints(np.bincount(row[known], spent, minlength=count).astype(np.int64))
