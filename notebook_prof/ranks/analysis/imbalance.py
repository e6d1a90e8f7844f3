"""What differs between ranks that should do the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd


def imbalance(frame: pd.DataFrame, value: str, by: Sequence[str] = ("name",)) -> pd.DataFrame:
    """Compare one column between ranks, group by group.

    Parameters
    ----------
    frame : DataFrame
        With a `rank` column, as `RankSet.map` gives it.
    value : str
        Column to compare, as in ``device_ns``.
    by : sequence of str
        Columns that say what is compared with what.

    Returns
    -------
    DataFrame
        The largest difference first.

        - the columns of `by`; ``ranks`` int64: how many have it;
        - ``mean``, ``lowest``, ``highest`` float64, in the unit of `value`, with ``lowest_rank`` and
          ``highest_rank`` int32: over the ranks that have it;
        - ``lost`` float64: the highest less the mean, what balance would save;
          ``imbalance`` float64: that, as a share of the mean.

    Examples
    --------
    >>> table = pd.DataFrame({"rank": [0, 1, 2], "name": "aten::mm", "device_ns": [10, 10, 40]})
    >>> imbalance(table, "device_ns")[["highest_rank", "lost", "imbalance"]].values.tolist()
    [[2.0, 20.0, 1.0]]
    """
    keys = list(by)
    summed = frame.groupby([*keys, "rank"], as_index=False, observed=True, dropna=False)[value].sum()
    summed[value] = summed[value].astype("float64")
    groups: Any = summed.groupby(keys, observed=True, dropna=False)
    table = groups[value].agg(ranks="size", mean="mean", lowest="min", highest="max")
    ordered = summed.sort_values([value, "rank"], ascending=[True, False], kind="stable")
    ends: Any = ordered.groupby(keys, observed=True, dropna=False)["rank"]
    table["lowest_rank"], table["highest_rank"] = ends.first(), ends.last()
    table["lost"] = table["highest"] - table["mean"]
    table["imbalance"] = table["lost"] / table["mean"].where(table["mean"] > 0)
    table = table.reset_index().astype({"ranks": "int64", "lowest_rank": np.int32, "highest_rank": np.int32})
    return table.sort_values("lost", ascending=False, kind="stable").reset_index(drop=True)
