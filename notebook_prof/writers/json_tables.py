"""The tables of the metadata as JSON, beside the events of a Chrome trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..trace import Trace
from ..trace.arrays import IntArray
from .values import ValueEncoder


def json_tables(trace: Trace, rows_of_table: Mapping[str, IntArray]) -> dict[str, Any]:
    """Return what ``trace.metadata["tables"]`` holds, in its order.

    Parameters
    ----------
    trace : Trace
    rows_of_table : mapping
        By table, the slice whose event tells each row itself, or -1: of these, only the slice is written.

    Returns
    -------
    dict
        By name: ``columns`` of a DataFrame with ``name dtype values``, or a ``value`` of any other kind. A
        table whose rows events tell has ``slices`` too, the row of each in ``trace.slices``; ``values`` are
        then those of the rows with -1. An index other than the row number is not written.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> table = pd.DataFrame({"a": [1, 2]})
    >>> trace = TraceBuilder(metadata={"tables": {"t": table}}).seal()
    >>> json_tables(trace, {})
    {'t': {'columns': [{'name': 'a', 'dtype': 'int64', 'values': [1, 2]}]}}
    """
    tables, encoded = trace.metadata.get("tables") or {}, {}
    encoder = ValueEncoder(lambda frame: "")
    for name, table in tables.items() if isinstance(tables, Mapping) else ():
        if not isinstance(table, pd.DataFrame) or not _is_plain(table):
            encoded[str(name)] = {"value": encoder.encode(_without_frames(table))}
            continue
        encoded[str(name)] = {}
        if (rows := rows_of_table.get(name)) is not None:
            encoded[str(name)]["slices"] = rows.tolist()
            table = table[rows < 0]
        encoded[str(name)]["columns"] = [_column(table[column], encoder) for column in table]
    return encoded


def _is_plain(table: pd.DataFrame) -> bool:
    return all(type(name) is str for name in table.columns) and table.columns.is_unique


def _without_frames(value: Any) -> Any:
    """Return what a table of numbers inside a value is written as: its columns."""
    if isinstance(value, pd.DataFrame):
        return {str(name): value.iloc[:, i].tolist() for i, name in enumerate(value.columns)}
    return value.tolist() if isinstance(value, pd.Series | np.ndarray) else value


def _column(column: pd.Series[Any], encoder: ValueEncoder) -> dict[str, Any]:
    how: dict[str, Any] = {"name": column.name, "dtype": str(column.dtype)}
    if isinstance(column.dtype, pd.CategoricalDtype):
        words = column.cat.categories
        return how | {
            "values": column.cat.codes.tolist(),
            "categories": [encoder.encode(word) for word in words.tolist()],
        }
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biu":
        return how | {"values": column.tolist()}
    values = column.astype(object)
    if column.dtype != object:
        values = values.where(column.notna(), None)
    listed = values.tolist()
    if set(map(type, listed)) <= {str, int, bool, type(None)}:
        return how | {"values": listed}
    return how | {"values": [encoder.encode(value) for value in listed]}
