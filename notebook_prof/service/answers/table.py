"""The operator table: totals by name, shapes, module or category of what is selected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import OptionError
from ...labels import merged_name
from ...selection import Query, passing
from ...trace.arrays import BoolArray, IntArray
from ..filters import narrowed
from ..packing import Answer, pack
from ..selected_rows import Key, matching_key
from ..store import GROUPINGS, SCOPES, ViewStore

_MOST_ROWS: Final = 1000
_MANY: Final = 500_000
_LONGEST_DETAIL: Final = 600
_TOTALS: Final = ("count", "total_ns", "self_ns", "device_ns", "touched")
_SORTS: Final = ("label", "count", "total_ns", "mean_ns", "min_ns", "max_ns", "self_ns", "device_ns")


_Rows = dict[str, npt.NDArray[Any]]
"""Columns of all rows of the table, one per group on one side; see `_side`."""


# With ``by_side``, total and self are sorted as times of the host; a kernel's self time counts as the
# device's. ``share`` is a share of the self time of all rows of the same side, before the filter.
def table(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return one row per group, with the numbers of ``analysis.operators`` and ``analysis.kernels``."""
    scope = str(request.get("scope", "all"))
    scope = scope if scope in SCOPES else "all"
    by, own, key = _grouped(state, request)
    span = store.trace.span
    window = state.get("window") or (span.start, span.end + 1)
    _, names, details = store.grouping(by)
    labels = store.labels(by)
    only = set(map(merged_name, state[own[0]])) if own and state.get(own[0]) is not None else None
    chosen_groups = None if only is None else np.array([label in only for label in labels], bool)
    everything = _rows(store, by, key, SCOPES["all"], window)
    picked = slice(None) if chosen_groups is None else chosen_groups[everything["group"]]
    content = {
        "by": by,
        "count": int(everything["touched"][picked].sum()),
        "self_ns": int(everything["self_ns"][picked].sum()),
        "device_self_ns": int(everything["self_ns"][everything["on_device"]].sum()),
        "host_range": _range(everything, picked, on_device=False),
        "device_range": _range(everything, picked, on_device=True),
        "error": "",
    }
    query, narrow, left = Query(), state, own
    try:
        query, narrow, left = narrowed(store, Query.parse(str(request.get("filter", ""))), state, own)
    except OptionError as error:
        content["error"] = str(error)
    table_key = matching_key(narrow, without=left)
    same = scope == "all" and table_key == key
    rows = everything if same else _rows(store, by, table_key, SCOPES[scope], window)
    group, on_device = rows["group"], rows["on_device"]
    chosen = np.arange(len(group))
    try:
        chosen = chosen[passing(_frame(by, rows, labels, details), query)] if query else chosen
    except OptionError as error:
        content["error"] = str(error)
    wait = np.append(store.waits, False)[names[group]]  # name -1 (none) reads the last
    content["waits"] = int(wait[chosen].sum())
    if not request.get("waits", True):
        chosen = chosen[~wait[chosen]]
    order = chosen[_order(request, rows, labels, chosen)]
    start = max(0, int(request.get("start", 0)))
    stop = start + max(1, min(int(request.get("top", 200)), _MOST_ROWS))
    page = order[start:stop]
    if chosen_groups is not None and start == 0:  # selected rows come with the first page, wherever they are
        page = np.append(page, order[stop:][chosen_groups[group[order[stop:]]]])[:_MOST_ROWS]
    shown = group[page].tolist()
    second = details if by == "shapes" else store.module_classes if by == "module" else None
    content |= {
        "rows": len(chosen),
        "start": start,
        "label": [labels[k] for k in shown],
        "detail": ["" if second is None else second[k][:_LONGEST_DETAIL] for k in shown],
    }
    columns: dict[str, npt.NDArray[Any]] = {
        "name": names[group[page]].astype(np.uint32),
        "side": on_device[page].astype(np.uint8),
        "share": rows["share"][page],
        "waits": wait[page].astype(np.uint8),
    }
    for name in ("count", "total_ns", "min_ns", "max_ns", "self_ns", "device_ns"):
        columns[name] = rows[name][page].astype(np.float64)
    return pack(content, columns)


def _range(rows: _Rows, picked: BoolArray | slice, *, on_device: bool) -> list[int]:
    """Return the shortest and the longest slice of some rows on one side; empty if unknown."""
    known = (rows["on_device"][picked] == on_device) & (rows["touched"][picked] > 0)
    low, high = rows["min_ns"][picked][known], rows["max_ns"][picked][known]
    return [int(low.min()), int(high.max())] if high.any() else []


def _extremes(
    store: ViewStore, by: str, key: Key, side: str, window: tuple[int, int]
) -> tuple[IntArray, IntArray]:
    """Return the columns ``min_ns`` and ``max_ns`` of `_side`, one value per group."""
    c, size = store.columns, len(store.labels(by))
    low, high = np.full(size, np.iinfo(np.int64).max), np.zeros(size, np.int64)
    if store.choices.count(key := store.effective(key)) > _MANY:
        return np.zeros(size, np.int64), high
    slices = store.choices.slices(key)
    slices = np.flatnonzero(store.side(side)) if slices is None else slices[store.side(side)[slices]]
    group = store.grouping(by)[0][slices]
    kept = (group >= 0) & (c.ts[slices] < window[1])
    kept &= (c.ts[slices] >= window[0]) | (c.ts[slices] + c.dur[slices] > window[0])
    np.minimum.at(low, group[kept], c.dur[slices[kept]])
    np.maximum.at(high, group[kept], c.dur[slices[kept]])
    return np.where(low > high, 0, low), high


def _frame(by: str, rows: _Rows, labels: list[str], details: list[str]) -> pd.DataFrame:
    """Return the rows under the column names of ``p.operators()`` and ``p.kernels()``, for the filter."""
    group = rows["group"].tolist()
    out: dict[str, Any] = {"module" if by == "module" else "name": [labels[k] for k in group]}
    if by == "shapes":
        out["shapes"] = [details[k] for k in group]
    out |= {name: rows[name] for name in ("count", "total_ns", "self_ns", "device_ns", "share")}
    out["mean_ns"] = rows["total_ns"] / np.maximum(rows["count"], 1)
    return pd.DataFrame(out)


def _grouped(state: Mapping[str, Any], request: Mapping[str, Any]) -> tuple[str, tuple[str, ...], Key]:
    """Return the grouping, the dimensions that do not filter it, and the clauses that do."""
    by = str(request.get("by", "name"))
    by = by if by in GROUPINGS else "name"
    own = {"name": ("name",), "category": ("category",)}.get(by, ())
    return by, own, matching_key(state, without=own)


def _rows(store: ViewStore, by: str, key: Key, sides: tuple[str, ...], window: tuple[int, int]) -> _Rows:
    parts = [_side(store, by, key, side, window) for side in sides]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _side(store: ViewStore, by: str, key: Key, side: str, window: tuple[int, int]) -> _Rows:
    totals = store.groups(by, key, side).totals(int(window[0]), int(window[1]), store.columns.row_below)
    present = totals.touched > 0
    if not any(dimension == "category" for dimension, _ in key):
        present |= totals.device_ns > 0
    group = np.flatnonzero(present)
    own = totals.self_ns[group]
    low, high = _extremes(store, by, key, side, window)
    return {
        "group": group,
        **{name: getattr(totals, name)[group] for name in _TOTALS},
        # the shortest and the longest slice that touches the window; 0 if unknown, or for very many slices
        "min_ns": low[group],
        "max_ns": high[group],
        "share": own / max(int(own.sum()), 1),
        "on_device": np.full(len(group), side == "device"),
    }


def _order(
    request: Mapping[str, Any], rows: _Rows, labels: list[str], chosen: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    sort = str(request.get("sort", "self_ns"))
    if sort == "label":
        keys = [labels[k].casefold() for k in rows["group"][chosen].tolist()]
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
        return order[::-1] if request.get("descending", False) else order
    sort = sort if sort in _SORTS else "self_ns"
    mean = sort == "mean_ns"
    values = (rows["total_ns"] / np.maximum(rows["count"], 1) if mean else rows[sort])[chosen]
    if request.get("by_side"):
        device = rows["on_device"][chosen]
        if sort == "device_ns":
            values = np.where(device, rows["self_ns"][chosen], values)
        elif sort != "count":
            values = np.where(device, 0, values)
    return np.argsort(-values if request.get("descending", True) else values, kind="stable")
