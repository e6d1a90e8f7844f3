"""The linked dashboard of many ranks."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from ...atomic_files import atomic_text
from ...errors import NotebookProfError
from ...profiles.display import Displayed
from ...profiles.profile import Profile
from ...selection import Selection
from ...units import format_ns, format_share
from ..analysis.answers import RankAnswers
from ..analysis.communication import communication
from ..analysis.links import POINT_TO_POINT, links
from .frames import BUBBLES, PageFrames, PageSums, frames_under

_STEP: Final = ("step_ns", "compute_ns", "exposed_ns", "exposed_memory_ns", "data_ns", "idle_ns")


def page_sums(ranks: RankAnswers) -> PageSums:
    """Sum by rank, step and process group; see `PageSums`."""
    matched, arrived = ranks.collectives(), ranks.arrivals()
    shared = _with_step_numbers(arrived[~arrived["operation"].isin(POINT_TO_POINT)])
    late = shared.groupby(["rank", "step", "group"], as_index=False)[["match", "late_ns", "last"]]
    late = late.agg({"match": "size", "late_ns": "sum", "last": "sum"})
    last = shared[shared["last"] & shared["before"].notna()]
    return PageSums(
        steps=_steps(ranks),
        talk=_communication(matched, arrived),
        late=late.rename(columns={"match": "collectives", "last": "last_count"}),
        before=last.groupby(["rank", "step", "group", "before"], as_index=False)["before_ns"].sum(),
        links=_links(matched, arrived),
        bubbles=ranks.pipeline()[["rank", "stage", "step", *BUBBLES]],
        ranks=_facts(ranks),
    )


def _with_step_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Number the steps; -1 outside of steps."""
    step = table["step"].astype("Int64").fillna(-1).to_numpy(np.int64)
    return table.assign(step=step)


def _steps(ranks: RankAnswers) -> pd.DataFrame:
    table = ranks.breakdown()[["rank", "step", *_STEP]]
    table = _with_step_numbers(table.merge(ranks.steps(), on=["rank", "step"], how="left"))
    return table.astype({"start_ns": "float64", "end_ns": "float64"})


def _communication(matched: pd.DataFrame, arrived: pd.DataFrame) -> pd.DataFrame:
    by = ["rank", "step", "operation", "group"]
    table = _with_step_numbers(communication(matched, arrived, by=by))
    other_ns = table["total_ns"] - table["wait_ns"] - table["transfer_ns"]
    return table.assign(rest_ns=other_ns)[[*by, "count", "wait_ns", "transfer_ns", "rest_ns"]]


def _links(matched: pd.DataFrame, arrived: pd.DataFrame) -> pd.DataFrame:
    table = _with_step_numbers(links(matched, arrived, by=("step", "group")))
    size = table["bytes"].to_numpy(np.float64, na_value=np.nan)
    return table.assign(bytes=size)[["src", "dst", "step", "group", "count", "bytes", "transfer_ns"]]


def _facts(ranks: RankAnswers) -> pd.DataFrame:
    table = pd.DataFrame({"rank": sorted(ranks)})
    peaks, work = ranks.memory(), ranks.flops()
    if len(peaks):
        peak = peaks.groupby("rank")["peak_bytes"].max().rename("peak_memory_bytes")
        table = table.merge(peak, on="rank", how="left")
    if len(work):
        table = table.merge(work.groupby("rank")["flops_per_s"].median(), on="rank", how="left")
    clocks = ranks.clocks()[["rank", "residual_ns"]].rename(columns={"residual_ns": "clock_residual_ns"})
    return table.merge(clocks, on="rank", how="left")


_MOST_GROUPS: Final = 11

Stacking: TypeAlias = Callable[[Sequence[int] | None], Profile]


class RankBoard(Displayed):
    """The linked dashboard of many ranks: choosing ranks, steps, a group or a time window filters the rest.

    Made by ``ranks.dashboard()``. `selection` is kept in sync with the page, in both directions; `timeline`
    stacks the timelines of some ranks; `groups` lists groups of equal ranks, and outliers, at most a dozen:
    label, explanation, ranks.
    """

    def __init__(self, ranks: RankAnswers, selection: Selection, timeline: Stacking) -> None:
        self.ranks, self.selection, self.timeline = ranks, selection, timeline
        self.groups = _groups(ranks.fold().ranks)
        self._sums = page_sums(ranks)

    @property
    def headline(self) -> str:
        """Findings and problems of the ranks, as lines."""
        return "\n".join([_sentence(self.ranks), *map(str, self.ranks.report)])

    def frames(self, state: Mapping[str, Any]) -> PageFrames:
        """Return the tables of the figures under a selection, in the form of `Selection.to_state`."""
        return frames_under(self._sums, state)

    def to_html(self, path: str | os.PathLike[str], timelines: Sequence[int] | None = None) -> None:
        """Write the page into one HTML file; see `Ranks.to_html`."""
        page = importlib.import_module("notebook_prof.ranks.page.queries")
        opened, note = self._timelines_in_file(timelines)
        content = page.rank_report(self, opened, note)
        with atomic_text(path) as file:
            file.write(content)

    def __repr__(self) -> str:
        return self.headline

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return text and static HTML, for front-ends without widgets and notebooks without a kernel."""
        static = importlib.import_module("notebook_prof.ranks.page.queries").rank_fragment
        return {"text/plain": repr(self), "text/html": static(self.frames({}), self.headline)}

    def _page(self) -> Any:
        return importlib.import_module("notebook_prof.ranks.page.queries").RankProtocol(self)

    def _timelines_in_file(self, numbers: Sequence[int] | None) -> tuple[Profile | None, str]:
        """Return the timelines in a file, and a sentence about them."""
        if numbers is not None:
            ranks, why = list(numbers), "those asked for"
        else:
            slices = self.ranks.files.set_index("rank")["slices"].dropna().astype("int64").to_dict()
            late, folded = self.ranks.stragglers(), self.ranks.fold().ranks
            ranks, why = worth_showing(slices, late, folded, self.selection.rank or ()), _WHY
        if not ranks:
            return None, "This file has no timelines: open the run in a notebook to see them."
        try:
            opened = self.timeline(ranks)
        except (NotebookProfError, OSError, MemoryError) as error:
            return None, f"This file has no timelines: {error or type(error).__name__}."
        if len(ranks) == len(self.ranks):
            return opened, ""
        named = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
        sentence = f"This file has the timelines of {named}: {why}."
        return opened, f"{sentence} Open the run in a notebook for the others."


def _groups(folded: pd.DataFrame) -> list[tuple[str, str, list[int]]]:
    """Return groups of ranks, if there are several, and the outliers."""
    groups = []
    for group, part in folded.groupby("group"):
        like = int(part.loc[part["representative"], "rank"].iloc[0])
        label = f"{len(part)} rank{'' if len(part) == 1 else 's'} like rank {like}"
        groups.append((label, f"group {group}: these run nearly the same operators", part["rank"].tolist()))
    groups = groups[:_MOST_GROUPS] if len(groups) > 1 else []
    odd = folded[folded["outlier"]]
    if len(odd):
        why = "; ".join(f"rank {r}: {text}" for r, text in zip(odd["rank"], odd["why"], strict=True))
        count = f"{len(odd)} outlier{'' if len(odd) == 1 else 's'}"
        groups.append((count, why[:600], odd["rank"].tolist()))
    return groups


def _sentence(ranks: RankAnswers) -> str:
    table, count = ranks.stragglers(), len(ranks)
    text = f"{count} rank{'' if count == 1 else 's'}"
    if not len(table):
        return f"{text}; no collective is shared, so it is unknown which is late"
    first = table.iloc[0]
    if first["mean_late_ns"] <= 0:
        return f"{text}; all arrive at shared collectives at the same time"
    latest = f"rank {first['rank']} is the latest: {format_ns(first['mean_late_ns'])} on average, "
    latest += f"last in {format_share(first['last_share'])} of {first['collectives']} shared collectives"
    before = first["before"]
    return f"{text}; {latest}" + (f", mostly after {before}" if isinstance(before, str) else "")


# The ranks whose timelines are shown if there is no space for all.

MOST_RANKS: Final = 8
MOST_SLICES: Final = 1_500_000
"""Limit for all shown ranks together, since they are in memory at once."""
_LATEST: Final = 3
_WHY: Final = "those selected, late, early or unlike the others, and one of each group of equal ranks"


def worth_showing(
    slices: Mapping[int, int], late: pd.DataFrame, folded: pd.DataFrame, chosen: Sequence[int] = ()
) -> list[int]:
    """Return all ranks if they fit, otherwise the most informative ones, at least one."""
    if len(slices) <= MOST_RANKS and sum(slices.values()) <= MOST_SLICES:
        return sorted(slices)
    behind = late.loc[late["mean_late_ns"] > 0, "rank"].tolist()
    earliest = late["rank"].tolist()[-1:] if behind else []
    outliers = folded.loc[folded["outlier"].astype(bool), "rank"].tolist()
    by_group = folded[folded["representative"].astype(bool)].sort_values("group", kind="stable")
    shown: list[int] = []
    room = MOST_SLICES
    for rank in dict.fromkeys([*chosen, *behind[:_LATEST], *earliest, *outliers, *by_group["rank"].tolist()]):
        size = slices.get(rank)
        if size is not None and len(shown) < MOST_RANKS and (not shown or size <= room):
            shown.append(rank)
            room -= size
    return sorted(shown)
