"""What a column of a panel's table is measured in, and what stands above it: both from its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pandas as pd
from pandas.api import types

TEXTS: Final = ("text", "code")
"""Units that are texts; code is written as in an editor."""
UNITS: Final = ("ns", "bytes", "share", "count", "number", *TEXTS, "instant", "flops", "flops/s", "bytes/s")
"""What the page can write."""

_SUFFIXES: Final = {
    "_ns": "ns",
    "_bytes": "bytes",
    "_share": "share",
    "_ts": "instant",
    "_flops": "flops",
}
_WHOLE: Final = {"ts": "instant", "bytes": "bytes", "share": "share", "flops": "flops", "dur": "ns"}
_HEADS: Final = {"ts": "at", "dur": "duration"}


def unit_of(frame: pd.DataFrame, column: str, units: Mapping[str, str] | None = None) -> str:
    """Unit of a column: as given, or by its name and dtype; empty where the column is hidden.

    Examples
    --------
    >>> table = pd.DataFrame({"name": ["mm"], "self_ns": [5], "calls": [2]})
    >>> [unit_of(table, column) for column in table]
    ['text', 'ns', 'count']
    """
    if units and column in units:
        return units[column]
    dtype = frame[column].dtype
    if types.is_bool_dtype(dtype) or not types.is_numeric_dtype(dtype):
        return "text"
    if column in _WHOLE:
        return _WHOLE[column]
    for suffix, unit in _SUFFIXES.items():
        if column.endswith(suffix):
            return unit
    return "count" if types.is_integer_dtype(dtype) else "number"


def head_of(column: str) -> str:
    """Text above a column: its name without the unit.

    Examples
    --------
    >>> head_of("device_self_ns"), head_of("ts")
    ('device self', 'at')
    """
    if column in _HEADS:
        return _HEADS[column]
    for suffix in _SUFFIXES:
        if column.endswith(suffix) and suffix != "_share":
            return column.removesuffix(suffix).replace("_", " ")
    return column.replace("_", " ")
