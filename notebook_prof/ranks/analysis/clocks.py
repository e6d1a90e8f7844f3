"""How far the clocks of the ranks are apart, by the collectives that they end together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ...analysis.distributed.collectives import SYMMETRIC
from ...trace.intervals import IntArray, as_ints
from .clock_fit import FLOOR_NS, NOISE, ClockFit, fit_clocks


def clock_offsets(matched: pd.DataFrame, hosts: Mapping[int, str] | None = None) -> pd.DataFrame:
    """Estimate what to subtract from each rank's times.

    Parameters
    ----------
    matched : DataFrame
        See `matched`.
    hosts : mapping of int to str, optional
        Host of each rank, where it is known: ranks of one host have one clock.

    Returns
    -------
    DataFrame
        A row a rank, by rank; no rows without ranks.

        - ``rank`` int32; ``offset_ns`` int64: to be subtracted, 0 where the clock is left alone;
          ``measured_ns`` float64: the estimate; ``residual_ns`` float64: how far its ends of collectives
          lie from the others' after that, as a median; NaN where nothing is shared;
        - ``drift_ppm`` float64: how much faster than the others the clock runs, 0 unless collectives show
          it; ``reference_unix_ns`` int64: the instant (on its own clock) at which the offset holds;
        - ``shared`` int64: collectives used; ``aligned`` bool: whether times can be compared with those of
          rank 0's group; ``reason`` str: why they cannot, or why the clock was left alone; else empty.

    Notes
    -----
    No rank can leave an all-reduce, all-gather, reduce-scatter, all-to-all or barrier before the last one has
    come, and all leave it nearly together. So the end of a collective is the same instant on all clocks, up
    to the residual; see `fit_clocks`. An offset within four residuals plus 10 µs is noise, and the clock is
    left alone, unless it drifts; so is the clock of ranks of one host, unless a collective would otherwise
    end on one of them before it began on another.

    Examples
    --------
    >>> rows = {"rank": [0, 1, 2] * 2, "match": [0] * 3 + [1] * 3, "operation": "all_reduce"}
    >>> ends = [100_000, 100_000, 900_000, 200_000, 200_000, 1_000_000]
    >>> frame = pd.DataFrame({**rows, "unix_ns": [end - 10 for end in ends], "dur": 10})
    >>> clock_offsets(frame)["offset_ns"].tolist()
    [0, 0, 800000]
    """
    ranks = np.unique(matched["rank"].to_numpy()) if len(matched) else np.empty(0, np.int32)
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
    """Unix times of ranks on the common clock.

    Parameters
    ----------
    unix_ns, rank : array_like of int64, shape (n,)
        Ranks that `clocks` does not have keep their times.
    clocks : DataFrame
        See `clock_offsets`.

    Examples
    --------
    >>> clocks = pd.DataFrame({"rank": [0, 1], "offset_ns": [0, 30]})
    >>> on_common_clock([100, 100], [0, 1], clocks).tolist()
    [100, 70]
    """
    own, at = np.asarray(unix_ns, np.int64), pd.Index(clocks["rank"]).get_indexer(np.asarray(rank))

    def of(name: str, kind: Any) -> Any:
        known = clocks[name].to_numpy(kind) if name in clocks else np.zeros(len(clocks), kind)
        return np.append(known, kind(0))[at]

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
    """Whether some collective ends on one rank before it begins on another."""
    if not len(shared):
        return False
    end = shared["unix_ns"] + shared["dur"]
    begun = shared["unix_ns"].groupby(shared["match"]).max()
    return bool((end.groupby(shared["match"]).min() < begun).mean() > 0.5)
