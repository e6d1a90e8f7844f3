"""Communication by operation, group and size; differences between ranks, and groups of equal ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...analysis.distributed.collectives import bus_factor
from ...errors import checked_columns
from ...trace.arrays import number_rows
from ...trace.schema import Table

BY: Final = ("operation", "group", "size", "rank", "step", "name")


def communication(
    matched: pd.DataFrame, arrived: pd.DataFrame, *, by: str | Sequence[str] = ("operation", "group", "size")
) -> pd.DataFrame:
    """Sum collectives, divided into waiting and transfer.

    Parameters
    ----------
    matched : DataFrame
        Collectives of all ranks, numbered by ``match``.
    arrived : DataFrame
        Arrivals of all ranks at shared collectives.
    by : str or sequence of str
        Of ``operation group size rank step name``; `size` is the message's size rounded down to a power of
        two.

    Returns
    -------
    DataFrame
        Longest first; no rows without collectives.

        - the columns of `by` (`size` as ``size_bytes`` Int64, missing without recorded sizes);
        - ``count`` int64: over all ranks; ``shared`` int64: those shared with other ranks; ``ranks`` int64;
        - ``total_ns`` int64; ``wait_ns``, ``transfer_ns`` int64: of the shared ones; they sum to their time;
        - ``bytes`` Int64: sum of the recorded message sizes;
        - ``algorithm_bytes_per_s``, ``bus_bytes_per_s`` float64: of those, over their transfer, or over their
          whole duration if the wait is unknown; NaN without sizes.

    Raises
    ------
    OptionError
        If collectives cannot be grouped by one of `by`.

    Notes
    -----
    Algorithm bandwidth is message size over time; bus bandwidth multiplies it by the factor of the operation
    (``2(n-1)/n`` for all-reduce). Source: PERFORMANCE.md of NVIDIA's nccl-tests.

    Examples
    --------
    >>> rows = {"rank": [0, 1], "unix_ns": [0, 5], "dur": [15, 10], "operation": "all_reduce", "group": ""}
    >>> frame = pd.DataFrame({**rows, "group_size": 2, "bytes": 100, "match": 0, "match_ranks": 2})
    >>> shared = frame.assign(wait_ns=[5, 0], transfer_ns=10)
    >>> communication(frame, shared)[["total_ns", "wait_ns", "bus_bytes_per_s"]].values.tolist()
    [[25.0, 5.0, 10000000000.0]]
    """
    names = checked_columns("collectives cannot be grouped by", by, BY)
    columns = ["size_bytes" if name == "size" else name for name in names]
    frame = _with_parts(matched, arrived)
    table = frame.groupby(columns, dropna=False, sort=False, observed=True).agg(
        count=("dur", "size"),
        shared=("is_shared", "sum"),
        ranks=("rank", "nunique"),
        total_ns=("dur", "sum"),
        wait_ns=("wait_ns", "sum"),
        transfer_ns=("transfer_ns", "sum"),
        bytes=("bytes", "sum"),
        told=("is_told", "any"),
        seconds=("timed_s", "sum"),
        bus=("bus_bytes", "sum"),
    )
    table = table.reset_index()
    seconds = table["seconds"].where(table["seconds"] > 0)
    table["bytes"] = table["bytes"].astype("Int64").where(table["told"])
    table["algorithm_bytes_per_s"] = (
        table["bytes"].astype("Float64").to_numpy(np.float64, na_value=np.nan) / seconds
    )
    table["bus_bytes_per_s"] = table["bus"].where(table["bytes"].notna().to_numpy()) / seconds
    table = table.drop(columns=["seconds", "bus", "told"]).astype({"shared": "int64"})
    return table.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)


def _with_parts(matched: pd.DataFrame, arrived: pd.DataFrame) -> pd.DataFrame:
    parts = arrived[["rank", "unix_ns", "match", "wait_ns", "transfer_ns"]]
    frame = matched.merge(parts, on=["rank", "unix_ns", "match"], how="left")
    frame["is_shared"] = frame["wait_ns"].notna()
    timed = frame["transfer_ns"].fillna(frame["dur"]).to_numpy(np.float64)
    frame["wait_ns"] = frame["wait_ns"].fillna(0).astype("int64")
    frame["transfer_ns"] = frame["transfer_ns"].fillna(0).astype("int64")
    size = frame["bytes"].astype("Int64").to_numpy(np.float64, na_value=np.nan)
    with_bytes = np.isfinite(size)
    frame["is_told"] = with_bytes
    frame["timed_s"] = np.where(with_bytes, timed / 1e9, 0.0)
    members = frame["group_size"].astype("Int64").fillna(frame["match_ranks"]).to_numpy(np.int64)
    pair, pairs = number_rows(frame["operation"], members)
    factor = np.array([bus_factor(str(operation), int(count)) for operation, count in pairs])
    frame["bus_bytes"] = np.where(with_bytes, size, 0.0) * (factor[pair] if len(pairs) else 1.0)
    rounded: Any = np.where(with_bytes & (size > 0), 2.0 ** np.floor(np.log2(np.maximum(size, 1))), size)
    frame["size_bytes"] = pd.array(np.where(with_bytes, rounded, 0).astype(np.int64), dtype="Int64")
    frame.loc[~with_bytes, "size_bytes"] = pd.NA
    return frame


def imbalance(frame: pd.DataFrame, value: str, by: Sequence[str] = ("name",)) -> pd.DataFrame:
    """Compare one column (in its unit) between ranks, by group, the largest difference first.

    ``lost`` is the maximum minus the mean, which is what balance would save; ``imbalance`` is that as a share
    of the mean.
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


METRICS: Final = (
    "step_ns", "compute_ns", "communication_ns", "exposed_ns", "memory_ns", "data_ns", "idle_ns",
)  # fmt: skip
_FAR: Final = 3.5
_TO_SIGMA: Final = 1.4826
_SHARE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Folding:
    """Ranks grouped by the operators they run."""

    # One row per rank: ``rank`` int32, ``group`` int64 (0 is the largest), ``fingerprint`` str, ``distance``
    # float64 from the group's middle, ``representative`` bool, ``outlier`` bool, ``why`` str.
    ranks: pd.DataFrame
    # One row per group and metric: ``group metric ranks low middle high representative outliers``; `low` and
    # `high` are the 5th and 95th percentile over the ranks, in ns.
    bands: pd.DataFrame


def fingerprints(operators: pd.DataFrame) -> pd.Series[Any]:
    """Return a short text per rank, equal for ranks that run nearly the same operators."""
    # Ranks are alike if their shares of calls by name differ by at most 5 % (Bray-Curtis); each rank, in
    # order, joins the first one that it resembles. Shares are used so that ranks with more steps match, too.
    counts = operators.pivot_table("count", "rank", "name", "sum", fill_value=0, observed=True)
    shares = counts.to_numpy(np.float64)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1)
    leaders: list[int] = []
    marks = []
    for row in range(len(shares)):
        apart = np.abs(shares[leaders] - shares[row]).sum(axis=1) / 2
        near = np.flatnonzero(apart <= _SHARE)
        if not len(near):
            leaders.append(row)
        leader = leaders[int(near[0])] if len(near) else row
        marks.append(hashlib.blake2b(shares[leader].tobytes(), digest_size=6).hexdigest())
    return pd.Series(marks, index=counts.index, dtype="str")


def fold(breakdown: pd.DataFrame, marks: pd.Series[Any]) -> Folding:
    """Group the ranks, choose a representative of each group, and name the outliers.

    Parameters
    ----------
    breakdown : DataFrame
        A row a rank and step; see `notebook_prof.analysis.breakdown`.
    marks : Series of str
        By rank: equal texts for ranks that run nearly the same operators. Ranks without a text each form
        their own group.

    Returns
    -------
    Folding

    Notes
    -----
    A rank's figures are medians over its steps. The representative is the rank nearest to the group's median
    in all metrics, each divided by its spread (1.4826 × median absolute deviation, at least 5 % of the median
    step). An outlier is further than 3.5 spreads from the median in some metric (Iglewicz and Hoaglin, 1993).

    Examples
    --------
    >>> table = pd.DataFrame({"rank": range(5), "step": 0, "step_ns": 100, "compute_ns": [50] * 4 + [90]})
    >>> table = table.assign(**{m: 0 for m in METRICS if m not in table})
    >>> folded = fold(table, pd.Series("a", index=range(5)))
    >>> folded.ranks.loc[folded.ranks["outlier"], ["rank", "why"]].values.tolist()
    [[4, 'compute +80 %']]
    """
    figures = breakdown.groupby("rank")[list(METRICS)].median().astype("float64")
    mark = marks.reindex(figures.index).fillna("")
    sizes = mark.value_counts(sort=True)
    number = {text: i for i, text in enumerate(sizes.index)}
    rows, bands = [], []
    for text, group in number.items():
        part = figures[mark == text]
        own, band = _group(part, group)
        rows.append(own.assign(fingerprint=text))
        bands.append(band)
    if not rows:
        return Folding(_RANKS.empty(), pd.DataFrame(columns=_BAND))
    ranks = pd.concat(rows).sort_values("rank", kind="stable").reset_index(drop=True)
    return Folding(ranks[_RANKS.names], pd.concat(bands, ignore_index=True)[_BAND])


_RANKS: Final = Table.of(
    "folding",
    "rank:int32 group:int64 fingerprint:str distance:float64 representative:bool outlier:bool why:str",
)
_BAND: Final = ["group", "metric", "ranks", "low", "middle", "high", "representative", "outliers"]


def _group(part: pd.DataFrame, group: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    middle = part.median()
    least = _SHARE * max(float(middle["step_ns"]), 1.0)
    spread = ((part - middle).abs().median() * _TO_SIGMA).clip(lower=least)
    score = (part - middle) / spread
    distance = np.sqrt((score**2).sum(axis=1))
    far = score.abs() > _FAR
    chosen = int(distance.idxmin())
    metric = score.abs().to_numpy().argmax(axis=1)
    why = []
    for i, (rank, values) in enumerate(zip(part.index, part.to_numpy(), strict=True)):
        column = part.columns[metric[i]]
        why.append(
            _reason(column, float(values[metric[i]]), float(middle[column])) if far.loc[rank].any() else ""
        )
    ranks = pd.DataFrame(
        {
            "rank": part.index.to_numpy(np.int32),
            "group": np.int64(group),
            "distance": distance.to_numpy(),
            "representative": part.index == chosen,
            "outlier": far.any(axis=1).to_numpy(),
            "why": pd.Series(why, dtype="str"),
        }
    )
    band = pd.DataFrame(
        {
            "group": np.int64(group),
            "metric": list(part.columns),
            "ranks": len(part),
            "low": part.quantile(_SHARE).to_numpy(),
            "middle": middle.to_numpy(),
            "high": part.quantile(1 - _SHARE).to_numpy(),
            "representative": chosen,
            "outliers": far.sum().to_numpy(np.int64),
        }
    )
    return ranks, band


def _reason(column: str, value: float, middle: float) -> str:
    name = column.removesuffix("_ns").replace("_", " ")
    if middle <= 0:
        return f"{name} where others have none"
    return f"{name} {100 * (value / middle - 1):+.0f} %"
