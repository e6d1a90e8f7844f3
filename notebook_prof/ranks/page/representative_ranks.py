"""The ranks whose timelines are shown if there is no space for all."""

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
    """Return all ranks if they fit, else the most telling ones (at least one), and why as the end of a
    sentence.

    Chosen ranks come first, then the latest ones, outliers and representatives.
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
