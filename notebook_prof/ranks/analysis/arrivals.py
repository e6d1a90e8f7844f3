"""Arrivals at collectives: waiting, transfer, and stragglers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...analysis.distributed.collectives import SYMMETRIC
from .clocks import on_common_clock

_SLACK_NS: Final = 1_000_000


def arrivals(matched: pd.DataFrame, clocks: pd.DataFrame) -> pd.DataFrame:
    """Divide each matched collective into waiting for the last rank, and transfer.

    Rows of at least two aligned ranks, on the common clock (ns): ``late_ns`` after the first rank,
    ``wait_ns`` until the last rank's start, ``transfer_ns`` the rest, ``skew_ns`` from first to last start,
    ``last`` if no other rank came as late.
    """
    # Matches are dropped if one rank left before another arrived, by more than the clocks' residual and 1 ms:
    # they are not the same collective.
    usable = clocks.loc[clocks["aligned"], "rank"]
    frame = matched[matched["match"].notna() & matched["rank"].isin(usable)]
    frame = frame[frame.groupby("match")["rank"].transform("nunique") > 1]
    start = on_common_clock(frame["unix_ns"], frame["rank"], clocks)
    frame = frame.assign(start_ns=start, end_ns=start + frame["dur"].to_numpy(np.int64))
    frame = frame[_possible(frame, clocks)]
    frame = frame.sort_values(["match", "start_ns"], kind="stable").reset_index(drop=True)
    group = frame.groupby("match")["start_ns"]
    first, last = group.transform("min"), group.transform("max")
    frame["late_ns"] = frame["start_ns"] - first
    frame["wait_ns"] = np.minimum(last - frame["start_ns"], frame["dur"])
    frame["transfer_ns"] = frame["dur"] - frame["wait_ns"]
    at_end = frame["start_ns"] == last
    frame["last"] = at_end & (at_end.groupby(frame["match"]).transform("sum") == 1)
    frame["skew_ns"] = last - first
    return frame


def _possible(frame: pd.DataFrame, clocks: pd.DataFrame) -> Any:
    """Return whether the ranks of a match were all in the collective at some time."""
    residual = float(clocks["residual_ns"].max()) if "residual_ns" in clocks else 0.0
    slack = _SLACK_NS + (min(residual, _SLACK_NS) if np.isfinite(residual) else 0.0)
    match = frame["match"]
    begun = frame["start_ns"].groupby(match).transform("max")
    left = frame["end_ns"].groupby(match).transform("min")
    return (begun <= left + slack) | ~frame["operation"].isin(SYMMETRIC)


def stragglers(arrived: pd.DataFrame) -> pd.DataFrame:
    """Order the ranks by how late they arrive at shared collectives.

    Parameters
    ----------
    arrived : DataFrame
        See `arrivals`.

    Returns
    -------
    DataFrame
        The latest rank first; empty without shared collectives.

        - ``rank`` int32; ``collectives`` int64; ``late_ns`` int64: sum over them; ``mean_late_ns`` float64;
        - ``last_count`` int64, ``last_share`` float64: how often it came last;
        - ``wait_ns``, ``transfer_ns`` int64: sums. A straggler waits least;
        - ``before`` str, ``before_ns`` int64: the name that took most of its time before the collectives at
          which it arrived last; missing if it never did.

    Notes
    -----
    The order is by arrival, not by step time: collectives make the steps of all ranks equally long, and the
    straggler spends the least time in communication.

    Examples
    --------
    >>> rows = {"rank": [0, 1], "match": 0, "late_ns": [0, 50], "wait_ns": [50, 0], "transfer_ns": 40}
    >>> frame = pd.DataFrame({**rows, "last": [False, True], "before": ["mm", "sleep"], "before_ns": [5, 45]})
    >>> stragglers(frame)[["rank", "late_ns", "last_share", "before"]].values.tolist()[0]
    [1, 50, 1.0, 'sleep']
    """
    by_rank = arrived.groupby("rank")
    table = by_rank.agg(
        collectives=("match", "size"),
        late_ns=("late_ns", "sum"),
        mean_late_ns=("late_ns", "mean"),
        last_count=("last", "sum"),
        last_share=("last", "mean"),
        wait_ns=("wait_ns", "sum"),
        transfer_ns=("transfer_ns", "sum"),
    ).reset_index()
    table = table.astype({"rank": "int32", "last_count": "int64", "last_share": "float64"})
    table = table.merge(_most_before(arrived), on="rank", how="left")
    table["before_ns"] = table["before_ns"].fillna(0).astype("int64")
    table = table.sort_values(["mean_late_ns", "rank"], ascending=[False, True], kind="stable")
    return table.reset_index(drop=True)


def _most_before(arrived: pd.DataFrame) -> pd.DataFrame:
    last = arrived[arrived["last"] & arrived["before"].notna()]
    sums: Any = last.groupby(["rank", "before"], as_index=False)["before_ns"].sum()
    most = sums.sort_values("before_ns", kind="stable").drop_duplicates("rank", keep="last")
    return most.astype({"rank": "int32"})


def with_margins(arrived: pd.DataFrame) -> pd.DataFrame:
    """Add how much later the last rank arrived at each collective than the one before it."""
    ordered = arrived.sort_values(["match", "start_ns"], kind="stable")
    gap = ordered["start_ns"].diff().fillna(0).astype("int64")  # a float cannot hold all digits of Unix times
    return ordered.assign(margin_ns=gap.groupby(ordered["match"]).transform("last"))
