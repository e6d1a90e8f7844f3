"""How far the clocks of the ranks are apart, by the collectives that they end together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from ..analysis.collective_names import SYMMETRIC

_ROUNDS: Final = 20
_SCATTER: Final = 4
_FLOOR_NS: Final = 10_000


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
        - ``shared`` int64: collectives used; ``aligned`` bool: whether times can be compared with those of
          rank 0's group; ``reason`` str: why they cannot, or why the clock was left alone; else empty.

    Notes
    -----
    No rank can leave an all-reduce, all-gather, reduce-scatter, all-to-all or barrier before the last one has
    come, and all leave it nearly together. So the end of a collective is the same instant on all clocks, up
    to the residual. Offsets are medians, found from the lowest rank outwards over shared collectives and then
    improved alternately with the instants; their own median is 0. An offset within four residuals plus
    10 µs is noise, and the clock is left alone; so is the clock of ranks of one host, unless a collective
    would otherwise end on one of them before it began on another.

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
    offset = _outwards(table, len(ranks))
    offset = _improved(table, offset)
    known = np.isfinite(offset)
    if known.any():
        offset = offset - np.nanmedian(offset)
    error = (table["end"] - offset[table["rank"]]).astype(np.float64)
    error = (error - error.groupby(table["match"]).transform("median")).abs()
    residual = error.groupby(table["rank"]).median().reindex(range(len(ranks))).to_numpy()
    count = np.bincount(table["rank"], minlength=len(ranks)).astype(np.int64)
    reason, applied = _decided(ranks, offset, residual, count, shared, hosts or {})
    return pd.DataFrame(
        {
            "rank": ranks.astype(np.int32),
            "offset_ns": applied,
            "measured_ns": offset,
            "residual_ns": residual,
            "shared": count,
            "aligned": known | (len(ranks) == 1),
            "reason": pd.Series(reason, dtype="str"),
        }
    )


def _outwards(table: pd.DataFrame, count: int) -> Any:
    """Offsets from the first rank outwards; NaN for ranks that share nothing with those reached."""
    offset = np.full(count, np.nan)
    if not len(table):
        return offset
    offset[int(table["rank"].min())] = 0.0
    while True:
        instant = (table["end"] - offset[table["rank"]]).groupby(table["match"]).transform("median")
        new = (table["end"] - instant).groupby(table["rank"]).median()
        open_ = np.isnan(offset)
        found = new.reindex(range(count)).to_numpy()
        if not (open_ & np.isfinite(found)).any():
            return offset
        offset = np.where(open_, found, offset)


def _improved(table: pd.DataFrame, offset: Any) -> Any:
    for _ in range(_ROUNDS):
        instant = (table["end"] - offset[table["rank"]]).groupby(table["match"]).transform("median")
        step = (table["end"] - instant).groupby(table["rank"]).median().reindex(range(len(offset))).to_numpy()
        if np.allclose(step, offset, atol=1.0, equal_nan=True):
            break
        offset = step
    return offset


def _decided(
    ranks: Any, offset: Any, residual: Any, count: Any, shared: pd.DataFrame, hosts: Mapping[int, str]
) -> tuple[list[str], Any]:
    reason, applied = [], np.zeros(len(ranks), np.int64)
    impossible = _impossible(shared)
    names = [hosts.get(int(rank), "") for rank in ranks]
    for i, rank in enumerate(ranks.tolist()):
        if not np.isfinite(offset[i]):
            reason.append(_refusal(rank, int(count[i]), len(ranks)))
        elif abs(offset[i]) <= _SCATTER * residual[i] + _FLOOR_NS:
            reason.append("")
        elif names[i] and names.count(names[i]) == len(names) and not impossible:
            reason.append("all ranks are on one host and have one clock")
        else:
            reason.append("")
            applied[i] = round(float(offset[i]))
    return reason, applied


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
