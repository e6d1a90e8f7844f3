"""What the linked page of many ranks adds up, worked out once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from ..analysis.answers import RankAnswers
from ..analysis.communication import communication
from ..analysis.links import POINT_TO_POINT, links

if TYPE_CHECKING:
    from . import PageSums

_STEP: Final = ("step_ns", "compute_ns", "exposed_ns", "exposed_memory_ns", "data_ns", "idle_ns")
_BUBBLES: Final = ("compute_ns", "other_ns", "warmup_ns", "between_ns", "drain_ns")


def page_sums(ranks: RankAnswers[Any]) -> PageSums:
    """Sums by rank, step and process group; see `notebook_prof.ranks.page.PageSums`."""
    made = importlib.import_module("notebook_prof.ranks.page").PageSums  # loads Bokeh
    matched, arrived = ranks.collectives(), ranks.arrivals()
    shared = _known_steps(arrived[~arrived["operation"].isin(POINT_TO_POINT)])
    late = shared.groupby(["rank", "step", "group"], as_index=False)[["match", "late_ns", "last"]]
    late = late.agg({"match": "size", "late_ns": "sum", "last": "sum"})
    last = shared[shared["last"] & shared["before"].notna()]
    found: PageSums = made(
        steps=_steps(ranks),
        talk=_talk(matched, arrived),
        late=late.rename(columns={"match": "collectives", "last": "last_count"}),
        before=last.groupby(["rank", "step", "group", "before"], as_index=False)["before_ns"].sum(),
        links=_links(matched, arrived),
        bubbles=ranks.pipeline()[["rank", "stage", "step", *_BUBBLES]],
        ranks=_facts(ranks),
    )
    return found


def _known_steps(table: pd.DataFrame) -> pd.DataFrame:
    """With -1 for times outside steps."""
    step = table["step"].astype("Int64").fillna(-1).to_numpy(np.int64)
    return table.assign(step=step)


def _steps(ranks: RankAnswers[Any]) -> pd.DataFrame:
    table = ranks.breakdown()[["rank", "step", *_STEP]]
    table = _known_steps(table.merge(ranks.steps(), on=["rank", "step"], how="left"))
    return table.astype({"start_ns": "float64", "end_ns": "float64"})


def _talk(matched: pd.DataFrame, arrived: pd.DataFrame) -> pd.DataFrame:
    by = ["rank", "step", "operation", "group"]
    table = _known_steps(communication(matched, arrived, by=by))
    rest = table["total_ns"] - table["wait_ns"] - table["transfer_ns"]
    return table.assign(rest_ns=rest)[[*by, "count", "wait_ns", "transfer_ns", "rest_ns"]]


def _links(matched: pd.DataFrame, arrived: pd.DataFrame) -> pd.DataFrame:
    table = _known_steps(links(matched, arrived, by=("step", "group")))
    size = table["bytes"].to_numpy(np.float64, na_value=np.nan)
    return table.assign(bytes=size)[["src", "dst", "step", "group", "count", "bytes", "transfer_ns"]]


def _facts(ranks: RankAnswers[Any]) -> pd.DataFrame:
    table = pd.DataFrame({"rank": sorted(ranks)})
    peaks, work = ranks.memory(), ranks.flops()
    if len(peaks):
        peak = peaks.groupby("rank")["peak_bytes"].max().rename("peak_memory_bytes")
        table = table.merge(peak, on="rank", how="left")
    if len(work):
        table = table.merge(work.groupby("rank")["flops_per_s"].median(), on="rank", how="left")
    clocks = ranks.clocks()[["rank", "residual_ns"]].rename(columns={"residual_ns": "clock_residual_ns"})
    return table.merge(clocks, on="rank", how="left")
