"""Offsets between the ranks' clocks, from collectives; arrivals at these: waiting, transfer, stragglers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...analysis.distributed.collectives import SYMMETRIC
from ...trace.arrays import FloatArray, IntArray
from ...trace.intervals import as_ints

_ROUNDS: Final = 20
FEWEST: Final = 12
"""Minimum number of shared collectives to estimate a drift."""
NOISE: Final = 4.0
"""Number of residuals that a difference must exceed."""
FLOOR_NS: Final = 10_000
_LESS: Final = 0.5


@dataclass(frozen=True, slots=True)
class ClockFit:
    """How far clocks are ahead: ``offset + drift × (instant - reference)``; ns, and ns per ns.

    `offset` and `residual` are NaN, and `drift` is 0, for ranks that share nothing with the others.
    """

    offset: FloatArray
    drift: FloatArray
    residual: FloatArray
    reference: float


def fit_clocks(instants: pd.DataFrame, count: int) -> ClockFit:
    """Fit clocks so that all ranks see shared instants at the same time."""
    # `instants` has ``rank`` (0 to `count` - 1), ``match`` (which instant) and ``end`` (float64 ns on the
    # rank's clock). A rank has a drift only if it shares at least 12 instants, if over them the drift amounts
    # to more than four residuals and 10 µs, and if it halves the residual.
    reference = float(instants["end"].median()) if len(instants) else 0.0
    instants = instants.assign(at=instants["end"] - reference)
    steady = _solve(instants, count, reference, drifts=False)
    moving = _solve(instants, count, reference, drifts=True)
    return moving if _is_better(instants, steady, moving) else steady


def _solve(instants: pd.DataFrame, count: int, reference: float, *, drifts: bool) -> ClockFit:
    offset, drift = np.full(count, np.nan), np.zeros(count)
    if len(instants):
        offset[int(instants["rank"].min())] = 0.0
    while True:
        new_offset, new_drift = _fit_against(instants, offset, drift, drifts)
        newly_solved = np.isnan(offset) & np.isfinite(new_offset)
        if not newly_solved.any():
            break
        offset, drift = np.where(newly_solved, new_offset, offset), np.where(newly_solved, new_drift, drift)
    offset, drift = _refine(instants, offset, drift, drifts)
    solved = np.isfinite(offset)
    if solved.any():
        drift = np.where(solved, drift - np.median(drift[solved]), 0.0)
        offset, _ = _refine(instants, offset, drift, False)
        offset = offset - np.nanmedian(offset)
    left = _corrected(instants, offset, drift)
    error = (left - left.groupby(instants["match"]).transform("median")).abs()
    residual = error.groupby(instants["rank"]).median().reindex(range(count)).to_numpy(np.float64)
    return ClockFit(offset, drift, residual, reference)


def _refine(
    instants: pd.DataFrame, offset: FloatArray, drift: FloatArray, drifts: bool
) -> tuple[FloatArray, FloatArray]:
    for _ in range(_ROUNDS):
        before, (offset, drift) = offset, _fit_against(instants, offset, drift, drifts)
        if np.allclose(offset, before, atol=1.0, equal_nan=True):
            break
    return offset, drift


def _corrected(instants: pd.DataFrame, offset: FloatArray, drift: FloatArray) -> pd.Series[Any]:
    rank = instants["rank"].to_numpy()
    value: pd.Series[Any] = instants["at"] - offset[rank] - drift[rank] * instants["at"]
    return value


def _fit_against(
    instants: pd.DataFrame, offset: FloatArray, drift: FloatArray, drifts: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the offset and drift of every rank relative to the instants of ranks with an offset."""
    instant = _corrected(instants, offset, drift).groupby(instants["match"]).transform("median")
    ahead = instants["at"] - instant
    rank, count = instants["rank"], len(offset)
    slope = _slopes(instants, ahead, count) if drifts else drift
    residual = ahead - slope[rank] * instants["at"]
    return residual.groupby(rank).median().reindex(range(count)).to_numpy(np.float64), slope


def _slopes(instants: pd.DataFrame, ahead: pd.Series[Any], count: int) -> FloatArray:
    """Return the slope of each rank; 0 for ranks with few instants."""
    present = ahead.notna()
    rank, at, value = instants["rank"][present], instants["at"][present], ahead[present]
    percentile = at.groupby(rank).rank(pct=True)
    enough = at.groupby(rank).transform("size") >= FEWEST
    slope = np.zeros(count)
    ends = [enough & (percentile <= 1 / 3), enough & (percentile > 2 / 3)]
    (x0, y0), (x1, y1) = (
        (at[end].groupby(rank[end]).median(), value[end].groupby(rank[end]).median()) for end in ends
    )
    slopes = ((y1 - y0) / (x1 - x0).where(x1 > x0)).fillna(0.0)
    slope[slopes.index.to_numpy(np.int64)] = slopes.to_numpy(np.float64)
    return slope


def _is_better(instants: pd.DataFrame, steady: ClockFit, moving: ClockFit) -> bool:
    """Return whether some rank's drift exceeds the noise, and is not an artefact of it."""
    if not np.isfinite(moving.residual).any():
        return False
    at = instants["at"].groupby(instants["rank"])
    lasting = (at.max() - at.min()).reindex(range(len(moving.drift))).fillna(0.0).to_numpy(np.float64)
    noise = NOISE * np.nan_to_num(moving.residual, nan=np.inf) + FLOOR_NS
    halved = np.nanmax(moving.residual) <= _LESS * np.nanmax(steady.residual)
    return bool(halved and (np.abs(moving.drift) * lasting > noise).any())


def clock_offsets(
    matched: pd.DataFrame, hosts: Mapping[int, str] | None = None, others: Sequence[int] = ()
) -> pd.DataFrame:
    """Estimate the offset to subtract from each rank's times.

    Parameters
    ----------
    matched : DataFrame
        Collectives of all ranks, numbered by ``match``.
    hosts : mapping of int to str, optional
        Host of each rank, if known: ranks on the same host share a clock.
    others : sequence of int
        Ranks that have a row even without collectives.

    Returns
    -------
    DataFrame
        A row a rank, by rank; no rows without ranks.

        - ``rank`` int32; ``offset_ns`` int64: to be subtracted, 0 for an unchanged clock; ``measured_ns``
          float64: the estimate; ``residual_ns`` float64: median distance between the ends of its collectives
          and the others' after that; NaN without shared collectives;
        - ``drift_ppm`` float64: how much faster the clock runs than the others, 0 unless collectives show it;
          ``reference_unix_ns`` int64: the instant (on its own clock) at which the offset holds;
        - ``shared`` int64: collectives used; ``aligned`` bool: whether times can be compared with those of
          rank 0's group; ``reason`` str: why they cannot, or why the clock is unchanged; else empty.

    Notes
    -----
    No rank can leave an all-reduce, all-gather, reduce-scatter, all-to-all or barrier before the last one has
    come, and all leave it nearly together. So the end of a collective is the same instant on all clocks, up
    to the residual; see `fit_clocks`. An offset within four residuals plus 10 µs is noise, and the clock is
    not changed unless it drifts. Clocks of ranks on the same host are not changed either, unless a collective
    would end on one of them before it began on another.

    Examples
    --------
    >>> rows = {"rank": [0, 1, 2] * 2, "match": [0] * 3 + [1] * 3, "operation": "all_reduce"}
    >>> ends = [100_000, 100_000, 900_000, 200_000, 200_000, 1_000_000]
    >>> frame = pd.DataFrame({**rows, "unix_ns": [end - 10 for end in ends], "dur": 10})
    >>> clock_offsets(frame)["offset_ns"].tolist()
    [0, 0, 800000]
    """
    ranks = np.union1d(matched["rank"].to_numpy(np.int64), np.array(others, np.int64))
    shared = matched[matched["match"].notna() & matched["operation"].isin(SYMMETRIC)]
    end = (shared["unix_ns"] + shared["dur"]).to_numpy(np.int64)
    origin = int(end.min()) if len(end) else 0
    table = pd.DataFrame(
        {
            "rank": np.searchsorted(ranks, shared["rank"].to_numpy()),
            "match": pd.factorize(shared["match"].to_numpy(np.int64))[0],
            "end": (end - origin).astype(np.float64),
        }
    )
    fit = fit_clocks(table, len(ranks))
    count = np.bincount(table["rank"], minlength=len(ranks)).astype(np.int64)
    reason, applied, drift = _decided(ranks, fit, count, shared, hosts or {})
    return pd.DataFrame(
        {
            "rank": ranks.astype(np.int32),
            "offset_ns": applied,
            "measured_ns": fit.offset,
            "residual_ns": fit.residual,
            "drift_ppm": 1e6 * drift,
            "reference_unix_ns": np.full(len(ranks), origin + round(fit.reference), np.int64),
            "shared": count,
            "aligned": np.isfinite(fit.offset) | (len(ranks) == 1),
            "reason": pd.Series(reason, dtype="str"),
        }
    )


def on_common_clock(unix_ns: Any, rank: Any, clocks: pd.DataFrame) -> IntArray:
    """Return Unix times of ranks on the common clock; ranks missing from `clocks` keep their times."""
    own, at = np.asarray(unix_ns, np.int64), pd.Index(clocks["rank"]).get_indexer(np.asarray(rank))

    def of(name: str, kind: Any) -> Any:
        column = clocks[name].to_numpy(kind) if name in clocks else np.zeros(len(clocks), kind)
        return np.append(column, kind(0))[at]

    drift = of("drift_ppm", np.float64) / 1e6
    since = np.where(drift != 0, own - of("reference_unix_ns", np.int64), 0)
    return as_ints(own - of("offset_ns", np.int64) - np.rint(drift * since).astype(np.int64))


def _decided(
    ranks: Any, fit: ClockFit, count: Any, shared: pd.DataFrame, hosts: Mapping[int, str]
) -> tuple[list[str], Any, Any]:
    reason, applied, drift = [], np.zeros(len(ranks), np.int64), np.zeros(len(ranks))
    impossible = _impossible(shared)
    names = [hosts.get(int(rank), "") for rank in ranks]
    for i, rank in enumerate(ranks.tolist()):
        if not np.isfinite(fit.offset[i]):
            reason.append(_refusal(rank, int(count[i]), len(ranks)))
        elif fit.drift[i] == 0 and abs(fit.offset[i]) <= NOISE * fit.residual[i] + FLOOR_NS:
            reason.append("")
        elif names[i] and names.count(names[i]) == len(names) and not impossible:
            reason.append("all ranks are on one host and have one clock")
        else:
            reason.append("")
            applied[i], drift[i] = round(float(fit.offset[i])), fit.drift[i]
    return reason, applied, drift


def _refusal(rank: int, count: int, ranks: int) -> str:
    if ranks == 1:
        return "the only rank"
    if count:
        return f"rank {rank} shares collectives only with ranks that share none with the lowest rank"
    return f"rank {rank} shares no collective with another rank, so its clock cannot be compared"


def _impossible(shared: pd.DataFrame) -> bool:
    """Return whether some collective ends on one rank before it begins on another."""
    if not len(shared):
        return False
    end = shared["unix_ns"] + shared["dur"]
    begun = shared["unix_ns"].groupby(shared["match"]).max()
    return bool((end.groupby(shared["match"]).min() < begun).mean() > 0.5)


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
