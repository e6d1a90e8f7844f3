"""The arguments of events: a table beside the slices, which all readers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..trace.arrays import IntArray
from ..trace.strings import Coded

NAME: Final = "event_arguments"
"""Name of the table in ``metadata["tables"]``."""


def argument_rows(
    track: npt.ArrayLike, ts: IntArray, dur: IntArray, name: Coded, arguments: Coded
) -> pd.DataFrame:
    """Return a row of ``event_arguments`` for each slice that has arguments."""
    # `ts` is in Unix ns; `arguments` are JSON objects as text, code -1 for none. ``track`` (int32),
    # ``start_unix_ns``, ``dur_ns`` (int64) and ``name`` identify the slice, so negative durations become 0,
    # as in the slices.
    has = np.flatnonzero(np.asarray(arguments.codes) >= 0)
    columns: dict[str, Any] = {
        "track": np.broadcast_to(np.asarray(track, np.int32), len(ts))[has],
        "start_unix_ns": np.asarray(ts, np.int64)[has],
        "dur_ns": np.maximum(np.asarray(dur, np.int64)[has], 0),
    }
    for key, part in (("name", name), ("arguments", arguments)):
        columns[key] = np.array([*part.values, None], dtype=object)[np.asarray(part.codes)[has]]
    return pd.DataFrame(columns)


def argument_table(parts: Sequence[pd.DataFrame]) -> pd.DataFrame | None:
    """Make the table ``event_arguments`` from rows of `argument_rows`. Text columns become categories."""
    if not any(map(len, parts)):
        return None
    return pd.concat(parts, ignore_index=True).astype({"name": "category", "arguments": "category"})
