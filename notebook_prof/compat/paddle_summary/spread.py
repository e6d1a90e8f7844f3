"""Calls, total, average, maximum and minimum of groups of events."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import OptionError, nearest
from ...trace.intervals import IntArray

SORTED_KEYS: Final = ("CPUTotal", "CPUAvg", "CPUMax", "CPUMin", "GPUTotal", "GPUAvg", "GPUMax", "GPUMin")
"""Paddle's ``SortedKeys``; all from largest to smallest except the two minima."""

STATISTICS: Final = ("total_ns", "avg_ns", "max_ns", "min_ns")


def spread(keys: npt.NDArray[Any], cpu: IntArray, gpu: IntArray) -> pd.DataFrame:
    """Statistics of each key, in the order of first appearance.

    Returns
    -------
    DataFrame
        ``name calls``, and ``cpu_`` and ``gpu_`` ``total_ns avg_ns max_ns min_ns``.

    Examples
    --------
    >>> spread(np.array(["a", "a"]), np.array([1, 3]), np.array([0, 0]))["cpu_avg_ns"].tolist()
    [2.0]
    """
    code, names = pd.factorize(keys)
    table = pd.DataFrame({"name": names, "calls": np.bincount(code, minlength=len(names))})
    for place, values in (("cpu", cpu), ("gpu", gpu)):
        groups = pd.Series(values).groupby(code, sort=False)
        found = groups.agg(["sum", "max", "min"]).reindex(range(len(names)))
        table[f"{place}_total_ns"] = found["sum"].to_numpy()
        table[f"{place}_avg_ns"] = found["sum"].to_numpy() / np.maximum(table["calls"].to_numpy(), 1)
        table[f"{place}_max_ns"], table[f"{place}_min_ns"] = found["max"].to_numpy(), found["min"].to_numpy()
    return table


def ratios(table: pd.DataFrame, cpu_whole: float, gpu_whole: float) -> pd.DataFrame:
    """Add ``cpu_ratio`` and ``gpu_ratio``: shares of the wholes; 0 where a whole is 0."""
    for place, whole in (("cpu", cpu_whole), ("gpu", gpu_whole)):
        table[f"{place}_ratio"] = table[f"{place}_total_ns"] / whole if whole else 0.0
    return table


def sort_key(sorted_by: str) -> tuple[str, bool]:
    """Column and direction (whether ascending) of a sort key.

    Raises
    ------
    OptionError
        If there is no such key.

    Examples
    --------
    >>> sort_key("CPUTotal"), sort_key("GPUMin")
    (('cpu_total_ns', False), ('gpu_min_ns', True))
    """
    word = getattr(sorted_by, "name", sorted_by)  # Paddle's own enum has names
    if word not in SORTED_KEYS:
        raise OptionError(f"there is no sort key {word!r}: {nearest(str(word), SORTED_KEYS)}")
    return f"{word[:3].lower()}_{word[3:].lower()}_ns", word.endswith("Min")


def ranked(table: pd.DataFrame, sorted_by: str) -> pd.DataFrame:
    """The table in the order of a sort key; equals stay in their order."""
    column, ascending = sort_key(sorted_by)
    return table.sort_values(column, ascending=ascending, kind="stable", ignore_index=True)
