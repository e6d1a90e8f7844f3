"""Messages from one rank to another: the matrix of sends and receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

POINT_TO_POINT: Final = ("send", "recv")


def point_to_point(collectives: pd.DataFrame) -> pd.DataFrame:
    """Return the sends and receives with a recorded peer, with ``src`` and ``dst`` int64."""
    if "peer" not in collectives:
        return collectives.iloc[:0].assign(src=np.empty(0, np.int64), dst=np.empty(0, np.int64))
    directed = collectives[collectives["operation"].isin(POINT_TO_POINT) & collectives["peer"].notna()]
    own, other = directed["rank"].to_numpy(np.int64), directed["peer"].to_numpy(np.int64)
    sends = (directed["operation"] == "send").to_numpy()
    return directed.assign(src=np.where(sends, own, other), dst=np.where(sends, other, own))


def links(matched: pd.DataFrame, arrived: pd.DataFrame, *, by: Sequence[str] = ()) -> pd.DataFrame:
    """Sum the messages between each pair of ranks.

    Parameters
    ----------
    matched : DataFrame
        Collectives of all ranks, numbered by ``match``.
    arrived : DataFrame
        Arrivals of all ranks at shared collectives.
    by : sequence of str
        Columns that separate messages (``step group operation``), as recorded at one end.

    Returns
    -------
    DataFrame
        One row for each pair that exchanged messages, by `src` and `dst`; empty without recorded peers (torch
        records them for NCCL's send and receive).

        - ``src``, ``dst`` int64: ranks; the columns of `by`; ``count`` int64: messages;
        - ``bytes`` Int64: sum of their sizes, missing without recorded sizes;
        - ``total_ns`` int64: the longer of both ends' durations; ``wait_ns`` int64: waiting for the other
          end; ``transfer_ns`` int64: time with both ends in the message, or the whole duration if the other
          end is unknown;
        - ``bytes_per_s`` float64: over the transfer; NaN without sizes.

    Examples
    --------
    >>> rows = {"rank": [0, 1], "unix_ns": [0, 5], "dur": [15, 10], "operation": ["send", "recv"]}
    >>> frame = pd.DataFrame({**rows, "peer": [1, 0], "bytes": 100, "match": 0})
    >>> shared = frame.assign(wait_ns=[5, 0], transfer_ns=10)
    >>> links(frame, shared)[["src", "dst", "count", "wait_ns", "transfer_ns"]].values.tolist()
    [[0, 1, 1, 5, 10]]
    """
    rows = point_to_point(matched)
    parts = arrived[["rank", "unix_ns", "match", "wait_ns", "transfer_ns"]]
    rows = rows.merge(parts, on=["rank", "unix_ns", "match"], how="left")
    alone = rows["match"].isna().to_numpy()
    single = alone & ~_has_other_end(rows)
    message = np.where(alone, -1 - np.arange(len(rows)), rows["match"].fillna(0).to_numpy(np.int64))
    transfer = rows["transfer_ns"].fillna(rows["dur"])
    rows = rows.assign(message=message, transfer_ns=transfer, wait_ns=rows["wait_ns"].fillna(0))
    rows = rows[~alone | single]
    each: Any = rows.groupby(["src", "dst", "message"], as_index=False).agg(
        bytes=("bytes", "max"),
        total_ns=("dur", "max"),
        wait_ns=("wait_ns", "max"),
        transfer_ns=("transfer_ns", "min"),
        **{name: (name, "first") for name in by},
    )
    each["told"] = each["bytes"].notna()
    each["timed_ns"] = each["transfer_ns"].where(each["told"])
    table = each.groupby(["src", "dst", *by], as_index=False, dropna=False).agg(
        count=("message", "size"),
        bytes=("bytes", "sum"),
        told=("told", "any"),
        total_ns=("total_ns", "sum"),
        wait_ns=("wait_ns", "sum"),
        transfer_ns=("transfer_ns", "sum"),
        timed_ns=("timed_ns", "sum"),
    )
    kinds = dict.fromkeys(["src", "dst", "count", "total_ns", "wait_ns", "transfer_ns"], "int64")
    table = table.astype({**kinds, "bytes": "Int64"})
    table["bytes"] = table["bytes"].where(table["told"])
    seconds = table["timed_ns"].where(table["timed_ns"] > 0) / 1e9
    table["bytes_per_s"] = table["bytes"].astype("Float64").to_numpy(np.float64, na_value=np.nan) / seconds
    return table.drop(columns=["timed_ns", "told"])


def _has_other_end(rows: pd.DataFrame) -> Any:
    """Return unmatched receives whose sender has as many recorded sends, where they are counted."""
    sends = rows[rows["operation"] == "send"].groupby(["src", "dst"]).size()
    count = pd.MultiIndex.from_arrays([rows["src"], rows["dst"]]).map(sends).to_numpy()
    return (rows["operation"] == "recv").to_numpy() & (np.nan_to_num(count.astype(np.float64)) > 0)
