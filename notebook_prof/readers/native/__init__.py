"""Our native format, written by `notebook_prof.writers.native`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import FormatError, NotebookProfError
from ...trace.arrays import FIRST, MAX_NESTING, TABLE_SUFFIX, TAG
from ...trace.builder import TraceBuilder
from ...trace.intervals import Window
from ...trace.report import ImportReport
from ...trace.schema import TABLES
from ...trace.trace import Trace
from ..base import Probe, Reader
from .storage import Storage, is_ours, starts_like_ours

_NUMBER_BYTES: Final = 8


class FrameReader:
    """Reads the tables and the metadata of one recording."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._columns = storage.content["columns"]
        self._reading: set[str] = set()

    def read(self, name: str) -> pd.DataFrame:
        """Return the DataFrame with this name; FormatError if it is missing or damaged."""
        if name in self._reading:
            raise FormatError(f"the table {name!r} contains itself")
        self._reading.add(name)
        frame = self._table(f"{name}{TABLE_SUFFIX}")
        for label, how in self._columns.get(name, {}).items():
            frame[label] = self._restored(frame[label], how)
        self._reading.discard(name)
        return frame

    def _restored(self, column: pd.Series[Any], how: Any) -> Any:
        if isinstance(how, dict):
            categories = pd.Index([self.value(word) for word in how["categories"]], dtype=how["dtype"])
            return pd.Categorical.from_codes(column.to_numpy(), categories=categories, ordered=how["ordered"])
        if isinstance(column.dtype, pd.CategoricalDtype):
            return column.cat.rename_categories(column.cat.categories.astype(object))
        values: Any = column.astype(object).where(column.notna(), None)
        if how == "json":
            values = [self.value(json.loads(text)) for text in values]
        return pd.Series(values, index=column.index, dtype=object)

    def _table(self, file: str) -> pd.DataFrame:
        import pyarrow as pa
        import pyarrow.parquet as pq

        buffer = self._storage.buffer(file)
        try:
            parquet = pq.ParquetFile(pa.BufferReader(buffer), pre_buffer=False)
            about = parquet.metadata
            size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
            self._storage.take(max(size, 0) + about.num_rows * _NUMBER_BYTES * about.num_columns)
            return parquet.read().unify_dictionaries().to_pandas(split_blocks=True, self_destruct=True)
        except FormatError:
            raise
        except (pa.ArrowException, OSError, MemoryError, ValueError, TypeError) as error:
            raise FormatError(f"{file!r} is damaged: {error}") from error

    def value(self, value: Any, depth: int = 0) -> Any:
        """Reverse `writers.values.ValueEncoder`; FormatError for what it never writes."""
        if depth > 4 * MAX_NESTING:
            raise FormatError("the metadata is nested too deeply")

        def inner(part: Any) -> Any:
            return self.value(part, depth + 1)

        if isinstance(value, list):
            return [inner(part) for part in value]
        if not isinstance(value, dict):
            return value
        if TAG not in value:
            return {key: inner(part) for key, part in value.items()}
        kind, content = value[TAG], value["v"]
        if kind == "tuple":
            return tuple(inner(part) for part in content)
        if kind == "dict":
            return {inner(key): inner(part) for key, part in content}
        if kind == "frame":
            return self.read(content)
        raise FormatError(f"the metadata has a value of the unknown kind {kind!r}")


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
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise FormatError(f"{path.name}: the recording is damaged: {error}") from error


def _trace(storage: Storage) -> Trace:
    frames = FrameReader(storage)
    tables = {table.name: frames.read(table.name) for table in TABLES}
    check_rows(tables)
    metadata = frames.value(storage.content["metadata"])
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
