"""What operators were called with, besides shapes: element types, strides, paddings, flags."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pandas as pd

from ...trace.intervals import IntArray
from ...trace.strings import Coded
from .activity_types import concrete_matters as concrete_matters
from .columns import KinetoColumns


def to_json(value: Any) -> str:
    """JSON text of a list of texts, in one spelling.

    Examples
    --------
    >>> to_json(["float", "Scalar"])
    '["float","Scalar"]'
    """
    return msgspec.json.encode(value).decode()


def argument_table(columns: KinetoColumns) -> pd.DataFrame:
    """The distinct ways in which operators were called.

    Returns
    -------
    DataFrame
        ``name shapes dtypes concrete count``, in order of first appearance: `dtypes` and `concrete` are
        JSON lists of text, one entry an argument, missing where they are not known. `concrete` is kept
        for convolutions, pooling and attention only. No rows where no shapes were recorded.

    Examples
    --------
    >>> none = np.empty(0, np.int64)
    >>> empty = Coded(none, [])
    >>> argument_table(KinetoColumns(none, none, empty, empty, *(none,) * 7)).columns.tolist()
    ['name', 'shapes', 'dtypes', 'concrete', 'count']
    """
    parts = {"name": columns.name, "shapes": columns.shapes}
    parts |= {"dtypes": columns.dtypes, "concrete": columns.concrete}
    known = columns.shapes is not None and len(columns) > 0
    rows = (
        np.flatnonzero(np.asarray(columns.shapes.codes) >= 0)
        if columns.shapes and known
        else np.empty(0, int)
    )
    key = np.zeros(len(rows), np.int64)
    for part in parts.values():
        own = _codes(part, rows)
        key, _ = pd.factorize(key * (int(own.max(initial=-1)) + 2) + own + 1)
    _, first, count = np.unique(key, return_index=True, return_counts=True)
    found = {name: _texts(part, rows[first]) for name, part in parts.items()}
    return pd.DataFrame({**found, "count": count.astype(np.int64)})


def _codes(part: Coded | None, rows: IntArray) -> IntArray:
    if part is None:
        return np.full(len(rows), -1, np.int64)
    return np.asarray(part.codes, np.int64)[rows]


def _texts(part: Coded | None, rows: IntArray) -> pd.Series[Any]:
    words = np.array([*(part.values if part is not None else ()), None], dtype=object)
    return pd.Series(words[_codes(part, rows)], dtype=object)
