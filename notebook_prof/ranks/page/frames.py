"""Sums for the ranks' page, computed once, and tables under a selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...service.palette import CATEGORIES, IDLE, PHASES

PARTS: Final = {
    "compute_ns": ("compute", CATEGORIES["kernel"]),
    "exposed_ns": ("exposed communication", CATEGORIES["collective"]),
    "exposed_memory_ns": ("copies", CATEGORIES["memcpy"]),
    "data_ns": ("waiting for data", PHASES["data"]),
    "idle_ns": ("idle", PHASES["other"]),
}
"""Columns of `notebook_prof.analysis.breakdown` that sum to a step, from the bottom upwards."""
BUBBLES: Final = {
    "compute_ns": ("compute", CATEGORIES["kernel"]),
    "other_ns": ("collectives", CATEGORIES["collective"]),
    "warmup_ns": ("warm-up", IDLE[2]),
    "between_ns": ("between", IDLE[0]),
    "drain_ns": ("drain", IDLE[1]),
}
TALK: Final = {
    "transfer_ns": ("transfer", CATEGORIES["collective"]),
    "wait_ns": ("waiting for the last rank", CATEGORIES["sync"]),
    "rest_ns": ("not shared", PHASES["other"]),
}


@dataclass(frozen=True, slots=True)
class PageSums:
    """Sums behind the page's figures: int64, ns; ``step`` -1 outside steps, ``group`` empty if unknown."""

    # One row per rank and step: ``rank step step_ns compute_ns exposed_ns exposed_memory_ns data_ns
    # idle_ns``, and ``start_ns end_ns`` float64 on the common clock (NaN for clocks that cannot be compared).
    steps: pd.DataFrame
    # Collectives: ``rank step operation group count wait_ns transfer_ns rest_ns``.
    talk: pd.DataFrame
    # Arrivals at shared collectives, without sends and receives: ``rank step group collectives late_ns
    # last_count``.
    late: pd.DataFrame
    # What ran before the collectives at which a rank arrived last: ``rank step group before before_ns``.
    before: pd.DataFrame
    # Messages: ``src dst step group count transfer_ns``, and ``bytes`` float64 (NaN if unknown).
    links: pd.DataFrame
    # Pipelines: ``rank stage step compute_ns other_ns warmup_ns between_ns drain_ns``.
    bubbles: pd.DataFrame
    # One row per rank: ``rank``, and further columns of the table of ranks, named as in `PageFrames`.
    ranks: pd.DataFrame


@dataclass(frozen=True, slots=True)
class PageFrames:
    """Tables of the ranks under a selection; times in ns, starts and ends on one clock."""

    # Highlighted ranks: the selected ones, and those of the selected process groups; None for all.
    emphasised: list[int] | None
    # One row per rank and step, as in `PageSums`, and ``kept`` bool: inside the selected steps and window.
    steps: pd.DataFrame
    # ``rank step value kept``: time of each step or, if process groups are selected, of their collectives.
    heat: pd.DataFrame
    # ``rank mean_late_ns last_share before``, latest first, over the kept rows.
    late: pd.DataFrame
    # ``operation group count wait_ns transfer_ns rest_ns members chosen`` for the wanted ranks and kept rows,
    # selected groups first; `members` is a list of ranks.
    talk: pd.DataFrame
    # ``src dst count bytes transfer_ns``, over the kept rows.
    links: pd.DataFrame
    # ``rank stage compute_ns other_ns warmup_ns between_ns drain_ns``, means over the kept rows.
    bubbles: pd.DataFrame
    # One row per rank for the table: ``rank``, and columns with units in their names (``step_ns``,
    # ``peak_bytes``, ``last_share``, ``flops_per_s``).
    ranks: pd.DataFrame


# Tables under a selection, from sums of all ranks.

MIDDLE: Final = ("step_ns", "compute_ns", "exposed_ns", "idle_ns")


def frames_under(sums: PageSums, state: Mapping[str, Any]) -> PageFrames:
    """Return the tables of the figures under ``rank step window group``."""
    # A process group selects its ranks: figures with ranks on an axis show other ranks pale; lateness,
    # messages and the heat map show only its collectives. Messages are kept if one of their ends is selected.
    steps = sums.steps.assign(kept=_inside_selection(sums.steps, state))
    pairs = None if steps["kept"].all() else _key(steps["rank"], steps["step"])[steps["kept"].to_numpy()]
    groups, emphasised = state.get("group"), _emphasised(sums, state)
    late = _late(_kept_rows(sums.late, pairs, groups), _kept_rows(sums.before, pairs, groups))
    return PageFrames(
        emphasised=emphasised,
        steps=steps,
        heat=_heat(steps, sums.talk, groups),
        late=late,
        talk=_talk(sums, _kept_rows(sums.talk, pairs), emphasised, groups),
        links=_links(sums.links, pairs, groups),
        bubbles=_kept_rows(sums.bubbles, pairs)
        .groupby(["rank", "stage"], as_index=False)[list(BUBBLES)]
        .mean(),
        ranks=_table(sums, steps, late),
    )


def medians(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the median of each part of each rank's step, over the kept rows."""
    return steps[steps["kept"]].groupby("rank")[list(PARTS)].median().reset_index()


def _inside_selection(steps: pd.DataFrame, state: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Return rows inside the selected steps, and touching the selected window."""
    keep = np.ones(len(steps), bool)
    if state.get("step") is not None:
        keep &= steps["step"].isin(state["step"]).to_numpy()
    if state.get("window") is not None:
        start, end = state["window"]
        keep &= (steps["start_ns"] < end).to_numpy() & (steps["end_ns"] > start).to_numpy()
    return keep


def _emphasised(sums: PageSums, state: Mapping[str, Any]) -> list[int] | None:
    rank, group = state.get("rank"), state.get("group")
    if group is None:
        return None if rank is None else list(rank)
    members = sums.talk.loc[sums.talk["group"].isin(group), "rank"].unique().tolist()
    return sorted(members if rank is None else {*rank} & {*members})


def _key(rank: Any, step: Any) -> npt.NDArray[np.int64]:
    """Return the rank and step in one number."""
    made: npt.NDArray[np.int64] = (np.asarray(rank, np.int64) << 32) + np.asarray(step, np.int64) + 1
    return made


def _kept_rows(
    table: pd.DataFrame, pairs: npt.NDArray[np.int64] | None, groups: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the rows of the kept ranks and steps (all for None, also outside steps), and of the groups."""
    if pairs is not None:
        table = table[np.isin(_key(table["rank"], table["step"]), pairs)]
    return table if groups is None else table[table["group"].isin(groups)]


def _heat(steps: pd.DataFrame, talk: pd.DataFrame, groups: Sequence[str] | None) -> pd.DataFrame:
    cells = steps[["rank", "step", "kept"]]
    if groups is None:
        return cells.assign(value=steps["step_ns"])
    own = talk[talk["group"].isin(groups)]
    spent = own.assign(value=own[list(TALK)].sum(axis=1)).groupby(["rank", "step"], as_index=False)["value"]
    return cells.merge(spent.sum(), on=["rank", "step"])


def _late(late: pd.DataFrame, before: pd.DataFrame) -> pd.DataFrame:
    table = late.groupby("rank")[["collectives", "late_ns", "last_count"]].sum().reset_index()
    table["mean_late_ns"] = table["late_ns"] / table["collectives"]
    table["last_share"] = table["last_count"] / table["collectives"]
    most = before.groupby(["rank", "before"], as_index=False)["before_ns"].sum()
    most = most.sort_values("before_ns", kind="stable").drop_duplicates("rank", keep="last")
    table = table.merge(most[["rank", "before"]], on="rank", how="left")
    table = table.sort_values(["mean_late_ns", "rank"], ascending=[False, True], kind="stable")
    return table[["rank", "mean_late_ns", "last_share", "before"]].reset_index(drop=True)


def _talk(
    sums: PageSums, talk: pd.DataFrame, emphasised: list[int] | None, groups: Sequence[str] | None
) -> pd.DataFrame:
    by = ["operation", "group"]
    own = talk if emphasised is None else talk[talk["rank"].isin(emphasised)]
    table = own.groupby(by, as_index=False)[["count", *TALK]].sum()
    members: dict[tuple[str, str], list[int]] = {
        key: sorted(part.unique().tolist()) for key, part in sums.talk.groupby(by)["rank"]
    }
    keys = zip(table["operation"], table["group"], strict=True)
    table["members"] = pd.Series([members[key] for key in keys], dtype=object)
    table["chosen"] = True if groups is None else table["group"].isin(groups)
    order = np.lexsort((-table[list(TALK)].sum(axis=1).to_numpy(), ~table["chosen"].to_numpy(bool)))
    return table.iloc[order].reset_index(drop=True)


def _links(
    links: pd.DataFrame, pairs: npt.NDArray[np.int64] | None, groups: Sequence[str] | None
) -> pd.DataFrame:
    if pairs is not None:
        ends = (np.isin(_key(links[end], links["step"]), pairs) for end in ("src", "dst"))
        links = links[np.logical_or(*ends)]
    if groups is not None:
        links = links[links["group"].isin(groups)]
    kinds = {"count": ("count", "sum"), "bytes": ("bytes", "sum"), "transfer_ns": ("transfer_ns", "sum")}
    table = links.groupby(["src", "dst"], as_index=False).agg(**kinds, told=("bytes", "count"))
    return table.assign(bytes=table["bytes"].where(table["told"] > 0))


def _table(sums: PageSums, steps: pd.DataFrame, late: pd.DataFrame) -> pd.DataFrame:
    """Return a row a rank, the latest first."""
    middle = steps[steps["kept"]].groupby("rank")[list(MIDDLE)].median()
    table = middle.reindex(sums.ranks["rank"]).reset_index()
    table = table.merge(late[["rank", "mean_late_ns", "last_share"]], on="rank", how="left")
    table = table.rename(columns={"mean_late_ns": "late_ns", "last_share": "comes_last_share"})
    table = table.merge(sums.ranks, on="rank", how="left")
    return table.sort_values(["late_ns", "rank"], ascending=[False, True], kind="stable", ignore_index=True)
