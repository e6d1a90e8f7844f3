"""Numbers of sentences, each with the Python that gives it again."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ... import analysis
from ...analysis.verdict.claims import METHODS, Claim, Sentence, Source
from ...trace import Trace

_MOST_ROWS: Final = 12
"""Rows that a call lists by their position; more are told by their values."""
_WORD: Final = re.compile(r"[\w .:+/()<>*=-]{1,60}")
"""Texts that a query can hold as they are."""
_PROPERTIES: Final = frozenset({"trust"})
"""Tables that a Profile has without a call."""

_DESCRIBED: Final = ["step", "dur"]
"""Columns of the steps that one call describes."""
_DESCRIPTION: Final = ("count", "mean", "std", "min", "25%", "median", "75%", "max")
"""Rows of what pandas describes a column with."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number, or a text, of a sentence.

    Attributes
    ----------
    text : str
        What is written.
    value : number or str
        What the call gives, before it was rounded or cut.
    call : str
        Python: `p` is the Profile.
    row, column : int, str, optional
        Where the value stands in what the call gives, if that is a Series or a DataFrame.
    """

    text: str
    value: Any
    call: str
    row: int | None = None
    column: str | None = None

    def of(self, result: Any) -> Any:
        """Return the value that stands in what the call has given."""
        if self.row is None:
            return result
        row = result.iloc[self.row]
        return row if self.column is None else row[self.column]


@dataclass(frozen=True, slots=True)
class Statement:
    """One line of a brief: texts and numbers, one after another."""

    section: str
    parts: tuple[str | Number, ...]

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The numbers, in the order in which they stand."""
        return tuple(part for part in self.parts if isinstance(part, Number))

    @property
    def calls(self) -> list[str]:
        """The calls that give them, each once."""
        return list(dict.fromkeys(number.call for number in self.numbers))


class Calls:
    """Makes numbers of claims: looks up where they stand, and writes the call.

    Parameters
    ----------
    trace : Trace
    tables : mapping of str to function, optional
        What gives a table that is there already, as ``{"trust": lambda: p.trust}``.
    """

    def __init__(self, trace: Trace, tables: Mapping[str, Callable[[], pd.DataFrame]] | None = None) -> None:
        self._trace, self._made = trace, dict(tables or {})
        self._tables: dict[tuple[str, str], pd.DataFrame] = {}

    def table(self, name: str, **arguments: Any) -> pd.DataFrame:
        """Return a table of an analysis, worked out once."""
        key = name, repr(sorted(arguments.items()))
        if key not in self._tables:
            made = self._made.get(name) if not arguments else None
            self._tables[key] = made() if made else getattr(analysis, name)(self._trace, **arguments)
        return self._tables[key]

    def sentence(self, section: str, sentence: Sentence | Iterable[str | Claim]) -> Statement:
        """Return a statement with a number for each claim."""
        parts = sentence.parts if isinstance(sentence, Sentence) else tuple(sentence)
        return Statement(
            section, tuple(part if isinstance(part, str) else self.number(part) for part in parts)
        )

    def number(self, claim: Claim) -> Number:
        """Return the number of a claim."""
        if claim.table == "steps" and claim.column in _DESCRIBED and claim.reduce in _DESCRIPTION:
            described = f"{call_of('steps', claim.arguments)}[{_DESCRIBED!r}].describe()"
            at = _DESCRIPTION.index(claim.reduce)
            return Number(claim.text, _plain(claim.value), described, at, claim.column)
        source = Source(claim.table, claim.column, claim.where, claim.arguments, claim.reduce)
        call, row = self._call(source)
        if claim.of is not None:
            whole, of_row = self._call(claim.of)
            whole = whole if of_row is None else f"{whole}.iloc[{of_row}]"
            call = f"{call} / {whole}" if self._sum(claim.of) else "0.0"
            row = row if self._sum(claim.of) else None
        return Number(claim.text, _plain(claim.value), call, row)

    def rows(self, name: str, columns: Sequence[str], **arguments: Any) -> Callable[[int, str, str], Number]:
        """Return what makes numbers of these columns of a table: given the row, the column, and the text."""
        table = self.table(name, **arguments)
        call = f"{call_of(name, arguments)}[{list(columns)!r}]"

        def number(row: int, column: str, text: str) -> Number:
            return Number(text, _plain(table[column].iloc[row]), call, row, column)

        return number

    def _call(self, source: Source) -> tuple[str, int | None]:
        """Return the call of a source, and the row of a Series that has its value; None for a number."""
        table, rows = self._rows(source)
        call = call_of(source.table, source.arguments)
        if source.reduce == "count":
            return f"len({_rows_of(call, source.where, rows, len(table))})", None
        if len(rows) == 1:
            return f"{call}{_column(source.column)}", rows[0]
        if not rows:
            return "0", None
        grouped = _grouped(table, source)
        if grouped is not None:
            return f"{call}.groupby({grouped[0]!r}, observed=True){_column(source.column)}.sum()", grouped[1]
        values = f"{_rows_of(call, source.where, rows, len(table))}{_column(source.column)}"
        if isinstance(table[source.column].iloc[rows[0]], str):
            return f"{values}.iloc[0]", None
        if source.reduce == "p90":
            return f"{values}.sort_values().iloc[{int(np.ceil(0.9 * len(rows))) - 1}]", None
        return f"{values}.{source.reduce}()", None

    def _rows(self, source: Source) -> tuple[pd.DataFrame, list[int]]:
        """Return the table of a source and which of its rows fit."""
        table = self.table(source.table, **source.arguments)
        keep = np.ones(len(table), dtype=bool)
        for column, value in source.where.items():
            values = list(value) if isinstance(value, tuple) else [value]
            keep &= table[column].astype("object").isin(values).to_numpy()
        return table, np.flatnonzero(keep).tolist()

    def _sum(self, source: Source) -> float:
        table, rows = self._rows(source)
        return float(table[source.column].iloc[rows].sum())


def call_of(name: str, arguments: Mapping[str, Any] | None = None) -> str:
    """Return how a Profile gives a table of the analyses."""
    arguments = arguments or {}
    method = METHODS.get(name, name)
    if name in _PROPERTIES and not arguments:
        return f"p.{method}"
    return f"p.{method}({', '.join(f'{key}={_written(value)}' for key, value in arguments.items())})"


def _written(value: Any) -> str:
    """Write an argument: many numbers in a row as the range that they are."""
    value = tuple(value) if isinstance(value, tuple) else value  # a named one too
    if isinstance(value, tuple | list) and len(value) > 2 and all(isinstance(one, int) for one in value):
        whole = range(value[0], value[-1] + 1)
        if list(whole) == list(value):
            return repr(whole)
    return repr(value)


def _column(name: str) -> str:
    plain = name.isidentifier() and not keyword.iskeyword(name) and not hasattr(pd.DataFrame, name)
    return f".{name}" if plain else f"[{name!r}]"


def _rows_of(call: str, where: Mapping[str, Any], rows: Sequence[int], size: int) -> str:
    """Return the call of these rows of a table."""
    if len(rows) == size:
        return call
    if len(rows) <= _MOST_ROWS:
        return f"{call}.iloc[{list(rows)!r}]"
    values = [one for value in where.values() for one in (value if isinstance(value, tuple) else (value,))]
    if all(isinstance(one, int) or (isinstance(one, str) and _WORD.fullmatch(one)) for one in values):
        conditions = [
            f"`{column}` in {list(value)!r}" if isinstance(value, tuple) else f"`{column}` == {value!r}"
            for column, value in where.items()
        ]
        return f"{call}.query({' and '.join(conditions)!r})"
    return f"{call}.iloc[{list(rows)!r}]"


def _grouped(table: pd.DataFrame, source: Source) -> tuple[str, int] | None:
    """Return the column by which sums of a table have this one, and its row among them; None if none does."""
    if source.reduce != "sum" or len(source.where) != 1:
        return None
    ((column, value),) = source.where.items()
    if not isinstance(value, str) or isinstance(table[source.column].iloc[0], str):
        return None
    groups = table.groupby(column, observed=True)[source.column].sum().index
    return column, int(np.flatnonzero(groups.astype("object") == value)[0])


def _plain(value: Any) -> Any:
    """Return a number or a text of Python itself."""
    return value.item() if isinstance(value, np.generic) else value
