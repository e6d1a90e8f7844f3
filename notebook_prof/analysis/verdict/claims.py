"""Sentences whose numbers are cells of public tables."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...units import format_bytes, format_items, format_ns, format_share
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

    def evaluate(self, trace: Trace) -> Any:
        """Recompute the number from the public table; for a text column, the text of the first row."""
        analysis = getattr(importlib.import_module("notebook_prof.analysis"), self.table)
        key = ("source", self.table, repr(sorted(self.arguments.items())))
        table: pd.DataFrame = once(trace, key, lambda: analysis(trace, **self.arguments))
        rows = matching(table, self.where)
        values = rows[self.column]
        if len(values) and isinstance(values.iloc[0], str):
            return str(values.iloc[0])
        if self.reduce == "count":
            return len(rows)
        if self.reduce == "p90":
            return np.quantile(values.to_numpy(), 0.9, method="inverted_cdf") if len(rows) else 0
        return getattr(values, self.reduce)() if len(rows) else 0

    @property
    def call(self) -> str:
        """The call on a Profile that returns the table, like ``p.memory.peak(window=(0, 10))``.

        Examples
        --------
        >>> from notebook_prof import Profile  # defines the names of its methods
        >>> Source("idle_causes", "idle_ns", arguments={"window": (0, 9)}).call
        'p.device.idle_causes(window=(0, 9))'
        """
        arguments = ", ".join(f"{name}={_written(value)}" for name, value in self.arguments.items())
        return f"p.{METHODS.get(self.table, self.table)}({arguments})"

    @property
    def code(self) -> str:
        """Code that returns the number.

        Examples
        --------
        >>> Source("operators", "self_ns", {"name": ("mm", "add")}).code
        'p.operators().loc[lambda t: t["name"].isin(["mm", "add"]), "self_ns"].sum()'
        """
        rows = [
            f't["{column}"].isin({_quoted(list(value))})'
            if isinstance(value, tuple)
            else f't["{column}"] == {_quoted(value)}'
            for column, value in self.where.items()
        ]
        keep = rows[0] if len(rows) == 1 else " & ".join(f"({row})" for row in rows)
        cells = f'["{self.column}"]' if not rows else f'.loc[lambda t: {keep}, "{self.column}"]'
        if self.reduce == "p90":
            return f'np.quantile({self.call}{cells}, 0.9, method="inverted_cdf")'
        return f"{self.call}{cells}.{_REDUCED.get(self.reduce, f'{self.reduce}()')}"


_REDUCED: Final = {"count": "size", "first": "iloc[0]"}


def matching(table: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a table whose columns have these values, or one of each tuple."""
    keep = np.ones(len(table), dtype=bool)
    for column, value in where.items():
        values = list(value) if isinstance(value, tuple) else [value]
        keep &= table[column].astype("object").isin(values).to_numpy()
    return table[keep]


@dataclass(frozen=True, slots=True)
class Claim(Source):
    """A piece of a sentence that a public table proves.

    Attributes
    ----------
    table, column, where, arguments, reduce : str, str, mapping, mapping, str
        The cells that hold the number: an analysis, its column, rows and arguments, and how rows are reduced.
    text : str
        The piece, like ``"79.5 %"``.
    value : number or str
        The number in the sentence, before rounding.
    of : Source, optional
        The whole, if `value` is a share: the column's sum divided by this.
    select : mapping
        A selection of the rows: ``p.selection.update(**claim.select)``.
    line, start : int
        Position in the verdict: the line, and the index of the first character in it.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> share = Claim("operators", "share", {"name": "mm"}, text="60.0 %", value=0.6)
    >>> share.holds(draw("main: [mm  ][ad]"))
    True
    """

    text: str = ""
    value: Any = None
    of: Source | None = None
    select: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0
    start: int = 0

    def evaluate(self, trace: Trace) -> Any:
        """Recompute the value from the public table."""
        value = Source.evaluate(self, trace)
        if self.of is None:
            return value
        whole = self.of.evaluate(trace)
        return float(value) / float(whole) if whole else 0.0

    @property
    def code(self) -> str:
        """Code that returns the number."""
        number = Source(self.table, self.column, self.where, self.arguments, self.reduce)
        if isinstance(self.value, str):
            number = replace(number, reduce="first")
        return number.code if self.of is None else f"{number.code} / {self.of.code}"

    def holds(self, trace: Trace) -> bool:
        """Return whether the table agrees with the sentence."""
        value = self.evaluate(trace)
        if isinstance(self.value, str):
            return bool(value == self.value)
        return bool(np.isclose(float(value), float(self.value), rtol=1e-9, atol=1e-9))


class Sentence(str):
    """A text with its claims: each number in it, with its position."""

    __slots__ = ("claims",)
    claims: tuple[Claim, ...]

    def __new__(cls, text: str = "", claims: tuple[Claim, ...] = ()) -> Sentence:
        """Take the text and its claims, which have their positions already."""
        sentence = super().__new__(cls, text)
        sentence.claims = claims
        return sentence

    def __add__(self, other: str | Claim) -> Sentence:
        return say(self, other)


def say(*parts: str | Claim, between: str = "") -> Sentence:
    """Build a sentence from texts, claims and other sentences, with the text `between` them."""
    text, claims = "", []
    for i, part in enumerate(parts):
        text += between if i else ""
        if isinstance(part, Claim):
            claims.append(replace(part, start=len(text)))
            text += part.text
        else:
            inner = part.claims if isinstance(part, Sentence) else ()
            claims += [replace(claim, start=len(text) + claim.start) for claim in inner]
            text += part
    return Sentence(text, tuple(claims))


def fill(template: str, *parts: object) -> Sentence:
    """Build a sentence from a text in which each ``{}`` stands for the next claim, sentence or text."""
    first, *texts = template.split("{}")
    pieces: list[str | Claim] = [first]
    for part, text in zip(parts, texts, strict=True):
        pieces += [part if isinstance(part, str | Claim) else str(part), text]
    return say(*pieces)


def _quoted(value: Any) -> str:
    """Return a value, or a list of values, as code with double quotes."""
    if isinstance(value, list):
        return f"[{', '.join(map(_quoted, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value.item() if isinstance(value, np.generic) else value)


def _written(value: Any) -> str:
    """Return an argument as code; consecutive numbers become a range."""
    if isinstance(value, tuple) and len(value) > 2 and all(isinstance(one, int) for one in value):
        whole = range(value[0], value[-1] + 1)
        if tuple(whole) == value:
            return repr(whole)
    return repr(value)


def cite(
    text: str, value: Any, source: Source, of: Source | None = None, select: Mapping[str, Any] | None = None
) -> Claim:
    """Return a claim about the value of `source`, or about its share of `of`."""
    where, arguments = dict(source.where), dict(source.arguments)
    place = (source.table, source.column, where, arguments, source.reduce)
    return Claim(*place, text, value, of, dict(select or {}))


def cite_ns(value: float, source: Source, select: Mapping[str, Any] | None = None) -> Claim:
    return cite(format_ns(value), value, source, select=select)


def cite_share(
    value: float, source: Source, of: Source | None = None, select: Mapping[str, Any] | None = None
) -> Claim:
    """Return a claim about a share, a `value` between 0 and 1: of the column, or of its sum in `of`."""
    return cite(format_share(value), value, source, of, select)


def cite_bytes(value: float, source: Source) -> Claim:
    return cite(format_bytes(value), int(value), source)


def cite_count(count: int, noun: str, source: Source) -> Claim:
    """Return a claim about a number of things, like ``3 kernels``."""
    return cite(format_items(count, noun), count, source)


def short(name: object, limit: int = 48) -> str:
    """Shorten a long name, and put it on one line."""
    text = str(name)
    if not text.isprintable():
        text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """What bounds a run.

    Attributes
    ----------
    kind : str
        ``input-bound``, ``communication-bound``, ``sync-bound``, ``launch-bound``, ``copy-bound``,
        ``overhead-bound``, ``compute-bound``, ``python-bound``, ``library-bound``, ``wait-bound``,
        ``import-bound``, ``display-bound``, ``one-time``, ``mixed`` (no part dominates),
        ``nothing-recorded`` or ``clock-jumped``.
    sentence : str
        The verdict in words.
    share : float
        Share of `kind` in the measured time, 0–1.
    select : mapping
        A selection of the verdict's slices: ``p.selection.update(**p.verdict.select)``.
    further : tuple of str
        Lines below it: account of the cell, steps, phases, critical path, longest names, memory.
    """

    kind: str
    sentence: Sentence
    share: float = 0.0
    select: Mapping[str, Any] = field(default_factory=dict)
    further: tuple[Sentence, ...] = ()

    @property
    def lines(self) -> tuple[Sentence, ...]:
        """The sentence and the further lines."""
        return (self.sentence, *self.further)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every number of the lines, with its public table."""
        return tuple(replace(claim, line=i) for i, line in enumerate(self.lines) for claim in line.claims)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__
