"""The operator table with what each operator computes and moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...trace import Trace
from ..device.launches import launching_rows
from ..grouping import group, nested_in_own_group
from ..scope import Numbers, Texts, WindowLike, ints, of_kind, on_host
from ..work.slices import inclusive, slice_work
from .operators import operators


def operator_work(
    trace: Trace,
    *,
    window: WindowLike = None,
    by: str | Sequence[str] = "name",
    name: Texts = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    element_bytes: float = 4,
) -> pd.DataFrame:
    """`operators`, joined with the FLOPs and bytes of every row.

    Parameters
    ----------
    trace : Trace
    window, by, name, step, phase, category
        As in `operators`. Calls that start outside the window do not add work.
    element_bytes : float
        Size of the elements of tensors whose type was not recorded.

    Returns
    -------
    DataFrame
        The columns and rows of `operators`, and

        - ``flops``, ``bytes`` float64: of the operator itself where a formula is known, else of what ran
          inside it (as with `total_ns`, they do not add up over rows); 0 where nothing is known;
        - ``flops_per_s``, ``bytes_per_s`` float64: over `device_ns`, or `total_ns` without device time.

    Raises
    ------
    OptionError
        If it cannot be grouped by `by`.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> shapes = [None, "[[2, 3], [3, 4]]"]
    >>> names = ["block", "aten::mm"]
    >>> _ = b.slices(ts=[0, 1], dur=[9, 6], name=names, shapes=shapes, track=b.track("main"))
    >>> operator_work(b.seal())[["name", "flops", "bytes_per_s"]].values.tolist()
    [['aten::mm', 48.0, 17333333333.333332], ['block', 48.0, 11555555555.555555]]
    """
    table = operators(trace, window=window, by=by, name=name, step=step, phase=phase, category=category)
    host = on_host(trace, window).where(step=step, phase=phase, category=category)
    slices = host.slices
    groups = group(slices, by)
    parent = ints(slices["parent"])
    work = slice_work(trace, element_bytes)
    launched = np.flatnonzero((work.kind >= 0) & ~of_kind(trace, ("thread", "process")))
    launcher = launching_rows(trace)[launched]
    for values in (work.flops, work.bytes):  # work that the file tells of kernels belongs to their operators
        np.add.at(values, launcher[launcher >= 0], values[launched[launcher >= 0]])
    flops, moved = inclusive(work, slices["depth"].to_numpy(), parent)
    rows = host.rows[slices["ts"].to_numpy()[host.rows] >= host.ts]
    rows = rows[~nested_in_own_group(groups.code, parent, rows)[rows]]
    found = groups.keys.copy()
    for column, values in (("flops", flops), ("bytes", moved)):
        found[column] = np.bincount(groups.code[rows], values[rows], minlength=len(found))
    keys = [by] if isinstance(by, str) else list(by)
    joined = table.merge(found, on=keys, how="left")
    time = np.where(joined["device_ns"] > 0, joined["device_ns"], joined["total_ns"]) / 1e9
    for column in ("flops", "bytes"):
        joined[f"{column}_per_s"] = joined[column] / np.where(time > 0, time, np.nan)
    return joined
