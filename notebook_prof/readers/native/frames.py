"""DataFrames out of Parquet files, as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...trace.layout import TABLE_SUFFIX
from .columns import decode_column
from .storage import Storage
from .values import ValueDecoder

_NUMBER_BYTES = 8


class Frames:
    """Reads the tables of one recording.

    Parameters
    ----------
    storage : Storage
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        described = storage.content.get("frames")
        if not isinstance(described, Mapping):
            raise FormatError("the list of tables is damaged")
        self._described = described
        self._open: set[str] = set()
        self.values = ValueDecoder(self.read)

    def read(self, name: str) -> pd.DataFrame:
        """Return the DataFrame of this name.

        Raises
        ------
        FormatError
            If there is none, or it is damaged.
        """
        described = self._described.get(name) if isinstance(name, str) else None
        if not isinstance(described, Mapping) or name in self._open:
            raise FormatError(f"the table {name!r} is missing, or part of itself")
        self._open.add(name)
        try:
            return self._frame(name, described)
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"the table {name!r} is damaged: {error}") from error
        finally:
            self._open.discard(name)

    def _frame(self, name: str, described: Mapping[str, Any]) -> pd.DataFrame:
        rows, columns, levels = described["rows"], described["columns"], described.get("index", [])
        table = self._table(name + TABLE_SUFFIX, rows, [*columns, *levels])
        index = self._index(table, levels) if levels else pd.RangeIndex(rows)
        made = {}
        for i, how in enumerate(columns):
            column = decode_column(table.column(how["field"]), how, self.values)
            # pandas guesses the dtype of bare objects
            made[i] = pd.Series(column, index=index, dtype=object) if _is_object(column) else column
        frame = pd.DataFrame(made, index=index, copy=False)
        labels = [self.values.decode(how["label"]) for how in columns]
        if "labels" in described:
            names = [self.values.decode(label) for label in described["labels"]]
            frame.columns = (
                pd.MultiIndex.from_tuples(labels, names=names)
                if len(names) > 1
                else pd.Index(labels, name=names[0])
            )
        elif labels:
            frame.columns = pd.Index(labels, tupleize_cols=False)
        else:
            frame.columns = pd.Index([])
        frame.attrs.update(self.values.decode(described.get("attrs", {})))
        return frame

    def _index(self, table: Any, levels: list[dict[str, Any]]) -> pd.Index[Any]:
        arrays = [decode_column(table.column(how["field"]), how, self.values) for how in levels]
        names = [self.values.decode(how["label"]) for how in levels]
        if len(arrays) > 1:
            return pd.MultiIndex.from_arrays(arrays, names=names)
        only, dtype = arrays[0], object if _is_object(arrays[0]) else None
        return pd.Index(only, name=names[0], dtype=dtype, tupleize_cols=False)

    def _table(self, file: str, rows: int, columns: list[dict[str, Any]]) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        buffer = self._storage.buffer(file)
        try:
            parquet = pq.ParquetFile(pa.BufferReader(buffer), pre_buffer=False)
            about = parquet.metadata
            size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
            self._storage.take(max(size, 0) + rows * _NUMBER_BYTES * len(columns))
            if columns and (about.num_rows != rows or about.num_columns != len(columns)):
                raise FormatError(
                    f"{file!r} is damaged: {about.num_rows} rows of {about.num_columns} columns instead of "
                    f"{rows} of {len(columns)}"
                )
            return parquet.read(use_threads=True)
        except FormatError:
            raise
        except (pa.ArrowException, OSError, MemoryError, ValueError, TypeError) as error:
            raise FormatError(f"{file!r} is damaged: {error}") from error


def _is_object(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype == object


_TIMES: Final = {"ts", "dur", "self_ns"}
_LATEST_NS: Final = 2**61
"""Sums of two times must fit into 64 bits; it is 73 years."""


def check_rows(tables: Mapping[str, pd.DataFrame]) -> None:
    """Refuse row numbers that lead nowhere or in circles, which analyses would follow, and times of no trace.

    Raises
    ------
    FormatError
        If a key of a table is not a row of the other, or a parent does not come before its child; if a depth
        is not one more than its parent's, or a time is negative or too late.
    """
    slices, stacks, flows = tables["slices"], tables["stacks"], tables["flows"]
    count = len(slices)
    _check("slices.parent", _ints(slices["parent"]), np.arange(count))
    _check("stacks.parent", _ints(stacks["parent"]), np.arange(len(stacks)))
    _check("slices.stack", _ints(slices["stack"]), len(stacks))
    _check("allocations.slice", _ints(tables["allocations"]["slice"]), count)
    tracks = 1 + int(tables["tracks"]["track"].max()) if len(tables["tracks"]) else 0
    for name, values, least in (
        ("flows.src", flows["src"], 0),
        ("flows.dst", flows["dst"], 0),
        ("slices.track", slices["track"], 0),
        ("counters.track", tables["counters"]["track"], 0),
        ("allocations.track", tables["allocations"]["track"], -1),
    ):
        _check(name, values.to_numpy(), count if name.startswith("flows") else tracks, least)
    parent = _ints(slices["parent"])
    depth = slices["depth"].to_numpy().astype(np.int64)
    around = np.append(depth, -1)[parent]
    _in_range("slices.depth", depth, around + 1, around + 1)
    for name, table in tables.items():
        for column in _TIMES & set(table.columns):
            least = 0 if column in ("dur", "self_ns") else -_LATEST_NS
            _in_range(f"{name}.{column}", table[column].to_numpy(dtype=np.int64), least, _LATEST_NS)


def _ints(column: pd.Series[Any]) -> Any:
    return column.to_numpy(dtype=np.int64, na_value=-1)


def _in_range(name: str, values: Any, least: Any, most: Any) -> None:
    wrong = (values < least) | (values > most)
    if wrong.any():
        row = int(wrong.argmax())
        raise FormatError(f"{name} of row {row} is {int(values[row])}, which it cannot be")


def _check(name: str, values: Any, limit: Any, least: int = -1) -> None:
    wrong = (values >= limit) | (values < least)
    if wrong.any():
        row = int(wrong.argmax())
        raise FormatError(f"{name} of row {row} is {int(values[row])}, which is no row that it can name")
