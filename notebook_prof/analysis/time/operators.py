"""Time by operator on host and device, and the work and traffic of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError
from ...labels import merged_name
from ...trace import Trace
from ...trace.arrays import BoolArray
from ...trace.schema import Table
from ..device.kernel_launches import launching_rows
from ..grouping import covered, group, inclusive, nested_in_own_group
from ..scope import (
    Numbers,
    Texts,
    WindowLike,
    ints,
    many,
    of_kind,
    on_device,
    on_host,
    recorded_table,
    sharing,
)
from .host_states import waiting_names

_CALLS: Final = ("operator", "collective")


def redispatched(trace: Trace) -> BoolArray:
    """Return a mask of operators that are alone in an operator of the same name: one call, recorded twice."""
    # PyTorch's dispatcher runs ``aten::div_`` inside ``aten::div_`` if it handles a key (autograd, autocast)
    # first. ``key_averages()`` counts both as one call, and so do we.
    slices = trace.slices
    parent = ints(slices["parent"])
    name = slices["name"].cat.codes.to_numpy()
    rows = np.flatnonzero((parent >= 0) & (name == name[parent])) if len(parent) else parent
    kinds = np.append(slices["category"].cat.categories.isin(list(_CALLS)), False)
    rows = rows[kinds[slices["category"].cat.codes.to_numpy()[rows]]]
    around = np.zeros(len(slices) + 1, dtype=bool)  # the last entry is for no parent
    around[parent[rows]] = True
    children = np.bincount(parent[around[parent]], minlength=len(slices))
    out = np.zeros(len(slices), dtype=bool)
    out[rows[children[parent[rows]] == 1]] = True
    return out


@sharing
def operators(
    trace: Trace,
    *,
    window: WindowLike = None,
    by: str | Sequence[str] = "name",
    name: Texts = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    waits: bool | None = None,
    line: Texts = None,
    track: Numbers = None,
) -> pd.DataFrame:
    """Count and time everything that ran on host threads, grouped by name.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns. Times are cut exactly at its edges; slices that touch it count.
    by : str or sequence of str
        ``name``, or any of ``name shapes module phase category line step track`` together.
    name, phase, category, line : str or iterable of str, optional
        Keep only these; a line is written as ``cell:12``. `name` filters rows of the result and does not
        change any `share`.
    step, track : int or iterable of int, optional
        Keep these. Device work belongs to the step (and phase) that launched it.
    waits : bool, optional
        True keeps the rows of calls that only wait, False the others. A name waits if all its slices are of
        category ``sync``, if it synchronises a device, or if Python or a library uses it to wait for a lock,
        thread, socket, process, the clock or a runtime. Blocking copies count as work. No `share` changes.

    Returns
    -------
    DataFrame
        By `self_ns`, then `device_self_ns`, longest first; empty without host slices.

        - the columns of `by`; missing for a slice without module, phase, …; the ranges that PyTorch's and
          Paddle's profilers draw around steps (``ProfilerStep#7``) are one name, ``ProfilerStep*``;
        - ``count`` int64: calls, without operators that are the only thing inside one of the same name, which
          are re-dispatches, as in PyTorch's ``key_averages()``;
        - ``total_ns`` int64: time with at least one such slice open, summed over threads; unlike in
          ``key_averages()``, recursion counts once;
        - ``self_ns`` int64: time without what ran inside; over all rows it sums to the busy time of threads;
        - ``device_self_ns`` int64: durations of the device work that it launched itself;
        - ``device_ns`` int64: the same, launched by it or by anything inside;
        - ``share`` float64: of all self time in the same window, steps, phases and categories;
        - ``doubt`` str, only if there is any: codes of `trust` that affect at least 1 % of the row's device
          time, like ``kernels-lost-at-start``; empty for other rows.

    Raises
    ------
    OptionError
        If it cannot be grouped by `by`, or `waits` is given without ``name`` in `by`.
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
    kept: dict[str, Any] = {"step": step, "phase": phase, "category": category, "line": line, "track": track}
    table = operator_times(trace, by, window=window, name=name, **kept, doubted=True)
    if waits is None:
        return table
    if "name" not in table:
        raise OptionError("waits= needs the name of each row: group by 'name' too, or leave waits out")
    waiting = {merged_name(str(name)) for name in trace.slices["name"].cat.categories[waiting_names(trace)]}
    return table[table["name"].isin(waiting).to_numpy() == waits].reset_index(drop=True)


def operator_times(
    trace: Trace,
    by: str | Sequence[str] = "name",
    *,
    window: WindowLike = None,
    name: Texts = None,
    doubted: bool = False,
    **kept: Any,
) -> pd.DataFrame:
    """Return `operators`, by default without ``doubt``, which takes as long as everything else."""
    host = on_host(trace, window).where(**kept)
    groups = group(host.slices, by, merge_names=True)
    parent = ints(host.slices["parent"])
    table = groups.keys.copy()
    again = host.rows[redispatched(trace)[host.rows]]
    again = again[groups.code[again] == groups.code[parent[again]]]
    table["count"] = groups.sum(host.rows) - groups.sum(again)
    thread = host.ints("track")
    open_ns = covered(groups.code[host.rows] * (thread.max(initial=0) + 1) + thread, host.ts, host.end)
    table["total_ns"] = groups.sum(host.rows, open_ns)
    table["self_ns"] = groups.sum(host.rows, host.self_ns)
    device = on_device(trace, window).where(**{key: kept.get(key) for key in ("step", "phase", "line")})
    launcher = launching_rows(trace)[device.rows]
    total, own = inclusive(groups, parent, launcher, (device.end - device.ts).astype(np.float64))
    table["device_ns"], table["device_self_ns"] = total, own
    table["share"] = table["self_ns"] / max(int(table["self_ns"].sum()), 1)
    if doubted:
        from ..trust.doubts import mark, operator_doubts

        mark(table, operator_doubts(trace, host, device, groups, parent, window))
    ran = groups.sum(host.rows) > 0
    only_host = kept.get("category") is not None or kept.get("track") is not None
    present = ran if only_host else ran | (total > 0)
    if name is not None and "name" in table:
        present &= table["name"].isin([merged_name(str(one)) for one in many(name)]).to_numpy()
    order = ["self_ns", "device_self_ns", "total_ns"]
    return table[present].sort_values(order, ascending=False, kind="stable").reset_index(drop=True)


def operator_work(
    trace: Trace,
    *,
    window: WindowLike = None,
    by: str | Sequence[str] = "name",
    name: Texts = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    line: Texts = None,
) -> pd.DataFrame:
    """Join `operators` with the FLOPs and bytes of every row.

    Parameters
    ----------
    window, by, name, step, phase, category, line
        As in `operators`. Calls that start outside the window do not add work.

    Returns
    -------
    DataFrame
        The columns and rows of `operators`, and

        - ``flops``, ``bytes`` float64: of the operator itself if a formula is known, else of what ran inside;
          0 if unknown; elements of a type that was not recorded count as 4 bytes;
        - ``flops_per_s``, ``bytes_per_s`` float64: over `device_ns`, or `total_ns` without device time.

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
    from ..work.slices import inclusive_work, slice_work

    table = operators(
        trace, window=window, by=by, name=name, step=step, phase=phase, category=category, line=line
    )
    host = on_host(trace, window).where(step=step, phase=phase, category=category, line=line)
    slices = host.slices
    groups = group(slices, by, merge_names=True)
    parent = ints(slices["parent"])
    work = slice_work(trace)
    launched = np.flatnonzero((work.kind >= 0) & ~of_kind(trace, ("thread", "process")))
    launcher = launching_rows(trace)[launched]
    for values in (work.flops, work.bytes):  # work recorded for kernels belongs to their operators
        np.add.at(values, launcher[launcher >= 0], values[launched[launcher >= 0]])
    flops, bytes_moved = inclusive_work(work, slices["depth"].to_numpy(), parent)
    rows = host.rows[slices["ts"].to_numpy()[host.rows] >= host.ts]
    rows = rows[~nested_in_own_group(groups.code, parent, rows)[rows]]
    work_columns = groups.keys.copy()
    for column, values in (("flops", flops), ("bytes", bytes_moved)):
        work_columns[column] = np.bincount(groups.code[rows], values[rows], minlength=len(work_columns))
    keys = [by] if isinstance(by, str) else list(by)
    joined = table.merge(work_columns, on=keys, how="left")
    time = np.where(joined["device_ns"] > 0, joined["device_ns"], joined["total_ns"]) / 1e9
    for column in ("flops", "bytes"):
        joined[f"{column}_per_s"] = joined[column] / np.where(time > 0, time, np.nan)
    return joined


# Every call of an operator, with time, work and shapes: the rows that ``notebook-prof analyze`` ranks.

_RENAMED: Final = {"flop_count": "flops", "memory_bytes": "bytes"}
CALLS: Final = Table.of(
    "calls",
    "id:str name:str type:str device_ns:Int64 device_kern_ns:Int64 host_ns:Int64 host_kern_ns:Int64 "
    "flops:Float64 bytes:Float64 in_shapes:object out_shapes:object in_layouts:object in_dtypes:object",
)


def calls(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List every call of an operator.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns. Ignored for MegEngine's static graphs, whose rows are the graph's operators.

    Returns
    -------
    DataFrame
        In the order of execution; no rows without operators.

        - ``id``, ``name``, ``type`` str: those of the graph, else the row in ``trace.slices`` and its name,
          twice;
        - ``device_ns`` Int64: time of the work that it launched, missing without; ``host_ns`` Int64: its self
          time; ``device_kern_ns``, ``host_kern_ns`` Int64: until the kernel's call returned, if known;
        - ``flops``, ``bytes`` Float64: missing if unknown;
        - ``in_shapes``, ``out_shapes``, ``in_layouts``: JSON text or None; ``in_dtypes``: lists of str.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=0, dur=9, name="aten::mm", shapes="[[2, 3], [3, 4]]", track=b.track("main"))
    >>> calls(b.seal())[["name", "host_ns", "flops"]].values.tolist()
    [['aten::mm', 9, 48.0]]
    """
    from ..work.slices import slice_work

    recorded = recorded_table(trace, "operators")
    if recorded is not None and {"flop_count", "device_ns", "host_ns"} <= set(recorded.columns):
        return _typed(recorded.rename(columns=_RENAMED))
    host = on_host(trace, window).where(category=_CALLS)
    slices, rows = trace.slices, host.rows
    device = on_device(trace, window)
    launcher = launching_rows(trace)[device.rows]
    owned = launcher >= 0
    spent = np.bincount(launcher[owned], (device.end - device.ts)[owned], minlength=len(slices))
    launched = np.bincount(launcher[owned], minlength=len(slices)) > 0
    work = slice_work(trace)
    names = slices["name"].astype("object").to_numpy()[rows]
    device_ns = pd.arrays.IntegerArray(spent.astype(np.int64)[rows], ~launched[rows])
    data = {
        "id": rows.astype(str),
        **dict.fromkeys(("name", "type"), names),
        **dict.fromkeys(("device_ns", "device_kern_ns"), device_ns),
        **dict.fromkeys(("host_ns", "host_kern_ns"), host.self_ns),
        "flops": pd.arrays.FloatingArray(work.flops[rows], work.kind[rows] < 0),
        "bytes": pd.arrays.FloatingArray(work.bytes[rows], work.kind[rows] < 0),
        "in_shapes": slices["shapes"].astype("object").to_numpy()[rows],
    }
    return _typed(pd.DataFrame(data))


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    missing: dict[str, Any] = {name: None for name in CALLS.names if name not in table}
    table = table.assign(**missing).reset_index(drop=True)
    return CALLS.frame({name: table[name] for name in CALLS.names})
