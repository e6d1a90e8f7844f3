"""Time by operator: what the host ran, and what it made the device run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.intervals import IntArray
from ..device.launches import launching_rows
from ..grouping import Groups, covered, group, inclusive
from ..scope import Numbers, Scope, Texts, WindowLike, ints, many, on_device, on_host
from ..trust.doubts import mark, operator_doubts
from .redispatch import redispatched


def operators(
    trace: Trace,
    *,
    window: WindowLike = None,
    by: str | Sequence[str] = "name",
    name: Texts = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
) -> pd.DataFrame:
    """Count and time of everything that ran on host threads, grouped by name.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns. Times are cut exactly at its edges; slices that touch it count.
    by : str or sequence of str
        ``name``, or any of ``name shapes module phase category step track`` together.
    name, phase, category : str or iterable of str, optional
        Keep these. `name` keeps rows of the result and does not change anyone's `share`.
    step : int or iterable of int, optional
        Keep these steps. Device work belongs to the step (and phase) that launched it.

    Returns
    -------
    DataFrame
        By `self_ns`, then `device_self_ns`, longest first; no rows for a trace without host slices.

        - the columns of `by`; missing where a slice has no module, phase, …;
        - ``count`` int64: calls. An operator that is the only thing inside an operator of the same name
          is a re-dispatch of one call and not counted, as in PyTorch's ``key_averages()``;
        - ``total_ns`` int64: time with at least one such slice open, summed over threads; recursion is not
          counted twice (``key_averages()`` does count it twice);
        - ``self_ns`` int64: less what ran inside. Over all rows it sums to the time that threads were busy;
        - ``device_self_ns`` int64: durations of the device work that it launched itself;
        - ``device_ns`` int64: the same, launched by it or by anything inside;
        - ``share`` float64: of all self time in the same window, steps, phases and categories;
        - ``doubt`` str, only where there is any: codes of `trust` that make at least 1 % of the row's device
          time wrong, as ``kernels-lost-at-start``; empty for the others.

    Raises
    ------
    OptionError
        If it cannot be grouped by `by`.
    SelectionError
        If a phase or category does not exist.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 2, 6], dur=[10, 3, 3], name=["linear", "mm", "mm"], track=b.track("main"))
    >>> operators(b.seal())[["name", "count", "total_ns", "self_ns", "share"]].values.tolist()
    [['mm', 2, 6, 6, 0.6], ['linear', 1, 10, 4, 0.4]]
    """
    return _operators(
        trace, by, doubted=True, window=window, name=name, step=step, phase=phase, category=category
    )


def operator_times(trace: Trace, *, category: Texts = None) -> pd.DataFrame:
    """`operators` by name, without ``doubt``, which takes as long as the rest."""
    return _operators(trace, "name", doubted=False, category=category)


def _operators(
    trace: Trace,
    by: str | Sequence[str],
    *,
    doubted: bool,
    window: WindowLike = None,
    name: Texts = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
) -> pd.DataFrame:
    host = on_host(trace, window).where(step=step, phase=phase, category=category)
    groups = group(host.slices, by)
    parent = ints(host.slices["parent"])
    table = groups.keys.copy()
    table["count"] = groups.sum(host.rows) - groups.sum(_again(trace, host, groups, parent))
    thread = host.ints("track")
    open_ns = covered(groups.code[host.rows] * (thread.max(initial=0) + 1) + thread, host.ts, host.end)
    table["total_ns"] = groups.sum(host.rows, open_ns)
    table["self_ns"] = groups.sum(host.rows, host.self_ns)
    device = on_device(trace, window).where(step=step, phase=phase)
    total, own = _device_times(trace, device, groups, parent)
    table["device_ns"], table["device_self_ns"] = total, own
    table["share"] = table["self_ns"] / max(int(table["self_ns"].sum()), 1)
    if doubted:
        mark(table, operator_doubts(trace, host, device, groups, parent, window))
    ran = groups.sum(host.rows) > 0
    seen = ran if category is not None else ran | (total > 0)
    if name is not None and "name" in table:
        seen &= table["name"].isin(many(name)).to_numpy()
    order = ["self_ns", "device_self_ns", "total_ns"]
    return table[seen].sort_values(order, ascending=False, kind="stable").reset_index(drop=True)


def _again(trace: Trace, host: Scope, groups: Groups, parent: IntArray) -> IntArray:
    """Operators that are the only child of an operator of the same group."""
    rows = host.rows[redispatched(trace)[host.rows]]
    return np.asarray(rows[groups.code[rows] == groups.code[parent[rows]]], dtype=np.int64)


def _device_times(trace: Trace, device: Scope, groups: Groups, parent: IntArray) -> tuple[IntArray, IntArray]:
    """Device time by group: launched by the group or inside it, and launched by it directly."""
    launcher = launching_rows(trace)[device.rows]
    return inclusive(groups, parent, launcher, (device.end - device.ts).astype(np.float64))
