"""The questions that are asked of many ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd

from ..errors import OptionError, nearest
from ..writers.chrome_ranks import Shifted, write_chrome_ranks
from .arrivals import arrivals, stragglers
from .clocks import clock_offsets
from .communication import communication
from .folding import Folding, fingerprints, fold
from .imbalance import imbalance
from .matching import matched
from .rankset import RankSet
from .standard import STANDARD

T = TypeVar("T")
_COMPARED: Final = {
    "operators": ("operators", "self_ns", ("name",)),
    "device": ("operators", "device_ns", ("name",)),
    "steps": ("breakdown", "step_ns", ("step",)),
    "compute": ("breakdown", "compute_ns", ("step",)),
    "memory": ("memory", "peak_bytes", ("source",)),
}


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
        """The ranks by how late they come to shared collectives, the latest first; see `stragglers`."""
        return stragglers(self._shared("arrivals"))

    def communication(self, by: str | Sequence[str] = ("operation", "group", "size")) -> pd.DataFrame:
        """Communication with waiting, transfer and bandwidths; see `communication`."""
        return communication(self._shared("matched"), self._shared("arrivals"), by=by)

    def imbalance(self, of: str = "operators") -> pd.DataFrame:
        """What differs most between ranks: ``operators device steps compute memory``; see `imbalance`.

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
            ``rank step start_ns end_ns`` by rank and step, from the earliest start; ranks whose clocks cannot
            be compared are left out, and in `clocks` with the reason.
        """
        table = self._frame("breakdown")
        clocks = self.clocks().set_index("rank")
        usable = clocks.index[clocks["aligned"]] if len(clocks) else pd.Index([])
        table = table[table["rank"].isin(usable)]
        start = table["ts"] + table["rank"].map(self._origins()) - table["rank"].map(clocks["offset_ns"])
        start = (start - start.min()).astype("int64") if len(table) else pd.Series([], dtype="int64")
        return pd.DataFrame(
            {
                "rank": table["rank"],
                "step": table["step"],
                "start_ns": start,
                "end_ns": start + table["step_ns"].to_numpy(np.int64),
            }
        ).reset_index(drop=True)

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write all ranks into one Chrome trace on the common clock, for Perfetto.

        Parameters
        ----------
        path : path
            Compressed with gzip if it ends in ``.gz``; an existing file is replaced. Ranks are read one after
            another, so only one is in memory. Ranks whose clocks cannot be compared keep their own.
        """
        clocks = self.clocks()
        offsets = dict(zip(clocks["rank"], clocks["offset_ns"], strict=True)) if len(clocks) else {}
        origins = {rank: origin - int(offsets.get(rank, 0)) for rank, origin in self._origins().items()}
        base = min(origins.values(), default=0)

        def shifted() -> Iterator[Shifted]:
            for rank, origin in sorted(origins.items()):
                yield Shifted(rank, self.trace(rank), origin - base)

        write_chrome_ranks(shifted(), path, base_unix_ns=base)

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
    return [rank, 0, np.nan, np.nan, 0, ranks == 1, reason]


def _nothing() -> pd.DataFrame:
    columns = {"rank": "int32", "ts": "int64", "dur": "int64", "unix_ns": "int64", "operation": "str"}
    columns |= {"name": "str", "group": "str", "group_size": "Int64", "bytes": "Int64", "step": "Int32"}
    columns |= {"before": "str", "before_ns": "int64", "match": "Int64", "match_ranks": "int64"}
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in columns.items()})
