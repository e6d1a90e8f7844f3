"""Exposed communication by module, group or operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from ...trace.arrays import IntArray
from ...trace.intervals import as_ints
from ..busy_time import device_of
from ..critical_path.segments import FAR, segments
from ..scope import Numbers, WindowLike, on_device
from .collectives import collectives
from .exposed import exposed_communication

BY: Final = ("module", "group", "operation", "name", "phase", "step", "device")


def exposed_collectives(
    trace: Trace, *, by: str | Sequence[str] = "module", window: WindowLike = None, step: Numbers = None
) -> pd.DataFrame:
    """Sum the communication of devices, and the part of it without simultaneous computation.

    Parameters
    ----------
    trace : Trace
    by : str or sequence of str
        Any of ``module group operation name phase step device``.
    window : (int, int), optional
        Half-open, in ns.
    step : int or iterable of int, optional
        Keep the collectives of these steps.

    Returns
    -------
    DataFrame
        The columns of `by`, then ``exposed_ns``, ``total_ns``, ``count`` int64 and ``exposed_share`` float64
        (of `total_ns`), the most exposed first; a missing module or other name is a row with a missing value.
        If collectives of one device overlap, the time belongs to the one that began last, so
        ``exposed_ns`` sums to the device's communication without computation. No rows without communication
        on devices; for gloo and MPI see `breakdown`.

    Raises
    ------
    OptionError
        If `by` is not one of these columns.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... stream 7: [gemm    ]
    ... stream 9:       [nccl  ]
    ... ''', categories={"nccl": "collective"})
    >>> exposed_collectives(trace, by="operation")[["exposed_ns", "total_ns", "count"]].values.tolist()
    [[4, 8, 1]]
    """
    columns = [by] if isinstance(by, str) else list(by)
    for column in columns:
        if column not in BY:
            raise OptionError(f"exposed communication cannot be summed by {column!r}: {nearest(column, BY)}")
    table = collectives(trace, window=window, step=step)
    table = table[(table["device"] >= 0).to_numpy()].reset_index(drop=True)
    rows = table["slice"].to_numpy(np.int64)
    table["module"], table["phase"] = (trace.slices[name].iloc[rows].array for name in ("module", "phase"))
    table["exposed_ns"], table["total_ns"] = _exposed_of(trace, window, rows)
    groups = table.groupby(columns, dropna=False, sort=False, observed=True)
    out: Any = groups.agg(
        exposed_ns=("exposed_ns", "sum"), total_ns=("total_ns", "sum"), count=("slice", "size")
    ).reset_index()
    out = out.astype({"exposed_ns": "int64", "total_ns": "int64", "count": "int64"})
    out["exposed_share"] = out["exposed_ns"] / np.maximum(out["total_ns"], 1)
    return out.sort_values("exposed_ns", ascending=False, kind="stable").reset_index(drop=True)


def _exposed_of(trace: Trace, window: WindowLike, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return each collective's time without computation, and its duration."""
    work = on_device(trace, window)
    every = work.only(work.among("category", ("collective",)))
    devices, own = np.zeros(len(trace.slices), np.int64), np.zeros(len(trace.slices), np.int64)
    lengths = np.zeros(len(trace.slices), np.int64)
    lengths[every.rows] = every.end - every.ts
    of_work, of_every = device_of(trace, work), device_of(trace, every)
    devices[every.rows] = of_every
    for device in np.unique(of_every):
        begin, until = exposed_communication(work.only(of_work == device))
        one = every.only((of_every == device) & (every.end > every.ts))
        starts, owner = segments(one.rows, one.ts, one.end)
        spent = _inside(starts[owner >= 0], np.append(starts[1:], FAR)[owner >= 0], begin, until)
        own += as_ints(np.bincount(owner[owner >= 0], spent, minlength=len(own)))
    return own[rows], lengths[rows]


def _inside(starts: IntArray, ends: IntArray, begin: IntArray, until: IntArray) -> IntArray:
    """Return how much of each interval is inside ``[begin, until)``, which are disjoint and ascending."""
    before = np.concatenate([[0], np.cumsum(until - begin)])

    def up_to(at: IntArray) -> IntArray:
        k = np.searchsorted(begin, at, side="right")
        last = np.maximum(k - 1, 0)
        partly = np.where(k > 0, np.minimum(at, until[last]) - begin[last], 0) if len(begin) else 0 * at
        return as_ints(before[last] * (k > 0) + partly)

    return up_to(ends) - up_to(starts)
