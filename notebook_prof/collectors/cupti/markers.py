"""NVTX ranges and marks, from their beginnings and ends."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.report import ImportReport
from . import names

INSTANT, START, END = 1, 2, 4
_FLAGS: Final = INSTANT | START | END


def ranges(rows: npt.NDArray[Any], end_ns: int, report: ImportReport) -> dict[str, Any]:
    """Pair the markers by their number.

    Parameters
    ----------
    rows : structured ndarray
        Marker records.
    end_ns : int
        On CUPTI's clock: where ranges end that were still open.
    report : ImportReport
        Told how many those are, and ends without a beginning, which are left out.
    """
    flags = rows["flags"] & _FLAGS
    begins = rows[(flags == START) | (flags == INSTANT)]
    ends = rows[flags == END]
    instant = (begins["flags"] & _FLAGS) == INSTANT
    order = np.argsort(ends["id"], kind="stable")
    key = ends["id"][order]
    place = np.searchsorted(key, begins["id"])
    known = place < len(key)
    known[known] = key[place[known]] == begins["id"][known]
    known &= ~instant
    stop = np.where(instant, begins["timestamp"], np.uint64(end_ns))
    stop[known] = ends["timestamp"][order[place[known]]]
    report.add(
        "ranges-open",
        "info",
        int((~known & ~instant).sum()),
        example="NVTX ranges that had not ended when the recording did",
        effect="they end with it",
    )
    report.add(
        "range-ends-alone",
        "info",
        int((~np.isin(ends["id"], begins["id"])).sum()),
        example="ends of NVTX ranges that began before the recording",
        effect="they are left out",
    )
    return {
        "start": begins["timestamp"],
        "end": np.maximum(stop, begins["timestamp"]),
        "name": names.coded(begins["name"], lambda address: names.text_at(address) or "range"),
        "kind": "user_annotation",
        "tid": begins["objectId.pt.threadId"],
    }
