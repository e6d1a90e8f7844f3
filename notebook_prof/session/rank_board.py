"""The linked dashboard of many ranks, under the ranks' shared selection."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pandas as pd

from ..ranks.answers import RankAnswers
from ..ranks.arrivals import stragglers
from ..ranks.communication import communication
from ..ranks.links import POINT_TO_POINT, links
from ..selection import Selection
from ..units import format_ns, format_share
from .display import display
from .profile import Profile

if TYPE_CHECKING:
    from ..views.rank_page import PageFrames

_MOST_GROUPS: Final = 11
_TALK: Final = ("operation", "group")
_BUBBLES: Final = ("compute_ns", "other_ns", "warmup_ns", "between_ns", "drain_ns")

Stacking: TypeAlias = Callable[[Sequence[int] | None], Profile]


class RankBoard:
    """Shows itself in a notebook: choosing ranks, steps, a group or a stretch of time filters the rest.

    Made by ``ranks.dashboard()``.

    Parameters
    ----------
    ranks : RankAnswers
    selection : Selection
        What is chosen in the page is chosen here, and the other way round.
    timeline : callable
        Stacks the timelines of some ranks.
    """

    def __init__(self, ranks: RankAnswers[Any], selection: Selection, timeline: Stacking) -> None:
        self.ranks, self._selection, self._timeline = ranks, selection, timeline
        self._steps, self._pipeline = _every_step(ranks), ranks.pipeline()
        self._groups = _groups(ranks.fold().ranks)

    @property
    def selection(self) -> Selection:
        """What is selected; see `notebook_prof.Selection`."""
        return self._selection

    @property
    def headline(self) -> str:
        """What the ranks show, and what is wrong with them, in lines."""
        return "\n".join([_found(self.ranks), *map(str, self.ranks.report)])

    def timeline(self, ranks: Sequence[int] | None = None) -> Profile:
        """Stack the timelines of some ranks."""
        return self._timeline(ranks)

    @property
    def groups(self) -> list[tuple[str, str, list[int]]]:
        """Ranks that do the same and ranks that differ: label, explanation, ranks; at most a dozen."""
        return self._groups

    def frames(self, state: Mapping[str, Any]) -> PageFrames:
        """What the figures draw under a selection, as `Selection.to_state` gives it."""
        made = importlib.import_module("notebook_prof.views.rank_page").PageFrames  # loads Bokeh
        ranks, wanted = self.ranks, state.get("rank")
        steps = self._steps.assign(kept=_kept(self._steps, state))
        kept = pd.MultiIndex.from_frame(steps.loc[steps["kept"], ["rank", "step"]].astype("int64"))
        whole = bool(steps["kept"].all())
        arrived, matched = (_within(table, kept, whole) for table in (ranks.arrivals(), ranks.collectives()))
        late = stragglers(arrived[~arrived["operation"].isin(POINT_TO_POINT)])
        own = matched if wanted is None else matched[matched["rank"].isin(wanted)]
        bubbles = _within(self._pipeline, kept, whole)
        bubbles = bubbles.groupby(["rank", "stage"], as_index=False)[list(_BUBBLES)].mean()
        found: PageFrames = made(
            steps=steps,
            late=late,
            talk=_talk(own, arrived, matched),
            links=links(matched, arrived),
            bubbles=bubbles,
            ranks=_table(ranks, steps, late),
        )
        return found

    def __repr__(self) -> str:
        return self.headline

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Text and static HTML, for front-ends without widgets and notebooks reopened without a kernel."""
        static = importlib.import_module("notebook_prof.views.rank_page.static").rank_fragment
        return {"text/plain": repr(self), "text/html": static(self.frames({}), self.headline)}

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Show the page where there is a front-end for it; see `Profile._ipython_display_`."""
        display(self, **kwargs)


def _every_step(ranks: RankAnswers[Any]) -> pd.DataFrame:
    table = ranks.breakdown()
    return table.merge(ranks.steps(), on=["rank", "step"], how="left")


def _groups(folded: pd.DataFrame) -> list[tuple[str, str, list[int]]]:
    """Groups of ranks, where there are several, and the outliers."""
    found = []
    for group, part in folded.groupby("group"):
        like = int(part.loc[part["representative"], "rank"].iloc[0])
        label = f"{len(part)} rank{'' if len(part) == 1 else 's'} like rank {like}"
        found.append((label, f"group {group}: these run nearly the same operators", part["rank"].tolist()))
    found = found[:_MOST_GROUPS] if len(found) > 1 else []
    odd = folded[folded["outlier"]]
    if len(odd):
        why = "; ".join(f"rank {r}: {text}" for r, text in zip(odd["rank"], odd["why"], strict=True))
        count = f"{len(odd)} outlier{'' if len(odd) == 1 else 's'}"
        found.append((count, why[:600], odd["rank"].tolist()))
    return found


def _kept(steps: pd.DataFrame, state: Mapping[str, Any]) -> Any:
    """Rows inside the selected steps, and touching the selected window."""
    keep = np.ones(len(steps), bool)
    if state.get("step") is not None:
        keep &= steps["step"].isin(state["step"]).to_numpy()
    if state.get("window") is not None:
        start, end = state["window"]
        keep &= ((steps["start_ns"] < end) & (steps["end_ns"] > start)).fillna(False).to_numpy(bool)
    return keep


def _within(table: pd.DataFrame, kept: pd.MultiIndex, whole: bool) -> pd.DataFrame:
    """Rows of ranks and steps that are kept; all, also outside steps, where nothing is left out."""
    if whole or not len(table):
        return table
    step = table["step"].astype("Int64").fillna(-1).to_numpy(np.int64)
    return table[pd.MultiIndex.from_arrays([table["rank"].to_numpy(np.int64), step]).isin(kept)]


def _talk(own: pd.DataFrame, arrived: pd.DataFrame, every: pd.DataFrame) -> pd.DataFrame:
    table = communication(own, arrived, by=list(_TALK))
    rest = table["total_ns"] - table["wait_ns"] - table["transfer_ns"]
    members: dict[tuple[str, str], list[int]] = {
        key: sorted(part.unique().tolist()) for key, part in every.groupby(list(_TALK))["rank"]
    }
    keys = zip(table["operation"], table["group"], strict=True)
    return table.assign(rest_ns=rest, members=pd.Series([members[key] for key in keys], dtype=object))


def _table(ranks: RankAnswers[Any], steps: pd.DataFrame, late: pd.DataFrame) -> pd.DataFrame:
    """A row a rank, the latest first."""
    middle = steps[steps["kept"]].groupby("rank")
    parts = ["step_ns", "compute_ns", "exposed_ns", "idle_ns"]
    table = middle[parts].median().reindex(sorted(ranks)).reset_index()
    table = table.merge(late[["rank", "mean_late_ns", "last_share"]], on="rank", how="left")
    peaks, work = ranks.memory(), ranks.flops()
    if len(peaks):
        peak = peaks.groupby("rank")["peak_bytes"].max().rename("peak_memory_bytes")
        table = table.merge(peak, on="rank", how="left")
    if len(work):
        speed = work.groupby("rank")["flops_per_s"].median()
        table = table.merge(speed, on="rank", how="left")
    clocks = ranks.clocks()[["rank", "residual_ns"]].rename(columns={"residual_ns": "clock_residual_ns"})
    table = table.merge(clocks, on="rank", how="left")
    table = table.rename(
        columns={
            "exposed_ns": "exposed_ns",
            "mean_late_ns": "late_ns",
            "last_share": "comes_last_share",
        }
    )
    return table.sort_values(["late_ns", "rank"], ascending=[False, True], kind="stable", ignore_index=True)


def _found(ranks: RankAnswers[Any]) -> str:
    table, count = ranks.stragglers(), len(ranks)
    text = f"{count} rank{'' if count == 1 else 's'}"
    if not len(table):
        return f"{text}; no collective is shared, so nobody is known to be late"
    first = table.iloc[0]
    if first["mean_late_ns"] <= 0:
        return f"{text}; all come to shared collectives at the same time"
    told = f"rank {first['rank']} is the latest: {format_ns(first['mean_late_ns'])} on average, "
    told += f"last in {format_share(first['last_share'])} of {first['collectives']} shared collectives"
    before = first["before"]
    return f"{text}; {told}" + (f", mostly after {before}" if isinstance(before, str) else "")
