"""Finds the slices that rows of separate tables describe."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from .arrays import IntArray
from .intervals import as_ints
from .trace import Trace

ARGUMENTS: Final = "event_arguments"
DEVICE_TABLES: Final = {"device_events": "start_unix_ns", "collectives": "start_ns"}
"""Tables that describe slices on devices, and the column with their start in Unix nanoseconds."""


def event_table(trace: Trace, name: str) -> pd.DataFrame | None:
    """Return a table of ``trace.metadata["tables"]`` that describes slices; None if missing or empty."""
    table = (trace.metadata.get("tables") or {}).get(name)
    if not isinstance(table, pd.DataFrame) or not len(table):
        return None
    needed = {"track", "start_unix_ns", "dur_ns", "name", "arguments"}
    if name in DEVICE_TABLES:
        needed = {"device", "stream", DEVICE_TABLES[name]}
    return table if needed <= set(table.columns) else None


def slice_rows_of(trace: Trace, name: str) -> IntArray:
    """Return, for each row of an event table, its row in ``trace.slices``; -1 if there is none."""
    # ``event_arguments`` identifies its slices by track, start, duration and name; ``device_events`` and
    # ``collectives`` by device, stream and start. The result is -1 for rows of `collectives` on the host, and
    # for slices that were left out. If several slices match, rows and slices are paired in order.
    table = event_table(trace, name)
    if table is None:
        return np.empty(0, np.int64)
    when = DEVICE_TABLES.get(name, "start_unix_ns")
    start = as_ints(table[when].to_numpy()) - int(trace.metadata.get("start_unix_ns", 0))
    slices = trace.slices
    ts = slices["ts"].to_numpy()
    moments = np.unique(start)
    at = np.minimum(np.searchsorted(moments, ts), len(moments) - 1)
    near = np.flatnonzero(moments[at] == ts)
    ours, theirs = {"ts": ts[near]}, {"ts": start}
    if name == ARGUMENTS:
        words = slices["name"].cat.categories
        code = words.get_indexer(table["name"].astype("object"))
        theirs |= {"track": table["track"], "dur": table["dur_ns"], "name": code}
        ours |= {"track": slices["track"].to_numpy()[near], "dur": slices["dur"].to_numpy()[near]}
        ours["name"] = slices["name"].cat.codes.to_numpy()[near]
    else:
        for column in ("device", "stream"):
            theirs[column] = table[column]
            ours[column] = slices[column].to_numpy(dtype=np.int64, na_value=-1)[near]
    return _matched(theirs, ours, near)


def _matched(theirs: dict[str, Any], ours: dict[str, npt.NDArray[Any]], rows: IntArray) -> IntArray:
    """Match the k-th equal entries of `theirs` and `ours`. Returns the rows for `theirs`; -1 for none."""
    left, right = (pd.DataFrame({k: as_ints(v) for k, v in part.items()}) for part in (theirs, ours))
    both = pd.concat([left, right], ignore_index=True)
    number = both.groupby(list(both.columns), sort=False).ngroup().to_numpy()
    for part, first in ((left, 0), (right, len(left))):
        part["group"] = number[first : first + len(part)]
        part["again"] = part.groupby("group").cumcount()
    if "device" in left:
        left.loc[left["device"] < 0, "again"] = -1
    right["row"] = rows
    merged = left[["group", "again"]].merge(right[["group", "again", "row"]], "left", ["group", "again"])
    return as_ints(merged["row"].fillna(-1).to_numpy())


def distinct_facts(table: pd.DataFrame, without: Collection[str]) -> tuple[IntArray, list[dict[str, Any]]]:
    """Return a code for each row, and the distinct rows as dicts without missing values."""
    facts = table.drop(columns=[column for column in table if column in without])
    code = facts.assign(all=0).groupby(["all", *facts], sort=False, dropna=False, observed=True).ngroup()
    rows = facts[~code.duplicated()].astype(object)
    return as_ints(code), [
        {str(k): v.item() if isinstance(v, np.generic) else v for k, v in row.items() if not pd.isna(v)}
        for row in rows.to_dict("records")
    ]
