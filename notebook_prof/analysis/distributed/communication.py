"""Communication, computation and their overlap; exposed communication by module, group or operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import check_option, checked_columns
from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray
from ..busy_time import device_of
from ..critical_path.resources import segments
from ..grouping import covered_by_code, sums
from ..scope import Numbers, Scope, WindowLike, length_within, on_device, on_host, step_spans
from ..time.host_states import exposed_communication
from .collectives import collectives

_BY: Final = ("step", "trace")
HOST: Final = -1


def distributed(
    trace: Trace, *, window: WindowLike = None, step: Numbers = None, by: str = "step"
) -> pd.DataFrame:
    """Divide the work of each step and device into communication and computation.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; work is cut at its edges.
    step : int or iterable of int, optional
        Keep these steps. Device work belongs to the step that launched it.
    by : {"step", "trace"}
        One row per step and device, or one per device.

    Returns
    -------
    DataFrame
        By step and device; no rows without communication and device work. All times are int64 ns.

        - ``step`` Int32: missing with ``by="trace"``, and for device work outside all steps;
        - ``device`` int16: -1 for the host, which has rows only if no device has collectives (gloo, MPI);
        - ``communication_ns``: collectives; ``computation_ns``: kernels (on the host: operators on any thread
          outside communication); ``memory_ns``: copies and fills;
        - ``overlap_ns``: communication and computation at the same time; ``exposed_ns``: communication alone;
          they sum to `communication_ns`;
        - ``busy_ns``: time with any work; ``span_ns``: from the first work to the end of the last;
        - ``overlap_share`` float64: of communication; NaN without any.

    Notes
    -----
    Each time is the length of a union over streams (or threads), so overlapping work counts once, and
    ``overlap = communication + computation - (communication or computation)``. The figures equal those of
    ``paddle.profiler``'s Distribution Summary, HTA's overlap and TraceLens' GPU timeline for the same work.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... stream 7: [gemm    ]
    ... stream 9:       [nccl  ]
    ... ''', categories={"nccl": "collective"})
    >>> columns = ["communication_ns", "computation_ns", "overlap_ns", "exposed_ns", "busy_ns"]
    >>> distributed(trace)[columns].values.tolist()
    [[8, 10, 4, 4, 14]]
    """
    check_option("work cannot be divided by", by, _BY)
    work = on_device(trace, window).where(step=step)
    if len(work.rows):
        return _table(work, device_of(trace, work), work.among("category", ("collective",)), by)
    host = on_host(trace, window).where(step=step)
    communicates = host.among("category", ("collective",)) & (host.end > host.ts)
    if not communicates.any():
        return _table(work, work.ts, communicates[:0], by)
    computes = host.among("category", ("operator",)) & ~host.among("phase", ("communication",))
    keep = communicates | computes
    table = _table(host.only(keep), np.full(int(keep.sum()), HOST), communicates[keep], by)
    if by == "trace":
        return table
    return table[table["step"].isin(step_spans(trace, window, step)["step"])].reset_index(drop=True)


def _table(work: Scope, device: IntArray, communicates: BoolArray, by: str) -> pd.DataFrame:
    number = work.ints("step") if by == "step" else np.full(len(work.rows), -1, dtype=np.int64)
    # steps count from 0; work without a step comes last
    number = np.where(number < 0, np.iinfo(np.int32).max, number)
    key = number * 2**16 + device + 1
    groups, code = np.unique(key, return_inverse=True)
    count = len(groups)

    def during(keep: BoolArray) -> IntArray:
        return covered_by_code(code[keep], work.ts[keep], work.end[keep], count)

    moves = work.among("category", ("memcpy", "memset"))
    computes = ~communicates & ~moves
    communication, computation = during(communicates), during(computes)
    overlap = communication + computation - during(communicates | computes)
    span = pd.Series(work.end).groupby(code).max() - pd.Series(work.ts).groupby(code).min()
    step = groups // 2**16
    missing = step == np.iinfo(np.int32).max
    table = pd.DataFrame(
        {
            "step": pd.arrays.IntegerArray(np.where(missing, 0, step).astype(np.int32), missing),
            "device": (groups % 2**16 - 1).astype(np.int16),
            "communication_ns": communication,
            "computation_ns": computation,
            "memory_ns": during(moves),
            "overlap_ns": overlap,
            "exposed_ns": communication - overlap,
            "busy_ns": during(np.ones(len(code), dtype=bool)),
            "span_ns": span,
        }
    )
    share: Any = table["overlap_ns"] / table["communication_ns"].where(table["communication_ns"] > 0)
    return table.assign(overlap_share=share.astype("float64"))


BY: Final = ("module", "group", "operation", "name", "phase", "step", "device")


def exposed_collectives(
    trace: Trace, *, by: str | Sequence[str] = "module", window: WindowLike = None, step: Numbers = None
) -> pd.DataFrame:
    """Sum the communication of devices, and the part of it without simultaneous computation.

    Parameters
    ----------
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
    columns = checked_columns("exposed communication cannot be summed by", by, BY)
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
    own, lengths = np.zeros(len(trace.slices), np.int64), np.zeros(len(trace.slices), np.int64)
    lengths[every.rows] = every.end - every.ts
    of_work, of_every = device_of(trace, work), device_of(trace, every)
    for device in np.unique(of_every):
        exposed = exposed_communication(work.only(of_work == device))
        one = every.only((of_every == device) & (every.end > every.ts))
        cut = segments(one.rows, one.ts, one.end)
        (starts, owner), until = cut, cut.until()
        owned = owner >= 0
        spent = length_within(exposed, starts[owned], until[owned])
        own += sums(owner[owned], spent, len(own))
    return own[rows], lengths[rows]
