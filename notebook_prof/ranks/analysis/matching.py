"""Which collectives of different ranks are the same one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace.arrays import number_rows
from .links import POINT_TO_POINT, point_to_point

_SAME_SIZE: Final = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter")
_NO_STEP: Final = -1
_UNKNOWN: Final = -1


def matched(collectives: pd.DataFrame) -> pd.DataFrame:
    """Number collectives by rank and start, so that the same one has the same ``match`` on every rank.

    ``match`` Int64 is missing if no other rank has the collective; ``match_ranks`` int64 counts the ranks.
    """
    # Ranks issue the collectives of a process group in the same order. So the n-th one of the same group,
    # operation and size is the same on all ranks, if they have equally many over the same steps; otherwise
    # the n-th one in a step is, for steps with equally many. Sizes count only for operations whose message
    # size is the same on every rank. The n-th send to a rank is that rank's n-th receive from there; sends
    # and receives without a recorded peer are not matched.
    frame = collectives.sort_values(["rank", "unix_ns"], kind="stable").reset_index(drop=True)
    if not len(frame):
        return frame.assign(match=pd.array([], dtype="Int64"), match_ranks=np.empty(0, np.int64))
    kind = _kinds(frame)
    step = frame["step"].fillna(_NO_STEP).to_numpy(np.int64)
    rank = frame["rank"].to_numpy()
    by_run = _number(kind, np.zeros(len(frame), np.int64), rank, step)
    by_step = _number(kind, step, rank, step)
    whole = by_run >= 0
    number = np.where(whole, by_run, by_step)
    number[kind == _UNKNOWN] = -1
    number[~whole & (step == _NO_STEP)] = -1
    key, _ = pd.factorize(number * 2 + whole)
    ranks = pd.Series(rank).groupby(key).transform("nunique").to_numpy(np.int64)
    good = (number >= 0) & (ranks > 1)
    final, _ = pd.factorize(np.where(good, key, -1), sort=False)
    order, _ = pd.factorize(final[good])
    match = np.full(len(frame), -1, np.int64)
    match[good] = order
    return frame.assign(match=pd.arrays.IntegerArray(match, match < 0), match_ranks=np.where(good, ranks, 1))


def _kinds(frame: pd.DataFrame) -> Any:
    """Return the group, the operation and, if known and equal on all ranks, the size."""
    same = frame["operation"].isin(_SAME_SIZE)
    size = frame["bytes"].astype("Int64")
    outer = frame.groupby(["group", "operation"], sort=False).ngroup()
    unknown = size.isna().groupby(outer).transform("any")
    size = size.where(same & ~unknown, -1).fillna(-1).to_numpy(np.int64)
    src, dst = np.full(len(frame), -1, np.int64), np.full(len(frame), -1, np.int64)
    direct = frame["operation"].isin(POINT_TO_POINT).to_numpy()
    directed = point_to_point(frame)
    src[directed.index], dst[directed.index] = directed["src"], directed["dst"]
    outer = frame.groupby("group", sort=False).ngroup().where(direct, outer + frame["group"].nunique())
    kind, _ = number_rows(outer, size, src, dst)
    return np.where(direct & (src < 0), _UNKNOWN, kind)


def _number(kind: Any, part: Any, rank: Any, step: Any) -> Any:
    """Return the ordinal of each in its kind and part on its rank; -1 if the counts of ranks differ."""
    table = pd.DataFrame({"kind": kind, "part": part, "rank": rank, "step": step})
    own = table.groupby(["kind", "part", "rank"], sort=False)
    nth = own.cumcount().to_numpy()
    facts = pd.DataFrame({"kind": kind, "part": part, "count": own["rank"].transform("size")})
    facts["first"], facts["last"] = own["step"].transform("min"), own["step"].transform("max")
    spread = facts.groupby(["kind", "part"], sort=False)
    agree = np.ones(len(table), bool)
    for name in ("count", "first", "last"):
        agree &= (spread[name].transform("min") == spread[name].transform("max")).to_numpy()
    number, _ = number_rows(kind, part, nth)
    return np.where(agree, number, -1)
