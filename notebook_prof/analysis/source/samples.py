"""The samples, statements and line runs that a recording keeps, and which slices are sampled."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray, consecutive
from ...trace.source_lines import LINE
from ..scope import Scope, WindowLike, recorded_table

STATEMENTS: Final = "statements"
"""Name of the table in ``metadata["tables"]`` with the statements of a cell as they ran."""

LINE_RUNS: Final = "line_runs"
"""Name of the table with each run of a line in the user's functions, from ``sys.monitoring``."""

SAMPLES: Final = "samples"
"""Name of the table with the Python engine's samples: ``ts dur track count``."""

AWAITS: Final = "awaits"
"""Name of the table with the lines at which tasks were suspended: ``ts dur file line text``."""

SINCE: Final = "py_spy_since_ns"
"""Key of metadata: when py-spy began to sample, in Unix ns."""


def sample_times(trace: Trace, window: WindowLike = None) -> tuple[IntArray, IntArray] | None:
    """Return the time and track of each sample of the Python engine; None without samples."""
    # Spread consecutive samples of a stack evenly over the time in which the stack was seen.
    looks = recorded_table(trace, SAMPLES)
    if looks is None:
        return None
    count, ts, track = (looks[name].to_numpy() for name in ("count", "ts", "track"))
    home = np.repeat(np.arange(len(count)), count)
    position = consecutive(np.zeros_like(count), count)
    at = ts[home] + ((2 * position + 1) * looks["dur"].to_numpy()[home]) // (2 * count[home])
    if window is not None:
        inside = (at >= window[0]) & (at < window[1])
        at, home = at[inside], home[inside]
    return at, track[home]


def sampled_slices(trace: Trace, host: Scope) -> BoolArray:
    """Return a mask of the host slices that come from samples, not from timed statements or lines."""
    # Sampled slices inside a statement may begin when it begins; only the slice of the line itself is timed.
    if recorded_table(trace, SAMPLES) is None:
        return np.zeros(len(host.rows), bool)
    categories = host.slices["line"].cat.categories
    size, timed = len(categories), [np.empty(0, np.int64)]
    for name in (STATEMENTS, LINE_RUNS):
        if (table := recorded_table(trace, name)) is not None:
            file = table["file"].astype("str") if "file" in table.columns else pd.Series("cell", table.index)
            label = file.str.rpartition("/")[2] + ":" + table["line"].astype("str")
            code = categories.get_indexer(pd.Index(label))
            timed.append(table["ts"].to_numpy(np.int64)[code >= 0] * size + code[code >= 0])
    code, is_timed = host.codes("line"), host.named(LINE.fullmatch)
    is_timed &= (code >= 0) & (code < size) & np.isin(host.ts * size + code, np.concatenate(timed))
    return np.asarray(host.among("category", ("python",)) & ~is_timed)
