"""What bounds the DataLoader that steps wait for, in words."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...trace import Trace
from ..input.loader_bounds import NOT_THE_LOADER, TOO_FEW, loader_bounds
from .claims import Sentence, Source, cite, say

BOUNDS = {
    "transform": "transforms",
    "storage": "storage (items that wait, not compute)",
    "collate": "collate (with the copy into shared memory)",
    "transport": "sending batches between processes",
    "order": "their order: ready batches wait for a slower one before them",
}
"""What sentences say for each bound of `loader_bounds`."""


def bounding_loader(trace: Trace) -> dict[str, Any] | None:
    """Return the row of `loader_bounds` with the longest waits; None if no loader limits its loop."""
    table = loader_bounds(trace)
    if len(table):
        table = table[~table["bound"].isin([NOT_THE_LOADER, TOO_FEW])]
    if not len(table):
        return None
    waited = table["wait_share"] * table["batches"] / table["rate"]
    row: dict[str, Any] = table.loc[waited.idxmax()].to_dict()
    return row


def loader_words(trace: Trace) -> Sentence | None:
    """Say what limits the loader and, if there are too few workers, how many would suffice.

    The result has no full stop: ``the batches of `Slow` are bound by storage …; 3 workers would do``.
    """
    row = bounding_loader(trace)
    if row is None:
        return None
    where = {"loader": int(row["loader"])}
    kind = str(row["bound"])
    sentence = say(
        f"the batches of `{row['dataset']}` are bound by ",
        cite(BOUNDS[kind], kind, Source("loader_bounds", "bound", where)),
    )
    if pd.isna(row["enough"]) or int(row["enough"]) <= int(row["workers"]) or kind == "order":
        return sentence
    number = int(row["enough"])
    words = "1 worker" if number == 1 else f"{number} workers"
    there = "" if not row["workers"] else f" in place of {int(row['workers'])}"
    return sentence + say(
        "; ", cite(words, number, Source("loader_bounds", "enough", where)), f" would do{there}"
    )
