"""Sentences built from pieces that public tables prove."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ...trace import Trace
from ...units import format_ns, format_share
from ..scope import once

METHODS: dict[str, str] = {}
"""Name of an analysis → method of a Profile, if they differ; filled in by `profiles.topics`."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a number: a column of a public table, reduced over the matching rows."""

    # Name of a function in `notebook_prof.analysis`, like ``account``.
    table: str
    column: str
    # Which rows: for each column a value, or a tuple of values; by default all rows.
    where: Mapping[str, Any] = field(default_factory=dict)
    # Arguments of the analysis, like ``{"window": (0, 10)}``.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    # How to reduce several rows; ``p90`` is the smallest value that nine of ten rows do not exceed.
    reduce: str = "sum"

    def rows(self, trace: Trace) -> pd.DataFrame:
        """Return the matching rows of the table."""
        analysis = getattr(importlib.import_module("notebook_prof.analysis"), self.table)
        key = ("source", self.table, repr(sorted(self.arguments.items())))
        table: pd.DataFrame = once(trace, key, lambda: analysis(trace, **self.arguments))
        keep = np.ones(len(table), dtype=bool)
        for column, value in self.where.items():
            values = list(value) if isinstance(value, tuple) else [value]
            keep &= table[column].astype("object").isin(values).to_numpy()
        return table[keep]

    def value(self, trace: Trace) -> Any:
        """Recompute the number and return it; for a text column, return the text of the first row."""
        rows = self.rows(trace)
        values = rows[self.column]
        if len(values) and isinstance(values.iloc[0], str):
            return str(values.iloc[0])
        if self.reduce == "count":
            return len(rows)
        if self.reduce == "p90":
            return np.quantile(values.to_numpy(), 0.9, method="inverted_cdf") if len(rows) else 0
        return getattr(values, self.reduce)() if len(rows) else 0


@dataclass(frozen=True, slots=True)
class Claim:
    """A piece of a sentence that a public table proves.

    Attributes
    ----------
    text : str
        The piece, like ``"79.5 %"``.
    table, where, column : str, mapping, str
        The rows and the column that hold the number: see `Source`.
    value : number or str
        The number in the sentence, before rounding.
    of : Source, optional
        The whole, if `value` is a share: the column's sum divided by this.
    arguments : mapping
        Arguments of the analysis.
    reduce : str
        How several rows become one number.
    select : mapping
        A selection of the rows: ``p.selection.update(**claim.select)``.
    line, start : int
        Position in the verdict: the line, and the index of the first character in it.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> share = Claim("60.0 %", "operators", {"name": "mm"}, "share", 0.6)
    >>> share.holds(draw("main: [mm  ][ad]"))
    True
    """

    text: str
    table: str
    where: Mapping[str, Any]
    column: str
    value: Any
    of: Source | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reduce: str = "sum"
    select: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0
    start: int = 0

    def evaluate(self, trace: Trace) -> Any:
        """Recompute the value from the public table."""
        value = Source(self.table, self.column, self.where, self.arguments, self.reduce).value(trace)
        if self.of is None:
            return value
        whole = self.of.value(trace)
        return float(value) / float(whole) if whole else 0.0

    @property
    def call(self) -> str:
        """The call on a Profile that returns the table, like ``p.memory.peak(window=(0, 10))``.

        Examples
        --------
        >>> from notebook_prof import Profile  # defines the names of its methods
        >>> Claim("5 ms", "idle_causes", {}, "idle_ns", 5_000_000, arguments={"window": (0, 9)}).call
        'p.device.idle_causes(window=(0, 9))'
        """
        arguments = ", ".join(f"{name}={_written(value)}" for name, value in self.arguments.items())
        return f"p.{METHODS.get(self.table, self.table)}({arguments})"

    def holds(self, trace: Trace) -> bool:
        """Return whether the table agrees with the sentence."""
        value = self.evaluate(trace)
        if isinstance(self.value, str):
            return bool(value == self.value)
        return bool(np.isclose(float(value), float(self.value), rtol=1e-9, atol=1e-9))


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence made of texts and claims."""

    parts: tuple[str | Claim, ...] = field(default=())

    def __str__(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)

    def __add__(self, other: Sentence | str | Claim) -> Sentence:
        more = other.parts if isinstance(other, Sentence) else (other,)
        return Sentence((*self.parts, *more))

    def placed(self, line: int) -> tuple[Claim, ...]:
        """Return the claims with their positions, given the number of this line in the verdict."""
        claims, at = [], 0
        for part in self.parts:
            if isinstance(part, str):
                at += len(part)
            else:
                claims.append(replace(part, line=line, start=at))
                at += len(part.text)
        return tuple(claims)


def _written(value: Any) -> str:
    """Return an argument as code; consecutive numbers become a range."""
    if isinstance(value, tuple) and len(value) > 2 and all(isinstance(one, int) for one in value):
        whole = range(value[0], value[-1] + 1)
        if tuple(whole) == value:
            return repr(whole)
    return repr(value)


def joined(pieces: Iterable[Sentence], between: str) -> Sentence:
    """Join sentences with the text `between`."""
    parts: list[str | Claim] = []
    for piece in pieces:
        parts += [between, *piece.parts] if parts else piece.parts
    return Sentence(tuple(parts))


def say(*parts: str | Claim | Sentence) -> Sentence:
    """Build a sentence from texts, claims and other sentences."""
    result = Sentence()
    for part in parts:
        result = result + part
    return result


def cite(
    text: str, value: Any, source: Source, of: Source | None = None, select: Mapping[str, Any] | None = None
) -> Claim:
    """Return a claim about the value of `source`, or about its share of `of`."""
    return Claim(
        text,
        source.table,
        dict(source.where),
        source.column,
        value,
        of,
        dict(source.arguments),
        source.reduce,
        dict(select or {}),
    )


def cite_ns(value: float, source: Source, select: Mapping[str, Any] | None = None) -> Claim:
    """Return a claim about a duration."""
    return cite(format_ns(value), value, source, select=select)


def cite_share(value: float, source: Source, of: Source, select: Mapping[str, Any] | None = None) -> Claim:
    """Return a claim about a share, a `value` between 0 and 1."""
    return cite(format_share(value), value, source, of, select)


def short(name: object, limit: int = 48) -> str:
    """Shorten a long name."""
    text = str(name)
    return text if len(text) <= limit else text[: limit - 1] + "…"


# A single judgement of a run.


@dataclass(frozen=True, slots=True)
class Finding:
    """A kind of verdict with its sentence; the fields are those of `Verdict`."""

    kind: str
    sentence: Sentence
    share: float
    evidence: Mapping[str, Any] = field(default_factory=dict)
    select: Mapping[str, Any] = field(default_factory=dict)
    # Whether the verdict is only this sentence, without further lines.
    nothing_else: bool = False
