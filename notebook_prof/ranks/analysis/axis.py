"""All ranks on one axis of time: steps, stacked timelines, and one file for Perfetto."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ...errors import SelectionError
from ...trace import Trace
from ...writers.chrome import Shifted, write_chrome_ranks
from .clocks import on_common_clock
from .stacking import RankClock, retimed, stacked
from .tables import RankTables

T = TypeVar("T")


class RankAxis(RankTables[T]):
    """Ranks on the common clock, from the start of the earliest recording."""

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
            They are in memory together.

        Returns
        -------
        Trace
            See `notebook_prof.ranks.analysis.stacking.stacked`; times are from the start of the run's
            earliest recording. A rank whose clock cannot be compared keeps its own, and the Trace's report
            says so.

        Raises
        ------
        SelectionError
            If one of the ranks does not exist, or none is given.
        """
        numbers = list(self.chosen([ranks] if isinstance(ranks, int) else list(ranks)))
        if not numbers:
            raise SelectionError("no rank to show: name some, as in timeline([2, 7])")
        clocks = self.clocks().set_index("rank")
        trace = stacked([(rank, self._retimed(rank)) for rank in numbers], start_unix_ns=self._base())
        alone = [rank for rank in numbers if rank in clocks.index and not clocks.loc[rank, "aligned"]]
        if len(numbers) > 1:
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
        """Return times on the common clock, from the start of the earliest recording."""
        return on_common_clock(unix_ns, rank, self.clocks()) - self._base()

    def _base(self) -> int:
        origins = self._origins()
        starts = on_common_clock(list(origins.values()), list(origins), self.clocks())
        return int(starts.min()) if len(starts) else 0
