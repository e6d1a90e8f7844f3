"""Many ranks as a few groups: representatives and outliers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

METRICS: Final = (
    "step_ns",
    "compute_ns",
    "communication_ns",
    "exposed_ns",
    "memory_ns",
    "data_ns",
    "idle_ns",
)
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
        return Folding(_no_ranks(), pd.DataFrame(columns=_BAND))
    ranks = pd.concat(rows).sort_values("rank", kind="stable").reset_index(drop=True)
    return Folding(ranks[list(_no_ranks().columns)], pd.concat(bands, ignore_index=True)[_BAND])


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


def _no_ranks() -> pd.DataFrame:
    kinds = {"rank": "int32", "group": "int64", "fingerprint": "str", "distance": "float64"}
    kinds |= {"representative": "bool", "outlier": "bool", "why": "str"}
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})
