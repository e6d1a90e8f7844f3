"""The tables of a Chrome trace of ours: from its events, and from JSON beside them."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import FormatError
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.event_tables import ARGUMENTS, DEVICE_TABLES
from ...trace.strings import Coded
from ..event_arguments import argument_rows, argument_table
from .chrome_rows import NOTHING, UNDECODABLE, ColumnPart, SliceArguments, TablePart
from .columns import text_dtype
from .values import ValueDecoder

_NUMBERS: Final = frozenset(
    ["bool", "float16", "float32", "float64", *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64))]
)
_MASKED: Final = frozenset(
    [*(f"{s}Int{b}" for s in ("", "U") for b in (8, 16, 32, 64)), "Float32", "Float64", "boolean"]
)
_BROKEN: Final = (TypeError, ValueError, KeyError, OverflowError, AttributeError, RecursionError)


def _no_frame(name: str) -> pd.DataFrame:
    raise FormatError(f"no table lies beside a Chrome trace, but one names {name!r}")


_TABLE_DECODER: Final = ValueDecoder(_no_frame)


def value_of(part: TablePart) -> Any:
    """Return a value that is no table of columns.

    Raises
    ------
    FormatError
        If it is damaged.
    """
    return _TABLE_DECODER.decode(part.value)


def frame_of(columns: list[ColumnPart]) -> pd.DataFrame:
    """Return the table with these columns.

    Raises
    ------
    FormatError
        If a column is damaged, or columns differ in length.
    """
    try:
        return pd.DataFrame({part.name: _column(part) for part in columns})
    except _BROKEN as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"a table of the metadata is damaged: {error}") from error


def typed(values: list[Any], dtype: str, categories: list[Any] | None = None) -> Any:
    """Return values as a column of this dtype; with `categories`, they are codes of these.

    Raises
    ------
    FormatError
        If there is no such dtype.
    ValueError, TypeError, OverflowError
        If they are none of it.
    """
    if dtype == "category":
        if categories is None:
            return pd.Series(values, dtype=object).astype("category")
        words = [_TABLE_DECODER.decode(word) for word in categories]
        return pd.Series(pd.Categorical.from_codes(np.asarray(values, np.int64), categories=words))
    if dtype in _NUMBERS and not dtype.startswith("float"):
        return pd.Series(np.asarray(values, dtype=dtype))
    if dtype in _MASKED:
        return pd.Series(pd.array(values, dtype=dtype))
    plain: npt.NDArray[np.object_] = np.empty(len(values), dtype=object)
    plain[:] = [_TABLE_DECODER.decode(value) for value in values]
    if dtype in _NUMBERS:
        return pd.Series(np.array([np.nan if value is None else value for value in plain], dtype=dtype))
    if dtype == "object":
        return pd.Series(plain, dtype=object)
    if dtype.startswith(("datetime64[", "timedelta64[")):
        return pd.Series(plain).astype(dtype)
    if (text := text_dtype(dtype)) != dtype:
        raise FormatError(f"no column has the dtype {dtype[:40]!r}")
    return pd.Series(pd.array(plain, dtype=text))


def _column(part: ColumnPart) -> Any:
    return typed(part.values, part.dtype, part.categories if part.dtype == "category" else None)


_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
_MOST_NS: Final = 1 << 61
_ROW: Final = "row of its slice"
"""A column while a table is put together: the row of the slice whose event told a row of it."""


class EventTables:
    """Collects what slices were called and launched with."""

    def __init__(self) -> None:
        self._arguments: list[pd.DataFrame] = []
        self._attributes: dict[str, list[tuple[dict[str, Any], bytes]]] = {name: [] for name in DEVICE_TABLES}

    def take(
        self,
        args: list[SliceArguments],
        row: IntArray,
        track: IntArray,
        ts: IntArray,
        dur: IntArray,
        name: Coded,
        numbers: Mapping[str, IntArray],
    ) -> None:
        """Take that of some slices: their rows in the file, Unix times, and numbers of devices and calls."""
        texts: dict[bytes, int] = {}
        codes = np.full(len(args), -1, np.int64)
        for i, each in enumerate(args):
            if each.arguments is not NOTHING:
                codes[i] = texts.setdefault(bytes(each.arguments), len(texts))
        if texts:
            words = [text.decode(errors="replace") for text in texts]
            rows = argument_rows(track, ts, dur, name, Coded(codes, words))
            self._arguments.append(rows.assign(**{_ROW: row[codes >= 0]}))
        for table, when in DEVICE_TABLES.items():
            facts_of = attrgetter(table)
            for i in [i for i, each in enumerate(args) if facts_of(each) is not NOTHING]:
                columns: dict[str, Any] = {key: int(numbers[key][i]) for key in ("device", "stream")}
                columns |= {when: int(ts[i]), "correlation": int(numbers["correlation"][i])}
                columns |= {"name": name.values[name.codes[i]], _ROW: int(row[i])}
                self._attributes[table].append((columns, bytes(facts_of(args[i]))))

    def put(self, builder: TraceBuilder, parts: Mapping[str, TablePart], base: int) -> None:
        """Put the tables into `builder`; `parts` is what the file says, `base` its start in Unix ns."""
        from_events = {ARGUMENTS: argument_table(self._arguments)}
        from_events |= {name: self._table(name, builder) for name in DEVICE_TABLES}
        tables: dict[str, Any] = {}
        for name in (*parts, *(name for name in from_events if name not in parts)):
            try:
                table = _joined_table(parts.get(name), from_events.get(name))
            except (FormatError, TypeError, ValueError, OverflowError) as error:
                builder.report.add(
                    "broken-table",
                    "loss",
                    example=f"{name}: {error}",
                    effect="this table of the metadata is missing",
                    advice="write the file again",
                )
                continue
            if table is not None:
                tables[name] = table
        for name, times in _times(builder.metadata.pop("table_times", None)).items():
            if isinstance(table := tables.get(name), pd.DataFrame) and _are_times(table, times):
                moved = {column: table[column] + base for column in times}
                builder.table(name, table.assign(**moved), times=times)
        if tables:
            builder.metadata.setdefault("tables", {}).update(tables)

    def _table(self, name: str, builder: TraceBuilder) -> pd.DataFrame | None:
        distinct: dict[bytes, dict[str, Any] | None] = {}
        rows = []
        for columns, text in self._attributes[name]:
            if text not in distinct:
                distinct[text] = _decoded(text)
            facts = distinct[text]
            if facts is None:
                builder.report.add(
                    "broken-arguments", "loss", example=name, effect="these rows of the table are left out"
                )
            else:
                rows.append({**columns, **facts})
        return pd.DataFrame(rows, dtype=object) if rows else None


def _times(times_of_table: Any) -> dict[str, list[str]]:
    """Return which columns of which tables are times."""
    return (
        {str(k): list(map(str, v)) for k, v in times_of_table.items() if isinstance(v, list)}
        if isinstance(times_of_table, dict)
        else {}
    )


def _are_times(table: pd.DataFrame, columns: list[str]) -> bool:
    return all(
        column in table and table[column].dtype.kind == "i" and (table[column].abs() < _MOST_NS).all()
        for column in columns
    )


def _joined_table(part: TablePart | None, from_events: pd.DataFrame | None) -> Any:
    """Return a table of what events tell and of what the file holds beside them."""
    if part is None:
        return None if from_events is None else _guessed(from_events.drop(columns=_ROW))
    if part.columns is None:
        return value_of(part)
    beside = frame_of(part.columns)
    if part.slices is None:
        return beside
    where = np.asarray(part.slices, np.int64)
    position = pd.Series(np.flatnonzero(where >= 0), index=where[where >= 0])
    in_events = (
        pd.DataFrame(columns=[_ROW])
        if from_events is None
        else from_events[from_events[_ROW].isin(position.index)]
    )
    at = np.concatenate(
        [np.flatnonzero(where < 0)[: len(beside)], position[in_events[_ROW].astype(np.int64)]]
    )
    order = np.argsort(at, kind="stable")
    columns = {}
    for column in part.columns:
        values = beside[column.name].astype(object).tolist()
        values += in_events[column.name].tolist() if column.name in in_events else [None] * len(in_events)
        values = [None if _missing(values[i]) else values[i] for i in order.tolist()]
        columns[column.name] = typed(values, column.dtype)
    return pd.DataFrame(columns)


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or value != value


def _guessed(table: pd.DataFrame) -> pd.DataFrame:
    """Give columns the dtypes that readers give them, where the file does not say them."""
    if "arguments" in table:
        return table
    if "start_ns" in table:
        table = table.drop(columns=["name", "correlation"])
    return table.astype({column: _dtype(table[column]) for column in table})


def _decoded(text: bytes) -> dict[str, Any] | None:
    try:
        return _DECODER.decode(text)
    except UNDECODABLE:
        return None


def _dtype(column: pd.Series[Any]) -> str:
    present = column.dropna()
    kinds = set(map(type, present))
    if column.name in ("device", "stream", "correlation", *DEVICE_TABLES.values()):
        return "int64" if kinds == {int} and len(present) == len(column) else "object"
    if kinds <= {int} and all(abs(value) < 1 << 63 for value in present):
        return "Int64"
    if kinds <= {int, float}:
        return "float64"
    return "category" if kinds == {str} else "object"
