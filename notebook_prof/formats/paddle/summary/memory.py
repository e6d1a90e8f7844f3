"""Allocations by the event in which they happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ....analysis.scope import ints
from ....trace.arrays import IntArray
from .events import Events

_COLUMNS = ("allocation_count", "free_count", "allocation_bytes", "free_bytes", "increase_bytes")


def memory_table(events: Events) -> pd.DataFrame:
    """Sum allocations and frees by place and event.

    Returns
    -------
    DataFrame
        ``position_in_order`` str (``Place(cpu)``, ``Place(gpu:0)``), ``name``, ``type`` (``Allocated``),
        ``allocation_count free_count allocation_bytes free_bytes increase_bytes`` int64, and
        ``peak_allocated_bytes peak_reserved_bytes`` of the place; by increase. What happens in an inner event
        counts for its operator; in what else is right inside an operator, as Paddle 3's kernel launches
        are, it counts for both, as in Paddle's own table: do not add these rows up.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> memory_table(Events(TraceBuilder().seal())).empty
    True
    """
    table = events.trace.allocations
    home = ints(table["slice"])
    with_slice = np.flatnonzero(home >= 0)
    home = _on_host(events, home[with_slice])
    rows, labels = _credited(events, home)
    size = table["bytes"].to_numpy()[with_slice[rows]]
    device = table["device"].to_numpy()[with_slice[rows]]
    order = np.lexsort((with_slice[rows], events.position_in_order[labels]))
    frame = pd.DataFrame(
        {
            "device": device,
            "name": events.names[labels],
            "allocation_count": size > 0,
            "free_count": size < 0,
            "allocation_bytes": np.maximum(size, 0),
            "free_bytes": np.maximum(-size, 0),
            "increase_bytes": size,
        }
    ).iloc[order]
    totals = frame.groupby(["device", "name"], sort=False)[list(_COLUMNS)].sum().astype("int64").reset_index()
    totals = totals.sort_values("increase_bytes", ascending=False, kind="stable", ignore_index=True)
    totals.insert(2, "type", "Allocated")
    peaks = _peaks(events)
    totals.insert(0, "place", _place_names(totals.pop("device")))
    joined = totals.merge(peaks.astype({"place": object}), on="place", how="left")
    return joined.sort_values("place", kind="stable", ignore_index=True)


def _on_host(events: Events, home: IntArray) -> IntArray:
    """Return the innermost event that is no runtime call; -1 where there is none."""
    home = home.copy()
    todo = np.flatnonzero(~events.host[home])
    while len(todo):
        home[todo] = events.parent[home[todo]]
        todo = todo[(home[todo] >= 0) & ~events.host[home[todo]]]
    return home


def _credited(events: Events, home: IntArray) -> tuple[IntArray, IntArray]:
    """Return pairs of memory event and host event to which it is credited."""
    inside = home >= 0
    own = np.flatnonzero(inside & ~events.of("OperatorInner")[home])
    above = np.where(inside, events.parent[home], -1)
    up = np.flatnonzero((above >= 0) & events.of("Operator")[above])
    if not events.own_types:  # nested operators of other frameworks are not credited twice
        up = up[:0]
    return np.concatenate([own, up]), np.concatenate([home[own], above[up]])


def _place_names(devices: pd.Series[int]) -> pd.Series[Any]:
    names = ["Place(cpu)" if device < 0 else f"Place(gpu:{device})" for device in devices]
    return pd.Series(names, dtype=object)


def _peaks(events: Events) -> pd.DataFrame:
    tables = events.trace.metadata.get("tables")
    table = tables.get("memory_places") if isinstance(tables, dict) else None
    if isinstance(table, pd.DataFrame):
        return table[["place", "peak_allocated_bytes", "peak_reserved_bytes"]]
    groups = events.trace.allocations.groupby("device")[["allocated", "reserved"]].max().reset_index()
    return pd.DataFrame(
        {
            "place": _place_names(groups["device"]),
            "peak_allocated_bytes": groups["allocated"],
            "peak_reserved_bytes": groups["reserved"],
        }
    )
