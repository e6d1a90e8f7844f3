"""Which ranks' timelines to show where there is no room for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd

MOST_RANKS: Final = 8
MOST_SLICES: Final = 1_500_000
"""Of all shown ranks together: they are in memory at once."""
_LATEST: Final = 3


def worth_showing(
    slices: Mapping[int, int],
    late: pd.DataFrame,
    folded: pd.DataFrame,
    chosen: Sequence[int] = (),
    *,
    most_ranks: int = MOST_RANKS,
    most_slices: int = MOST_SLICES,
) -> tuple[list[int], str]:
    """Return all ranks where they fit; else those that tell most, as many as fit, and at least one.

    Parameters
    ----------
    slices : mapping of int to int
        How many slices each rank has; others are not considered.
    late : DataFrame
        ``rank mean_late_ns``, the latest first; see `notebook_prof.ranks.analysis.arrivals.stragglers`.
    folded : DataFrame
        ``rank group representative outlier``; see `notebook_prof.ranks.analysis.folding.fold`.
    chosen : sequence of int
        Ranks that come before all others.
    most_ranks, most_slices : int

    Returns
    -------
    ranks : list of int
        Ascending.
    why : str
        What they are, as the end of a sentence.

    Examples
    --------
    >>> late = pd.DataFrame({"rank": [2, 0, 1, 3], "mean_late_ns": [90.0, 4, 3, 0]})
    >>> folded = pd.DataFrame({"rank": range(4), "group": 0, "representative": [0, 1, 0, 0], "outlier": 0})
    >>> worth_showing(dict.fromkeys(range(4), 10), late, folded, most_ranks=2)
    ([0, 2], 'the latest (2, 0)')
    >>> worth_showing(dict.fromkeys(range(4), 10), late, folded)
    ([0, 1, 2, 3], 'all ranks')
    """
    if len(slices) <= most_ranks and sum(slices.values()) <= most_slices:
        return sorted(slices), "all ranks"
    behind = late[late["mean_late_ns"] > 0]["rank"].tolist()
    candidates = {
        "the selected": list(chosen),
        "the latest": behind[:_LATEST],
        "the earliest": late["rank"].tolist()[-1:] if behind else [],
        "unlike the others": folded.loc[folded["outlier"].astype(bool), "rank"].tolist(),
        "standing for those alike": folded.sort_values("group", kind="stable")
        .loc[lambda table: table["representative"].astype(bool), "rank"]
        .tolist(),
    }
    shown: list[int] = []
    parts = []
    room = most_slices
    for what, ranks in candidates.items():
        own = []
        for rank in ranks:
            size = slices.get(rank)
            if size is None or rank in shown or len(shown) == most_ranks or (shown and size > room):
                continue
            shown.append(rank)
            own.append(rank)
            room -= size
        if own:
            parts.append(f"{what} ({', '.join(map(str, own))})")
    return sorted(shown), ", ".join(parts)
