"""What the tables beside the slices tell of each slice, as text for its event."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from ..trace import Trace
from ..trace.arrays import IntArray
from ..trace.event_tables import ARGUMENTS, DEVICE_TABLES, distinct_facts, event_table, slice_rows_of

_OF_SLICE: Final = frozenset({"device", "stream", "name", "start_unix_ns", "start_ns"})
"""Columns that the slice tells itself."""


class EventTexts:
    """What tables tell of slices.

    Attributes
    ----------
    texts : ndarray of object, shape (slices,), or None
        Members for the ``args`` of every slice, each with a comma before; None where nothing is told.
        ``arguments`` is the object that the event was called with; ``device_events`` and ``collectives`` are
        the row of the table of that name, without what the slice itself tells.
    rows : dict
        By table, the row of ``trace.slices`` whose event tells each of its rows; -1 where none does.
    """

    def __init__(self, trace: Trace) -> None:
        self.texts: npt.NDArray[np.object_] | None = None
        self.rows: dict[str, IntArray] = {}
        for name in (ARGUMENTS, *DEVICE_TABLES):
            table = event_table(trace, name)
            if table is None:
                continue
            rows = slice_rows_of(trace, name)
            texts = (
                _arguments(table) if name == ARGUMENTS else _attributes(_shorter(trace, table, rows), name)
            )
            with_text = np.flatnonzero((rows >= 0) & (texts != ""))
            if self.texts is None:
                self.texts = np.full(len(trace.slices), "", dtype=object)
            self.texts[rows[with_text]] = self.texts[rows[with_text]] + texts[with_text]
            self.rows[name] = np.full(len(table), -1, np.int64)
            self.rows[name][with_text] = rows[with_text]


def _arguments(table: pd.DataFrame) -> npt.NDArray[np.object_]:
    column = table["arguments"].astype("category")
    words = [f',"arguments":{text}' for text in column.cat.categories]
    return np.asarray(np.array([*words, ""], dtype=object)[column.cat.codes.to_numpy()])


def _shorter(trace: Trace, table: pd.DataFrame, rows: IntArray) -> pd.DataFrame:
    """Leave out the correlations that the slices tell."""
    if "correlation" not in table:
        return table
    own = np.append(trace.slices["correlation"].to_numpy(np.int64, na_value=-1), -1)[rows]
    number = table["correlation"].astype("Int64")
    return table.assign(correlation=number.mask(number == own))


def _attributes(table: pd.DataFrame, name: str) -> npt.NDArray[np.object_]:
    """Write each distinct row once."""
    code, facts = distinct_facts(table, _OF_SLICE)
    texts = [
        f',"{name}":{msgspec.json.encode(each).decode()}' if _is_writable(each) else "" for each in facts
    ]
    return np.array([*texts, ""], dtype=object)[code]


def _is_writable(facts: dict[str, Any]) -> bool:
    """Return whether there is something, and JSON has words for it."""
    return bool(facts) and all(math.isfinite(v) for v in facts.values() if isinstance(v, float))
