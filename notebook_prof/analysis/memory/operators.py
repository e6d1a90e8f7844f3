"""Allocations and releases of each operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...trace import PHASES, Trace, Window
from ..grouping import group
from ..scope import Numbers, Texts, WindowLike, checked_words, ints, many


def memory_operators(
    trace: Trace,
    *,
    window: WindowLike = None,
    by: str | Sequence[str] = "name",
    step: Numbers = None,
    phase: Texts = None,
    device: int | None = None,
) -> pd.DataFrame:
    """Sum the allocations and releases inside each operator.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns.
    by : str or sequence of str
        ``name``, or any of ``name shapes module phase category line step track`` together.
    step : int or iterable of int, optional
        Keep these steps.
    phase : str or iterable of str, optional
        Keep these phases.
    device : int, optional
        Keep this one; -1 is the host.

    Returns
    -------
    DataFrame
        One row per group and device, by `increase_bytes`, most first; empty if no allocator was recorded.

        - the columns of `by`, missing for events outside every slice; ``device`` int16 (-1: host);
        - ``allocation_count``, ``free_count``, ``allocated_bytes``, ``freed_bytes`` int64, none negative;
        - ``increase_bytes`` int64: their difference. Over all rows it sums to the total change.

    Raises
    ------
    OptionError
        If operators cannot be grouped by `by`.
    SelectionError
        If a phase does not exist.

    Notes
    -----
    An event belongs to the innermost slice around it, as in PyTorch's ``self_cpu_memory_usage`` and in
    Paddle's memory summary.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> main = b.track("main")
    >>> _ = b.slices(ts=[0, 20], dur=[10, 10], name=["mm", "free"], track=main)
    >>> sizes = dict(bytes=[64, -64], allocated=[64, 0], reserved=0)
    >>> b.allocations(ts=[5, 25], addr=[1, 1], device=-1, track=main, **sizes)
    >>> memory_operators(b.seal())[["name", "allocated_bytes", "increase_bytes"]].values.tolist()
    [['mm', 64, 64], ['free', 0, -64]]
    """
    slices, events = trace.slices, trace.allocations
    row = ints(events["slice"])
    keep = np.ones(len(events), dtype=bool)
    if window is not None:
        cut = Window.of(window)
        keep &= ((events["ts"] >= cut.start) & (events["ts"] < cut.end)).to_numpy()
    if device is not None:
        keep &= (events["device"] == device).to_numpy()
    if step is not None:
        keep &= np.append(np.isin(ints(slices["step"]), many(step)), False)[row]
    if phase is not None:
        words = checked_words("phase", phase, PHASES)
        keep &= np.append(slices["phase"].isin(words).to_numpy(), False)[row]
    groups = group(slices, by)
    code = np.append(groups.code, -1)[row[keep]]
    size = events["bytes"].to_numpy()[keep]
    where = events["device"].to_numpy()[keep].astype(np.int64)
    used, inverse = np.unique(code * 2**16 + where + 1, return_inverse=True)

    def total(weights: Any) -> Any:
        return np.bincount(inverse, weights, minlength=len(used)).astype(np.int64)

    keys = groups.keys.reindex(np.where(used < 0, len(groups.keys), used // 2**16)).reset_index(drop=True)
    table = keys.assign(
        device=(used % 2**16 - 1).astype(np.int16),
        allocation_count=total(size > 0),
        free_count=total(size < 0),
        allocated_bytes=total(np.maximum(size, 0)),
        freed_bytes=total(np.maximum(-size, 0)),
    )
    table["increase_bytes"] = table["allocated_bytes"] - table["freed_bytes"]
    order = ["increase_bytes", "allocated_bytes"]
    return table.sort_values(order, ascending=False, kind="stable").reset_index(drop=True)
