"""Tables of all ranks, computed in one pass and kept for all questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd

from ... import analysis
from ...analysis.distributed.collectives import collectives
from ...analysis.time.operators import operator_times
from ...analysis.time.steps import breakdown
from ...analysis.work.slices import slice_work
from ...trace import Trace
from ...trace.arrays import number_rows
from ...trace.taxonomy import phase_of
from ..rankset import RankSet
from ..reading.cache import Analyses
from .arrivals import arrivals
from .clocks import clock_offsets
from .links import POINT_TO_POINT, point_to_point, stage_work

# Which collectives of different ranks are the same one.

_SAME_SIZE: Final = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter")
_NO_STEP: Final = -1
_UNKNOWN: Final = -1


def matched(collectives: pd.DataFrame) -> pd.DataFrame:
    """Number collectives by rank and start, so that the same one has the same ``match`` on every rank."""
    # Ranks issue the collectives of a process group in the same order. So the n-th one of the same group,
    # operation and size is the same on all ranks, if they have equally many over the same steps; otherwise
    # the n-th one in a step is, for steps with equally many. Sizes count only for operations whose message
    # size is the same on every rank. The n-th send to a rank is that rank's n-th receive from there; sends
    # and receives without a recorded peer are not matched.
    # ``match`` (Int64) is missing if no other rank has the collective; ``match_ranks`` (int64) counts the
    # ranks.
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


_OPERATORS: Final = ["name", "count", "total_ns", "self_ns", "device_ns"]


def operator_sums(trace: Trace) -> pd.DataFrame:
    """Sum operators other than communication or, without any, kernels, to compare ranks by."""
    table = operator_times(trace, category="operator")
    if len(table):
        communicates = table["name"].map(phase_of) == "communication"
        return table.loc[~communicates, _OPERATORS].reset_index(drop=True)
    table = analysis.kernels(trace)
    spent = table["total_ns"]
    return table.assign(self_ns=spent, device_ns=spent)[_OPERATORS]


def idle_sums(trace: Trace) -> pd.DataFrame:
    """Sum the idle time of each device and step, by cause; see `notebook_prof.analysis.device_idle`."""
    gaps = analysis.device_idle(trace)
    causes = [name for name in gaps if name.endswith("_ns")]
    return gaps.groupby(["device", "step"], as_index=False, dropna=False)[["dur", *causes]].sum()


def work_sums(trace: Trace) -> pd.DataFrame:
    """Sum known FLOPs and bytes by step; ``known`` is the number of calls with known work."""
    work = slice_work(trace)
    rows = np.flatnonzero(work.outermost)
    parts = {"flops": work.flops[rows], "bytes": work.bytes[rows], "known": np.ones(len(rows), np.int64)}
    frame = pd.DataFrame({"step": trace.slices["step"].to_numpy(dtype=np.int32, na_value=-1)[rows], **parts})
    table = frame.groupby("step", as_index=False).sum()
    number = table["step"].to_numpy()
    return table.assign(step=pd.arrays.IntegerArray(number, number < 0))


STANDARD: Final[Analyses] = {
    "breakdown": (breakdown, {}),
    "whole": (breakdown, {"by": "trace"}),
    "collectives": (collectives, {}),
    "operators": (operator_sums, {}),
    "idle": (idle_sums, {}),
    "memory": (analysis.memory_peak, {}),
    "stages": (stage_work, {}),
    "work": (work_sums, {}),
}


T = TypeVar("T")


class RankTables(RankSet[T]):
    """A `RankSet` that keeps the reductions of its ranks."""

    # the first question reads each rank once for all questions; `forget` drops the results
    _standard: dict[str, pd.DataFrame] | None = None
    _between: dict[str, pd.DataFrame] | None = None

    def forget(self) -> None:
        """Read the ranks again at the next question."""
        self._standard = self._between = None

    def clocks(self) -> pd.DataFrame:
        """Return the ranks' clock offsets, and the clocks that cannot be compared; see `clock_offsets`."""
        return self._shared("clocks")

    def _origins(self) -> dict[int, int]:
        self._frame("breakdown")
        return {rank: int(facts.get("start_unix_ns", 0)) for rank, facts in sorted(self._facts.items())}

    def _frame(self, name: str) -> pd.DataFrame:
        if self._standard is None:
            self._standard = self.reduce(STANDARD)
        return self._standard[name].copy(deep=False)

    def _shared(self, name: str) -> pd.DataFrame:
        if self._between is None:
            matches = matched(self._frame("collectives")) if len(self._frame("collectives")) else _nothing()
            clocks = clock_offsets(matches, self._hosts())
            clocks = _with_all(clocks, list(self._facts))
            self._between = {"matched": matches, "clocks": clocks, "arrivals": arrivals(matches, clocks)}
            self._tell_between(matches, clocks, self._between["arrivals"])
        return self._between[name].copy(deep=False)

    def _hosts(self) -> dict[int, str]:
        hosts = {rank: facts.get("host", "") for rank, facts in self._facts.items()}
        return {rank: str(host) for rank, host in hosts.items() if host and host != "localhost"}

    def _tell_between(self, matches: pd.DataFrame, clocks: pd.DataFrame, arrived: pd.DataFrame) -> None:
        refused = clocks[~clocks["aligned"]]
        self._report.add(
            "clock-not-aligned",
            "loss",
            len(refused),
            example=str(refused["reason"].iloc[0]) if len(refused) else "",
            effect="these ranks have no arrivals and are not among the stragglers",
        )
        alone = int(matches["match"].isna().sum()) if len(clocks) > 1 else 0
        self._report.add(
            "collective-not-matched",
            "info",
            alone,
            effect="other ranks have none or not equally many, so waiting is not told from transfer",
        )
        impossible = int(matches["match"].nunique()) - int(arrived["match"].nunique())
        usable = matches[matches["rank"].isin(clocks.loc[clocks["aligned"], "rank"])]
        impossible = min(impossible, int(usable["match"].nunique()))
        self._report.add(
            "collective-not-the-same",
            "info",
            impossible,
            effect="one rank left before another came: not the same collective after all, and not compared",
            advice="recordings that name process groups (torch 2.3 and later) are matched better",
        )


def _with_all(clocks: pd.DataFrame, ranks: Sequence[int]) -> pd.DataFrame:
    """Return a row for every rank that was read, with or without collectives."""
    missing = sorted(set(ranks) - set(clocks["rank"]))
    rows = [_row_of_lone_rank(rank, len(ranks)) for rank in missing]
    if not rows:
        return clocks
    extra = pd.DataFrame(rows, columns=list(clocks.columns)).astype(clocks.dtypes.to_dict())
    both = pd.concat([clocks, extra], ignore_index=True) if len(clocks) else extra
    return both.sort_values("rank", kind="stable").reset_index(drop=True)


def _row_of_lone_rank(rank: int, ranks: int) -> list[Any]:
    reason = "the only rank" if ranks == 1 else f"rank {rank} shares no collective with another rank"
    return [rank, 0, np.nan, np.nan, 0.0, 0, 0, ranks == 1, reason]


def _nothing() -> pd.DataFrame:
    columns = {"rank": "int32", "ts": "int64", "dur": "int64", "unix_ns": "int64", "operation": "str"}
    columns |= {"name": "str", "group": "str", "group_size": "Int64", "bytes": "Int64", "step": "Int32"}
    columns |= {"before": "str", "before_ns": "int64", "match": "Int64", "match_ranks": "int64"}
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in columns.items()})
