"""Answers about slices: the table of them, one of them, and what a search finds."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from ..base import F8, I4, U1, U4, Columns, Declared, Grouping


class TableColumns(Columns):
    """Rows of the table; `side` is 1 on a device, `waits` for a call that only waits."""

    name: U4
    side: U1
    waits: U1
    share: F8
    count: F8
    total_ns: F8
    min_ns: F8
    max_ns: F8
    self_ns: F8
    device_ns: F8


class TableAnswer(Declared, kw_only=True):
    """Rows from `start` on, and sums over the selection; `device_self_ns` is the self time of all kernels."""

    data = TableColumns
    by: Grouping
    count: int
    self_ns: int
    device_self_ns: int
    host_range: list[int]
    """The shortest and the longest slice of these rows; empty without one, or for very many slices."""
    device_range: list[int]
    estimate: bool | UnsetType = UNSET
    error: str
    rows: int
    start: int
    waits: int
    """Number of rows that pass the filter and are calls that only wait."""
    label: list[str]
    detail: list[str]


class FoundSlice(Declared):
    """The position of a slice."""

    id: int
    ts: int
    dur: int
    row: int


class NothingFound(Declared):
    """There is no such slice."""

    id: None


class SearchColumns(Columns):
    """1 in the bins in which a match begins."""

    marks: U1


class Match(FoundSlice):
    """The match that is shown, its number (from 0) and the number of matches."""

    data = SearchColumns
    count: int
    place: int
    error: str


class NoMatch(NothingFound):
    """Nothing matches, or the text is invalid: a sentence."""

    data = SearchColumns
    count: Literal[0]
    place: None
    error: str


SearchAnswer = Match | NoMatch


class SliceLink(FoundSlice):
    """A slice that launched this one, or was launched by it."""

    kind: str
    direction: Literal["to", "from"]
    name: str


class SliceName(Declared):
    """A slice by name."""

    id: int
    name: str


class SliceDetail(FoundSlice, kw_only=True):
    """Everything about one slice; `left` is a sentence if the file lacks its arguments."""

    found: Literal[True]
    name: str
    category: str
    track_name: str
    group: str
    depth: int
    self_ns: int
    step: int | None
    phase: str
    module: str
    line: str
    shapes: str
    parent: SliceName | None
    arguments: list[tuple[str, str]]
    left: str | UnsetType = UNSET
    stack: list[str]
    links: list[SliceLink]


class CallsAnswer(Declared):
    """Calls of some names, and the requested one of their `slices` with its position."""

    count: int
    total_ns: int
    self_ns: int
    slices: int
    place: int | None
    slice: FoundSlice | None


class Cause(FoundSlice):
    """A slice that was waited for."""

    name: str


class PathColumns(Columns):
    """Segments of a critical path by time: track, start and end."""

    track: I4
    start: F8
    end: F8


class PathAnswer(Declared):
    """A critical path, a sentence about its parts, and the Python call that returns it."""

    data = PathColumns
    found: Literal[True]
    text: str
    call: str


class NoPath(Declared):
    """There is no critical path: a sentence."""

    found: Literal[False]
    text: str


class WhyAnswer(Declared):
    """Sentences, the time that they are about, its path, and the causes of waits, the last first."""

    data = PathColumns
    found: Literal[True]
    lines: list[str]
    window: tuple[int, int]
    call: str
    causes: list[Cause]


class NoWhy(Declared):
    """There is nothing to explain: a sentence."""

    found: Literal[False]
    lines: list[str]


class WhatIfAnswer(Declared):
    """A sentence, its Python call, and the path of a step by class: name, ns before, ns after."""

    found: Literal[True]
    text: str
    call: str
    refused: bool
    classes: list[tuple[str, float, float]]


class NoWhatIf(Declared):
    """The selection cannot be asked about: a sentence."""

    found: Literal[False]
    text: str


class NoSlice(Declared):
    """No slice has this row."""

    found: Literal[False]
