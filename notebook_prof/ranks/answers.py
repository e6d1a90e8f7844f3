"""The questions that are asked of many ranks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd

from ..errors import OptionError, SelectionError, nearest
from ..trace import Trace
from ..writers.chrome_ranks import Shifted, write_chrome_ranks
from .arrivals import arrivals, stragglers
from .clocks import clock_offsets, on_common_clock
from .communication import communication
from .folding import Folding, fingerprints, fold
from .imbalance import imbalance
from .links import POINT_TO_POINT, links
from .matching import matched
from .pipeline import pipeline
from .rankset import RankSet
from .stacking import RankClock, retimed, stacked
from .standard import STANDARD

T = TypeVar("T")
_COMPARED: Final = {
    "operators": ("operators", "self_ns", ("name",)),
    "device": ("operators", "device_ns", ("name",)),
    "steps": ("breakdown", "step_ns", ("step",)),
    "compute": ("breakdown", "compute_ns", ("step",)),
    "memory": ("memory", "peak_bytes", ("source",)),
    "flops": ("work", "flops", ("step",)),
}
_ENDS: Final = ("first_ns", "last_ns")


class RankAnswers(RankSet[T]):
    """A `RankSet` that answers.

    The first question reads each rank once for all of them; `forget` makes the next one read again.
    """

    _standard: dict[str, pd.DataFrame] | None = None
    _between: dict[str, pd.DataFrame] | None = None

    def forget(self) -> None:
        """Read the ranks again at the next question."""
        self._standard = self._between = None

    def breakdown(self, by: str = "step") -> pd.DataFrame:
        """Where the time of each rank (and step) went; see `notebook_prof.analysis.breakdown`."""
        if by not in ("step", "trace"):
            raise OptionError(f"ranks' time cannot be divided by {by!r}: {nearest(by, ('step', 'trace'))}")
        return self._frame("breakdown" if by == "step" else "whole")

    def idle(self) -> pd.DataFrame:
        """Idle time of each rank, device and step by cause; see `notebook_prof.analysis.device_idle`."""
        return self._frame("idle")

    def memory(self) -> pd.DataFrame:
        """Peak of memory of each rank and device; see `notebook_prof.analysis.memory_peak`."""
        return self._frame("memory")

    def collectives(self) -> pd.DataFrame:
        """The collectives of all ranks, with the same number in ``match`` where they are the same one.

        See `notebook_prof.analysis.collectives` and `notebook_prof.ranks.matching.matched`.
        """
        return self._shared("matched")

    def clocks(self) -> pd.DataFrame:
        """How far the ranks' clocks are apart, and which cannot be compared; see `clock_offsets`."""
        return self._shared("clocks")

    def arrivals(self) -> pd.DataFrame:
        """When each rank came to each shared collective, and how long it waited; see `arrivals`."""
        return self._shared("arrivals")

    def stragglers(self) -> pd.DataFrame:
        """The ranks by how late they come to shared collectives, the latest first; see `stragglers`.

        Sends and receives are left out: in a pipeline somebody always waits; see `pipeline`.
        """
        arrived = self._shared("arrivals")
        return stragglers(arrived[~arrived["operation"].isin(POINT_TO_POINT)])

    def communication(self, by: str | Sequence[str] = ("operation", "group", "size")) -> pd.DataFrame:
        """Communication with waiting, transfer and bandwidths; see `communication`."""
        return communication(self._shared("matched"), self._shared("arrivals"), by=by)

    def links(self) -> pd.DataFrame:
        """Messages from rank to rank, where sends and receives tell their other end; see `links`."""
        return links(self._shared("matched"), self._shared("arrivals"))

    def matrix(self, value: str = "bytes") -> pd.DataFrame:
        """One column of `links` as a table of sender × receiver.

        Parameters
        ----------
        value : {"bytes", "count", "total_ns", "wait_ns", "transfer_ns", "bytes_per_s"}

        Returns
        -------
        DataFrame
            A row a sender and a column a receiver, of all ranks, float64; NaN where nothing was sent.

        Raises
        ------
        OptionError
            If there is no such value.
        """
        table = self.links()
        if value not in (known := list(table.columns[2:])):
            raise OptionError(f"messages have no {value!r}: {nearest(value, known)}")
        every = sorted({*self, *table["src"], *table["dst"]})
        square = table.set_index(["src", "dst"])[value].astype("float64").unstack()  # noqa: PD010
        return square.reindex(index=every, columns=every)

    def pipeline(self) -> pd.DataFrame:
        """Stages and bubbles of pipeline parallelism; see `notebook_prof.ranks.pipeline.pipeline`."""
        work, clocks = self._frame("stages"), self.clocks().set_index("rank")
        if not len(work):
            return pipeline(work, self.links())
        rank = work["rank"].to_numpy()
        origin = work["rank"].map(self._origins()).to_numpy(np.int64)
        ends = {name: self._on_axis(origin + work[name].to_numpy(np.int64), rank) for name in _ENDS}
        return pipeline(work.assign(**ends, aligned=clocks["aligned"].reindex(rank).to_numpy()), self.links())

    def flops(self) -> pd.DataFrame:
        """FLOPs of each rank and step, where shapes were recorded.

        Returns
        -------
        DataFrame
            ``rank`` int32, ``step`` Int32, ``flops``, ``bytes`` float64, ``known`` int64: how many calls'
            work is known; ``flops_per_s`` float64: over the step's duration, NaN outside steps. By rank and
            step; no rows where no shapes were recorded.
        """
        table = self._frame("work")
        if not len(table):
            return table.assign(flops_per_s=np.empty(0))
        steps = self._frame("breakdown")[["rank", "step", "step_ns"]]
        table = table.merge(steps, on=["rank", "step"], how="left")
        seconds = table.pop("step_ns").astype("Float64").to_numpy(np.float64, na_value=np.nan) / 1e9
        return table.assign(flops_per_s=table["flops"].to_numpy() / seconds)

    def imbalance(self, of: str = "operators") -> pd.DataFrame:
        """What differs most between ranks: ``operators device steps compute memory flops``; see `imbalance`.

        Raises
        ------
        OptionError
            If `of` is none of these.
        """
        if of not in _COMPARED:
            raise OptionError(f"ranks cannot be compared by {of!r}: {nearest(of, _COMPARED)}")
        name, value, by = _COMPARED[of]
        return imbalance(self._frame(name), value, by)

    def fold(self) -> Folding:
        """Ranks that do the same as one: groups, representatives, bands and outliers; see `fold`."""
        return fold(self._frame("breakdown"), fingerprints(self._frame("operators")))

    def steps(self) -> pd.DataFrame:
        """Start and end of each step of each rank on the common clock, for a Marey view.

        Returns
        -------
        DataFrame
            ``rank step start_ns end_ns`` by rank and step, from the start of the earliest recording, as in
            `stacked`; ranks whose clocks cannot be compared are left out, and in `clocks` with the reason.
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
            Compressed with gzip if it ends in ``.gz``; an existing file is replaced. Ranks are read one after
            another, so only one is in memory. Ranks whose clocks cannot be compared keep their own.
        """
        base = self._base()

        def shifted() -> Iterator[Shifted]:
            for rank in self._origins():
                yield Shifted(rank, self._retimed(rank), 0)

        write_chrome_ranks(shifted(), path, base_unix_ns=base)

    def stacked(self, ranks: int | Iterable[int]) -> Trace:
        """Read some ranks into one Trace, on the common clock.

        Parameters
        ----------
        ranks : int or iterable of int
            All of them are in memory together.

        Returns
        -------
        Trace
            See `notebook_prof.ranks.stacking.stacked`; times count from the start of the run's earliest
            recording. A rank whose clock cannot be compared keeps its own, and the Trace's report says so.

        Raises
        ------
        SelectionError
            If one of the ranks is not there, or none is given.
        """
        wanted = list(self.chosen([ranks] if isinstance(ranks, int) else list(ranks)))
        if not wanted:
            raise SelectionError("no rank to show: name some, as in timeline([2, 7])")
        clocks = self.clocks().set_index("rank")
        trace = stacked([(rank, self._retimed(rank)) for rank in wanted], start_unix_ns=self._base())
        alone = [rank for rank in wanted if rank in clocks.index and not clocks.loc[rank, "aligned"]]
        if len(wanted) > 1:
            trace.report.add(
                "clock-not-aligned",
                "loss",
                len(alone),
                example=str(clocks.loc[alone[0], "reason"]) if alone else "",
                effect="its times stand where its own clock says, and cannot be compared with the others'",
            )
        return trace

    def _retimed(self, rank: int) -> Trace:
        trace, clocks = self.trace(rank), self.clocks().set_index("rank")
        origin = int(trace.metadata.get("start_unix_ns", 0))
        here = self._on_axis(np.array([origin]), np.array([rank]))[0]
        if rank not in clocks.index or not clocks.loc[rank, "drift_ppm"]:
            return retimed(trace, RankClock(int(here)))
        at = int(clocks.loc[rank, "reference_unix_ns"])
        shift = int(self._on_axis(np.array([at]), np.array([rank]))[0]) - (at - origin)
        return retimed(trace, RankClock(shift, float(clocks.loc[rank, "drift_ppm"]) / 1e6, at - origin))

    def _on_axis(self, unix_ns: Any, rank: Any) -> Any:
        """Times on the common clock, from the start of the earliest recording."""
        return on_common_clock(unix_ns, rank, self.clocks()) - self._base()

    def _base(self) -> int:
        origins = self._origins()
        starts = on_common_clock(list(origins.values()), list(origins), self.clocks())
        return int(starts.min()) if len(starts) else 0

    def _origins(self) -> dict[int, int]:
        self._frame("breakdown")
        return {rank: int(facts.get("start_unix_ns", 0)) for rank, facts in sorted(self._facts.items())}

    def _frame(self, name: str) -> pd.DataFrame:
        if self._standard is None:
            self._standard = self.reduce(STANDARD)
        return self._standard[name].copy(deep=False)

    def _shared(self, name: str) -> pd.DataFrame:
        if self._between is None:
            found = matched(self._frame("collectives")) if len(self._frame("collectives")) else _nothing()
            clocks = clock_offsets(found, self._hosts())
            clocks = _with_all(clocks, list(self._facts))
            self._between = {"matched": found, "clocks": clocks, "arrivals": arrivals(found, clocks)}
            self._tell_between(found, clocks, self._between["arrivals"])
        return self._between[name].copy(deep=False)

    def _hosts(self) -> dict[int, str]:
        hosts = {rank: facts.get("host", "") for rank, facts in self._facts.items()}
        return {rank: str(host) for rank, host in hosts.items() if host and host != "localhost"}

    def _tell_between(self, found: pd.DataFrame, clocks: pd.DataFrame, arrived: pd.DataFrame) -> None:
        refused = clocks[~clocks["aligned"]]
        self._report.add(
            "clock-not-aligned",
            "loss",
            len(refused),
            example=str(refused["reason"].iloc[0]) if len(refused) else "",
            effect="these ranks have no arrivals and are not among the stragglers",
        )
        alone = int(found["match"].isna().sum()) if len(clocks) > 1 else 0
        self._report.add(
            "collective-not-matched",
            "info",
            alone,
            effect="other ranks have none or not equally many, so waiting is not told from transfer",
        )
        impossible = int(found["match"].nunique()) - int(arrived["match"].nunique())
        usable = found[found["rank"].isin(clocks.loc[clocks["aligned"], "rank"])]
        impossible = min(impossible, int(usable["match"].nunique()))
        self._report.add(
            "collective-not-the-same",
            "info",
            impossible,
            effect="one rank left before another came: not the same collective after all, and not compared",
            advice="recordings that name process groups (torch 2.3 and later) are matched better",
        )


def _with_all(clocks: pd.DataFrame, ranks: Sequence[int]) -> pd.DataFrame:
    """A row for every rank that was read, also without collectives."""
    missing = sorted(set(ranks) - set(clocks["rank"]))
    rows = [_alone(rank, len(ranks)) for rank in missing]
    if not rows:
        return clocks
    extra = pd.DataFrame(rows, columns=list(clocks.columns)).astype(clocks.dtypes.to_dict())
    both = pd.concat([clocks, extra], ignore_index=True) if len(clocks) else extra
    return both.sort_values("rank", kind="stable").reset_index(drop=True)


def _alone(rank: int, ranks: int) -> list[Any]:
    reason = "the only rank" if ranks == 1 else f"rank {rank} shares no collective with another rank"
    return [rank, 0, np.nan, np.nan, 0.0, 0, 0, ranks == 1, reason]


def _nothing() -> pd.DataFrame:
    columns = {"rank": "int32", "ts": "int64", "dur": "int64", "unix_ns": "int64", "operation": "str"}
    columns |= {"name": "str", "group": "str", "group_size": "Int64", "bytes": "Int64", "step": "Int32"}
    columns |= {"before": "str", "before_ns": "int64", "match": "Int64", "match_ranks": "int64"}
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in columns.items()})
