"""Tables of all ranks, computed in one pass, and all ranks on one axis of time, in one timeline or file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd

from ... import analysis
from ...analysis.distributed.collectives import collectives
from ...analysis.time.operators import operator_times
from ...analysis.time.steps import breakdown
from ...analysis.work.slices import slice_work
from ...errors import SelectionError
from ...trace import Trace
from ...trace.arrays import number_rows
from ...trace.schema import Table
from ...trace.taxonomy import phase_of
from ...writers.chrome import write_chrome_ranks
from ..one_rank import Analyses
from ..rankset import RankSet
from .clocks import arrivals, clock_offsets, on_common_clock
from .links import POINT_TO_POINT, point_to_point, stage_work
from .stacking import retimed, stacked

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


class RankTables(RankSet):
    """A `RankSet` that keeps the reductions of its ranks, and knows their common clock."""

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
            found = self._frame("collectives")
            matches = matched(found) if len(found) else _NO_COLLECTIVES.empty()
            hosts = {rank: str(facts.get("host") or "") for rank, facts in self._facts.items()}
            hosts = {rank: host for rank, host in hosts.items() if host not in ("", "localhost")}
            clocks = clock_offsets(matches, hosts, list(self._facts))
            self._between = {"matched": matches, "clocks": clocks, "arrivals": arrivals(matches, clocks)}
            self._tell_between(matches, clocks, self._between["arrivals"])
        return self._between[name].copy(deep=False)

    def _tell_between(self, matches: pd.DataFrame, clocks: pd.DataFrame, arrived: pd.DataFrame) -> None:
        refused = clocks[~clocks["aligned"]]
        example = str(refused["reason"].iloc[0]) if len(refused) else ""
        effect = "these ranks have no arrivals and are not among the stragglers"
        self._report.add("clock-not-aligned", "loss", len(refused), example, effect)
        alone = int(matches["match"].isna().sum()) if len(clocks) > 1 else 0
        effect = "other ranks have none or not equally many, so waiting is not separated from transfer"
        self._report.add("collective-not-matched", "info", alone, effect=effect)
        impossible = int(matches["match"].nunique()) - int(arrived["match"].nunique())
        usable = matches[matches["rank"].isin(clocks.loc[clocks["aligned"], "rank"])]
        impossible = min(impossible, int(usable["match"].nunique()))
        effect = "one rank left before another arrived: not the same collective, and not compared"
        advice = "recordings that name process groups (torch 2.3 and later) are matched better"
        self._report.add("collective-not-the-same", "info", impossible, effect=effect, advice=advice)

    def steps(self) -> pd.DataFrame:
        """Return start and end of each step of each rank on the common clock, for a Marey view.

        Returns
        -------
        DataFrame
            ``rank step start_ns end_ns`` by rank and step, from the start of the earliest recording, as in
            `stacked`. Ranks whose clocks cannot be compared are left out; `clocks` gives the reason.
        """
        table = self._frame("breakdown")
        clocks = self.clocks().set_index("rank")
        usable = clocks.index[clocks["aligned"]] if len(clocks) else pd.Index([])
        table = table[table["rank"].isin(usable)]
        unix = table["ts"].to_numpy(np.int64) + table["rank"].map(self._origins()).to_numpy(np.int64)
        end = unix + table["step_ns"].to_numpy(np.int64)
        start, end = (self._on_axis(at, table["rank"].to_numpy()) for at in (unix, end))
        steps = {"rank": table["rank"], "step": table["step"], "start_ns": start, "end_ns": end}
        return pd.DataFrame(steps).reset_index(drop=True)

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write all ranks into one Chrome trace on the common clock, for Perfetto.

        Parameters
        ----------
        path : path
            Compressed with gzip if it ends in ``.gz``; an existing file is replaced. Only one rank is in
            memory at a time. Ranks whose clocks cannot be compared keep their own times.
        """
        ranks = ((rank, self._retimed(rank)) for rank in self._origins())
        write_chrome_ranks(ranks, path, base_unix_ns=self._base())

    def stacked(self, ranks: int | Iterable[int]) -> Trace:
        """Read some ranks into one Trace, on the common clock.

        Parameters
        ----------
        ranks : int or iterable of int
            They are in memory together.

        Returns
        -------
        Trace
            See `notebook_prof.ranks.analysis.stacking.stacked`; times are from the start of the run's
            earliest recording. Its report names the ranks that could not be read, which are missing, and
            those whose clock cannot be compared, which keep their own.

        Raises
        ------
        SelectionError
            If one of the ranks does not exist, or none is given.
        FormatError
            If none of them can be read.
        """
        numbers = list(self.chosen([ranks] if isinstance(ranks, int) else list(ranks)))
        if not numbers:
            raise SelectionError("no rank to show: give some, as in timeline([2, 7])")
        clocks = self.clocks().set_index("rank")
        there = [rank for rank in numbers if rank in self._facts] or numbers  # without any, reading raises
        trace = stacked([(rank, self._retimed(rank)) for rank in there], start_unix_ns=self._base())
        if len(there) < len(numbers):
            unread, count = self._report["rank-unreadable"], len(numbers) - len(there)
            trace.report.add(unread.code, unread.severity, count, unread.example, unread.effect)
        alone = [rank for rank in numbers if rank in clocks.index and not clocks.loc[rank, "aligned"]]
        if len(numbers) > 1:
            example = str(clocks.loc[alone[0], "reason"]) if alone else ""
            effect = "its times are those of its own clock, and cannot be compared with the others'"
            trace.report.add("clock-not-aligned", "loss", len(alone), example, effect)
        return trace

    def _retimed(self, rank: int) -> Trace:
        trace = self.trace(rank)
        origin = int(trace.metadata.get("start_unix_ns", 0))
        return retimed(trace, lambda ts: self._on_axis(ts + origin, [rank]))

    def _on_axis(self, unix_ns: Any, rank: Any) -> Any:
        """Return times on the common clock, from the start of the earliest recording."""
        return on_common_clock(unix_ns, rank, self.clocks()) - self._base()

    def _base(self) -> int:
        origins = self._origins()
        starts = on_common_clock(list(origins.values()), list(origins), self.clocks())
        return int(starts.min()) if len(starts) else 0


_NO_COLLECTIVES: Final = Table.of(
    "collectives",
    "rank:int32 ts:int64 dur:int64 unix_ns:int64 operation:str name:str group:str group_size:Int64 "
    "bytes:Int64 step:Int32 before:str before_ns:int64 match:Int64 match_ranks:int64",
)
