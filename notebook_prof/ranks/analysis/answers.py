"""The public analyses of many ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from ...errors import check_option
from .clocks import stragglers
from .communication import Folding, communication, fingerprints, fold, imbalance
from .links import POINT_TO_POINT, links, pipeline
from .paths import RankPaths

_COMPARED: Final = {
    "operators": ("operators", "self_ns", ("name",)),
    "device": ("operators", "device_ns", ("name",)),
    "steps": ("breakdown", "step_ns", ("step",)),
    "compute": ("breakdown", "compute_ns", ("step",)),
    "memory": ("memory", "peak_bytes", ("source",)),
    "flops": ("work", "flops", ("step",)),
}
_ENDS: Final = ("first_ns", "last_ns")


class RankAnswers(RankPaths):
    """A `RankSet` with analyses."""

    def breakdown(self, by: str = "step") -> pd.DataFrame:
        """Divide the time of each rank (and step); see `notebook_prof.analysis.breakdown`."""
        check_option("ranks' time cannot be divided by", by, ("step", "trace"))
        return self._frame("breakdown" if by == "step" else "whole")

    def idle(self) -> pd.DataFrame:
        """Return the idle time by rank, device, step and cause; see `notebook_prof.analysis.device_idle`."""
        return self._frame("idle")

    def memory(self) -> pd.DataFrame:
        """Return the peak memory of each rank and device; see `notebook_prof.analysis.memory_peak`."""
        return self._frame("memory")

    def collectives(self) -> pd.DataFrame:
        """Return the collectives of all ranks; the same collective has the same number in ``match``.

        See `notebook_prof.analysis.collectives`.
        """
        return self._shared("matched")

    def arrivals(self) -> pd.DataFrame:
        """Return when each rank arrived at each shared collective, and how long it waited."""
        return self._shared("arrivals")

    def stragglers(self) -> pd.DataFrame:
        """Return the ranks by how late they come to shared collectives, the latest first; see `stragglers`.

        Sends and receives are left out, since in a pipeline some rank always waits; see `pipeline`.
        """
        arrived = self._shared("arrivals")
        return stragglers(arrived[~arrived["operation"].isin(POINT_TO_POINT)])

    def communication(self, by: str | Sequence[str] = ("operation", "group", "size")) -> pd.DataFrame:
        """Return communication with waiting, transfer and bandwidths; see `communication`."""
        return communication(self._shared("matched"), self._shared("arrivals"), by=by)

    def links(self) -> pd.DataFrame:
        """Return the messages from rank to rank, if sends and receives have a recorded peer; see `links`."""
        return links(self._shared("matched"), self._shared("arrivals"))

    def pipeline(self) -> pd.DataFrame:
        """Return stages and bubbles of pipelines; see `notebook_prof.ranks.analysis.links.pipeline`."""
        work, clocks = self._frame("stages"), self.clocks().set_index("rank")
        if not len(work):
            return pipeline(work, self.links())
        rank = work["rank"].to_numpy()
        origin = work["rank"].map(self._origins()).to_numpy(np.int64)
        ends = {name: self._on_axis(origin + work[name].to_numpy(np.int64), rank) for name in _ENDS}
        return pipeline(work.assign(**ends, aligned=clocks["aligned"].reindex(rank).to_numpy()), self.links())

    def flops(self) -> pd.DataFrame:
        """Count the FLOPs of each rank and step, from recorded shapes.

        Returns
        -------
        DataFrame
            ``rank`` int32, ``step`` Int32, ``flops``, ``bytes`` float64, ``known`` int64: the number of calls
            with known work; ``flops_per_s`` float64: over the step's duration, NaN outside steps. By rank and
            step; empty if no shapes were recorded.
        """
        table = self._frame("work")
        if not len(table):
            return table.assign(flops_per_s=np.empty(0))
        steps = self._frame("breakdown")[["rank", "step", "step_ns"]]
        table = table.merge(steps, on=["rank", "step"], how="left")
        seconds = table.pop("step_ns").astype("Float64").to_numpy(np.float64, na_value=np.nan) / 1e9
        return table.assign(flops_per_s=table["flops"].to_numpy() / seconds)

    def imbalance(self, of: str = "operators") -> pd.DataFrame:
        """Compare ranks by ``operators device steps compute memory flops``; see `imbalance`.

        Raises
        ------
        OptionError
            If `of` is none of these.
        """
        check_option("ranks cannot be compared by", of, _COMPARED)
        name, value, by = _COMPARED[of]
        return imbalance(self._frame(name), value, by)

    def fold(self) -> Folding:
        """Fold ranks that run the same work into groups: representatives, bands and outliers; see `fold`."""
        return fold(self._frame("breakdown"), fingerprints(self._frame("operators")))
