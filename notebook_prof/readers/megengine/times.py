"""Start, kernel return and end of the operators of a static graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace.intervals import IntArray
from ...trace.report import ImportReport

_NS: Final = 1_000_000_000
_LATEST_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class Times:
    """A row for each operator and place (computing node or host thread); ns from the profile's start."""

    operator: list[str]
    place: list[str]
    start: IntArray
    kern: IntArray
    end: IntArray

    def longest(self) -> pd.DataFrame:
        """``ns kern_ns`` Int64 of each operator, by id: the longest over its places."""
        table = pd.DataFrame(
            {"id": self.operator, "ns": self.end - self.start, "kern_ns": self.kern - self.start}
        )
        return table.groupby("id", sort=False)[["ns", "kern_ns"]].max().astype("Int64")


def read_times(entries: dict[str, Any], report: ImportReport) -> Times:
    """Read ``{operator: {place: {"start", "kern", "end"}}}``, in seconds.

    Parameters
    ----------
    entries : dict
    report : ImportReport
        Counts entries whose times are no numbers (``broken-row``).

    Examples
    --------
    >>> times = read_times({"7": {"cpu0:0": {"start": 0.5, "kern": 0.5, "end": 0.75}}}, ImportReport())
    >>> times.operator, times.end.tolist()
    (['7'], [750000000])
    """
    operator, place, values = [], [], []
    for key, places in entries.items():
        for where, times in places.items() if isinstance(places, dict) else ():
            row = [times.get(part) for part in ("start", "kern", "end")] if isinstance(times, dict) else []
            if len(row) == 3 and all(isinstance(t, int | float) and abs(t) < _LATEST_S for t in row):
                operator.append(key)
                place.append(where)
                values.append(row)
            else:
                report.add(
                    "broken-row", "loss", example=f"operator {key}: {times!r}"[:200], effect="left out"
                )
    seconds = np.array(values, np.float64).reshape(-1, 3)
    start, kern, end = np.rint(seconds * _NS).astype(np.int64).T
    return Times(operator, place, start, kern, end)
