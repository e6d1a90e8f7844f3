"""Calls: from callers down, from callees up, the heaviest stack, and the log in order of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError, check_option
from ...trace import Trace, Window
from ...trace.arrays import IntArray, number_rows, optional
from ..grouping import nested_in_own_group
from ..scope import Numbers, Scope, Texts, WindowLike, bounds, on_device, on_host
from .line_calls import shown_frames
from .stack_nodes import device_sums, node_sums, placed, stack_nodes, with_children

_TIMES: Final = ("total_ns", "self_ns", "device_ns", "device_self_ns")
_COLUMNS: Final = ("node", "parent", "depth", "name", "category", "count", *_TIMES, "share")


def call_tree(
    trace: Trace,
    *,
    window: WindowLike = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    track: int | Iterable[int] | None = None,
    line: Texts = None,
    by_thread: bool = False,
    fold_libraries: bool = False,
) -> pd.DataFrame:
    """List the calls on the host, from the outermost callers down, with the time of each path.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.
    step : int or iterable of int, optional
        Keep slices of these steps.
    phase, category, line : str or iterable of str, optional
        Keep slices of these; a line is written as ``cell:12``.
    track : int or iterable of int, optional
        Keep these threads.
    by_thread : bool
        Whether each thread is a root; otherwise equal stacks of all threads are merged.
    fold_libraries : bool
        Fold functions of libraries into the outermost of each run of them, and calls inside operators into
        these, as self time, except for names that take 1 % of the host's time themselves.

    Returns
    -------
    DataFrame
        One row per path of calls, callers before callees, longest first; empty without host slices.

        - ``node`` int64: row number; ``parent`` Int64: row of the caller, missing for roots; ``depth`` int64;
        - ``name`` str; ``category`` category: missing for threads;
        - ``count`` int64: slices;
        - ``total_ns`` int64: time including everything below it, summed over threads; ``self_ns`` int64: its
          self time, which sums over all rows to the busy time of threads;
        - ``device_ns``, ``device_self_ns`` int64: durations of the device work that it or anything below it
          launched, and that it launched itself;
        - ``share`` float64: ``total_ns`` of all.

    Notes
    -----
    The stacks are those of `flame`. Device work is in a row only if its launch was recorded and kept.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main: [linear    ][linear  ]
    ... main:  [mm ][add]  [mm ]
    ... ''')
    >>> call_tree(trace)[["name", "depth", "count", "total_ns", "self_ns"]].values.tolist()
    [['linear', 0, 2, 22, 7], ['mm', 1, 2, 10, 10], ['add', 1, 1, 5, 5]]
    """
    host = on_host(trace, window).where(step=step, phase=phase, category=category, track=track, line=line)
    nodes = stack_nodes(trace, host, by_thread, shown_frames(trace) if fold_libraries else None)
    table = nodes.table
    table["count"] = node_sums(nodes, nodes.of_slice[nodes.rows])
    table["self_ns"] = node_sums(nodes, nodes.of_slice[host.rows], host.self_ns)
    table["device_self_ns"] = device_sums(trace, nodes, on_device(trace, window))
    return _listed(table, totals=True)


def bottom_up(
    trace: Trace,
    *,
    window: WindowLike = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    track: int | Iterable[int] | None = None,
    line: Texts = None,
    fold_libraries: bool = False,
    levels: int | None = None,
    least_share: float = 0.0,
) -> pd.DataFrame:
    """List names by self time and, below each, the callers for which it spent that time.

    Parameters
    ----------
    trace, window, step, phase, category, track, line, fold_libraries
        As in `call_tree`.
    levels : int, optional
        Maximum number of levels of callers. Default: no limit.
    least_share : float
        Leave out the callers of rows with less than this share of all self time, and of all device time.

    Returns
    -------
    DataFrame
        The columns of `call_tree`, each row before its callers, by self time, longest first.

        A row without a parent is everything with its name and category. A row below is the part called by
        these callers: counts and self times of callers sum to those of the row above, except for the part
        without a caller. ``total_ns`` and ``device_ns`` count recursion once in each row. ``share`` is
        ``self_ns`` of all.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main: [linear    ][relu    ]
    ... main:  [mm ][add]  [add]
    ... ''')
    >>> bottom_up(trace).head(4)[["name", "depth", "self_ns", "total_ns"]].values.tolist()
    [['add', 0, 10, 10], ['linear', 1, 5, 5], ['relu', 1, 5, 5], ['relu', 0, 5, 10]]
    """
    if levels is not None and levels < 0:
        raise OptionError(f"levels={levels}: the number of callers cannot be negative; 0 lists none")
    kept: dict[str, Any] = {"step": step, "phase": phase, "category": category, "track": track, "line": line}
    tree = call_tree(trace, window=window, fold_libraries=fold_libraries, **kept)
    return from_below(tree, levels, least_share)


def from_below(tree: pd.DataFrame, levels: int | None = None, least_share: float = 0.0) -> pd.DataFrame:
    """Invert a call tree (without threads) into the table of `bottom_up`."""
    label, _ = number_rows(tree["name"], tree["category"])
    return _listed(with_callers(tree, np.arange(len(tree)), label, levels, least_share), totals=False)


def with_callers(
    tree: pd.DataFrame, rows: IntArray, label: IntArray, levels: int | None = None, least_share: float = 0.0
) -> pd.DataFrame:
    """Merge rows of a call tree with the same label, then their callers, level by level; parents first."""
    up = tree["parent"].to_numpy(dtype=np.int64, na_value=-1)
    size = len(tree)
    weights = {name: tree[name].to_numpy() for name in ("count", *_TIMES)}
    outermost = np.ones(size, dtype=bool)
    parts: dict[str, list[IntArray]] = {name: [] for name in ("parent", "depth", "first", *weights)}
    sums = {name: int(tree[name].sum()) for name in ("self_ns", "device_self_ns")}
    least = {name: least_share * whole for name, whole in sums.items() if whole}
    of, at, made = np.full(size, -1, np.int64), np.arange(size), 0
    level = 0
    while len(rows) and (levels is None or level <= levels):
        code, keys = pd.factorize((of[rows] + 1) * (int(label.max()) + 1) + label[at[rows]])
        first = np.unique(code, return_index=True)[1]
        parts["parent"].append(of[rows][first])
        parts["depth"].append(np.full(len(keys), level))
        parts["first"].append(at[rows][first])
        of[rows], at[rows] = made + code, up[at[rows]]
        # a node inside its own kind stays so with more callers, so only the others are checked again
        again = rows if level == 0 else rows[~outermost[rows]]
        outermost[again] = ~nested_in_own_group(of, up, again)[again]
        for name, values in weights.items():
            counted = outermost[rows] if name in ("total_ns", "device_ns") else 1
            parts[name].append(np.bincount(code, values[rows] * counted).astype(np.int64))
        worth = np.full(len(keys), not least)
        for name, limit in least.items():
            worth |= parts[name][-1] >= limit
        rows, made, level = rows[(at[rows] >= 0) & worth[code]], made + len(keys), level + 1
    joined = {name: np.concatenate(values or [np.empty(0, np.int64)]) for name, values in parts.items()}
    first = joined.pop("first")
    named = tree[["name", "category"]].iloc[first].reset_index(drop=True)
    return pd.concat([named, pd.DataFrame(joined)], axis=1)


def heaviest_stack(
    trace: Trace,
    *,
    name: str | None = None,
    by: str = "total_ns",
    window: WindowLike = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    track: int | Iterable[int] | None = None,
    line: Texts = None,
    fold_libraries: bool = False,
) -> pd.DataFrame:
    """Follow the longest calls from the outermost caller down.

    Parameters
    ----------
    trace, window, step, phase, category, track, line, fold_libraries
        As in `call_tree`.
    name : str, optional
        Follow the longest path to this name. Default: start at the longest root.
    by : {"total_ns", "device_ns"}
        Measure by time on the host, or by the device work launched.

    Returns
    -------
    DataFrame
        Rows of `call_tree`, outermost first, each the caller of the next; empty if nothing has the
        name, or took any time.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main: [linear    ][relu ]
    ... main:  [mm ][add]
    ... ''')
    >>> heaviest_stack(trace)["name"].tolist(), heaviest_stack(trace, name="add")["name"].tolist()
    (['linear', 'mm'], ['linear', 'add'])
    """
    kept: dict[str, Any] = {"step": step, "phase": phase, "category": category, "track": track, "line": line}
    tree = call_tree(trace, window=window, fold_libraries=fold_libraries, **kept)
    return heaviest_of(tree, name, by)


def heaviest_of(tree: pd.DataFrame, name: str | None = None, by: str = "total_ns") -> pd.DataFrame:
    """Return the rows of a call tree's heaviest stack, renumbered."""
    check_option("the heaviest stack cannot be found by", by, _TIMES[::2])
    up = tree["parent"].to_numpy(dtype=np.int64, na_value=-1)
    weight = tree[by].to_numpy()
    among = np.flatnonzero(up < 0 if name is None else (tree["name"] == name).to_numpy())
    path: list[int] = []
    if len(among) and (top := int(among[np.argmax(weight[among])])) >= 0 and weight[top] > 0:
        at = top
        while at >= 0:
            path.insert(0, at)
            at = int(up[at])
        below = np.flatnonzero(up == top)
        while len(below) and weight[below].max() > 0:
            path.append(int(below[np.argmax(weight[below])]))
            below = np.flatnonzero(up == path[-1])
    rows = tree.iloc[path].reset_index(drop=True)
    return rows.assign(node=np.arange(len(rows)), parent=optional(np.arange(len(rows)) - 1))


def _listed(table: pd.DataFrame, *, totals: bool) -> pd.DataFrame:
    """Order rows: each before the rows below it, and siblings longest first."""
    parent, depth = table["parent"].to_numpy(), table["depth"].to_numpy()
    if totals:
        own = (table[name].to_numpy() for name in ("self_ns", "device_self_ns"))
        total, device = (with_children(parent, depth, values) for values in own)
        table = table.assign(total_ns=total, device_ns=device)
    keys = ("total_ns", "device_ns") if totals else ("self_ns", "device_self_ns", "total_ns")
    size = with_children(parent, depth, np.ones(len(table), np.int64))
    position, _ = placed(parent, depth, size, [-table[name].to_numpy() for name in keys], gap=1)
    order = np.argsort(position)
    table = table.iloc[order].reset_index(drop=True)
    table["parent"] = optional(np.append(position, -1)[parent[order]])
    table["node"] = np.arange(len(table))
    whole = table.loc[table["depth"] == 0, keys[0]].sum()
    table["share"] = table[keys[0]] / max(int(whole), 1)
    return table[list(_COLUMNS)]


_LOG_COLUMNS = ("ts", "dur", "self_ns", "depth", "name", "category", "track")


def event_log(
    trace: Trace,
    *,
    window: WindowLike = None,
    name: Texts = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    track: int | Iterable[int] | None = None,
    line: Texts = None,
    fold_libraries: bool = False,
) -> pd.DataFrame:
    """List slices in the order in which they began, on the host and on devices.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns: keep slices that touch it, with uncut times.
    step, track : int or iterable of int, optional
        Keep slices of these.
    name, phase, category, line : str or iterable of str, optional
        Keep slices of these; a line is written as ``cell:12``.
    fold_libraries : bool
        Leave out what `call_tree` folds.

    Returns
    -------
    DataFrame
        One row per slice, by start, then longest first.

        - ``slice`` int64: its row in ``trace.slices``;
        - ``ts``, ``dur``, ``self_ns`` int64: start, duration and self time, not cut at the window;
        - ``depth`` int64: number of slices of its track around it;
        - ``name``, ``category``, ``track_name`` category; ``track`` int64.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [linear ][relu ]
    ... stream 7:     [gemm  ]
    ... ''')
    >>> event_log(trace)[["ts", "name", "track_name"]].values.tolist()
    [[0, 'linear', 'main'], [4, 'gemm', 'stream 7'], [9, 'relu', 'main']]
    """
    slices = trace.slices
    ts, end = bounds(slices)
    keep = shown_frames(trace) if fold_libraries else np.ones(len(slices), dtype=bool)
    if window is not None:
        cut = Window.of(window)
        keep &= (ts < cut.end) & ((end > cut.start) | (ts >= cut.start))
    rows = np.flatnonzero(keep)
    scope = Scope(slices, rows, ts[rows], end[rows], slices["self_ns"].to_numpy()[rows])
    scope = scope.where(step=step, phase=phase, category=category, line=line, name=name, track=track)
    table = slices[list(_LOG_COLUMNS)].iloc[scope.rows].reset_index(drop=True)
    table = table.astype({"depth": "int64", "track": "int64"})
    table.insert(0, "slice", scope.rows)
    code, names = pd.factorize(trace.tracks["name"])
    at = pd.Index(trace.tracks["track"]).get_indexer(table["track"])
    table["track_name"] = pd.Categorical.from_codes(code[at], categories=names.astype("str"))
    return table
