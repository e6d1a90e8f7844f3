"""Our native format, written by `notebook_prof.writers.native`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import FormatError, NotebookProfError
from ...trace.arrays import FIRST, TABLE_SUFFIX
from ...trace.builder import TraceBuilder
from ...trace.intervals import Window
from ...trace.report import ImportReport
from ...trace.schema import TABLES
from ...trace.trace import Trace
from ..base import Probe, Reader
from .storage import Storage, ValueDecoder, decode_column, is_ours, starts_like_ours

_NUMBER_BYTES = 8


class FrameReader:
    """Reads the tables of one recording."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        described = storage.content.get("frames")
        if not isinstance(described, Mapping):
            raise FormatError("the list of tables is damaged")
        self._described = described
        self._open: set[str] = set()
        self.values = ValueDecoder(self.read)

    def read(self, name: str) -> pd.DataFrame:
        """Return the DataFrame with this name; FormatError if it is missing or damaged."""
        described = self._described.get(name) if isinstance(name, str) else None
        if not isinstance(described, Mapping) or name in self._open:
            raise FormatError(f"the table {name!r} is missing, or contains itself")
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
            # pandas would infer another dtype from plain objects
            made[i] = pd.Series(column, index=index, dtype=object) if _is_object(column) else column
        frame = pd.DataFrame(made, index=index, copy=False)
        labels = [self.values.decode(how["label"]) for how in columns]
        if "labels" in described:
            names = [self.values.decode(label) for label in described["labels"]]
            several = len(names) > 1
            make = pd.MultiIndex.from_tuples
            frame.columns = make(labels, names=names) if several else pd.Index(labels, name=names[0])
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
"""Largest time, 73 years: the sum of two must fit into 64 bits."""


def check_rows(tables: Mapping[str, pd.DataFrame]) -> None:
    """Refuse impossible times, and row numbers that do not exist or form cycles."""
    # Analyses follow these numbers. A key of a table must be a row of the other, a parent must come before
    # its child, and a depth must be one more than its parent's. A time must be neither negative nor too late.
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
        raise FormatError(f"{name} of row {row} is {int(values[row])}, which is impossible")


def _check(name: str, values: Any, limit: Any, least: int = -1) -> None:
    wrong = (values >= limit) | (values < least)
    if wrong.any():
        row = int(wrong.argmax())
        raise FormatError(f"{name} of row {row} is {int(values[row])}, which is not the number of a row")


class NativeReader(Reader):
    """Reads what ``p.save`` and ``trace.save`` write: a folder or zip of Parquet files and JSON."""

    name = "native"
    priority = 1000
    describes = "our own format: a folder (.nbprof) or a zip (.nbprof.zip) of Parquet tables"

    def recognises(self, probe: Probe) -> bool:
        return starts_like_ours(probe.head)

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Raise an error: this format can only be opened in place."""
        raise FormatError(
            "a saved recording is inside another compressed file, or no longer where it was: unpack it, and "
            "open the .nbprof folder or the .nbprof.zip"
        )

    def open(self, path: Path, max_bytes: int | None = None) -> Trace:
        """Open a recording as the Trace that was saved, with at most `max_bytes` of memory for its tables."""
        # FormatError if it is incomplete, was changed, or has an unsupported version.
        if not is_ours(path):
            raise FormatError(
                f"{path.name}: this is not a recording that notebook_prof saved (there is no {FIRST!r} of "
                "ours in it): leave out format= to find out what it is"
            )
        try:
            return _trace(Storage(path, max_bytes))
        except NotebookProfError as error:
            raise FormatError(f"{path.name}: {error}") from error
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"{path.name}: the recording is damaged: {error}") from error


def _trace(storage: Storage) -> Trace:
    frames = FrameReader(storage)
    tables = {table.name: frames.read(table.name) for table in TABLES}
    check_rows(tables)
    metadata = frames.values.decode(storage.content["metadata"])
    if not isinstance(metadata, dict):
        raise FormatError("the metadata is damaged")
    start, end = storage.content["span"]
    report, span = _report(storage.content["report"]), Window(int(start), int(end))
    return Trace(tables, metadata=metadata, report=report, span=span)


def _report(issues: list[dict[str, Any]]) -> ImportReport:
    report = ImportReport()
    for issue in issues:
        texts = {name: str(issue[name]) for name in ("code", "severity", "example", "effect", "advice")}
        report.add(**texts, count=int(issue["count"]))  # type: ignore[arg-type]
    return report
