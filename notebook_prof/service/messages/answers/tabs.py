"""Answers of the tabs: parts from top to bottom."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from ..base import U1, Columns, Declared, Dimensions, Patch

# The answer of the page of many ranks.

BokehObject = Annotated[dict[str, Any], Meta(extra={"ts": "BokehObject"})]


class RankTable(Declared):
    """The table of the ranks, and the number of ranks left out."""

    heads: list[str]
    ranks: list[int]
    rows: list[list[str]]
    more: int


class RankPanelAnswer(Declared):
    """A figure of the ranks: columns by source, ranges, tooltips, and what clicks select.

    `colours` are the lowest and the highest value, `scale` their texts.
    """

    sources: Annotated[dict[str, Any], Meta(extra={"ts": "Record<string, BokehObject>"})]
    x: list[float]
    y: list[float]
    title: str | UnsetType = UNSET
    note: str | UnsetType = UNSET
    colours: list[float] | UnsetType = UNSET
    scale: list[str] | UnsetType = UNSET
    labels: list[str] | UnsetType = UNSET
    tips: list[str] | UnsetType = UNSET
    rank: list[int] | UnsetType = UNSET
    members: list[list[int]] | UnsetType = UNSET
    groups: list[str] | UnsetType = UNSET


class RanksAnswer(Declared):
    """What the figures of many recordings show."""

    panels: dict[str, RankPanelAnswer]
    table: RankTable


_Time = Literal["ns", "delta", "instant"]
_Number = Literal[_Time, "bytes", "share", "count", "number", "flops", "flops/s", "bytes/s"]
Unit = Literal[_Number, "text", "name", "code"]


class NotePart(Declared, tag_field="kind", tag="note"):
    """A sentence or two."""

    text: str
    warns: bool


class Fact(Declared):
    """One number or word with its label."""

    label: str
    value: str
    note: str


class FactsPart(Declared, tag_field="kind", tag="facts"):
    """Facts beside each other."""

    facts: list[Fact]


class Card(Declared):
    """A finding, and what a click on it selects."""

    title: str
    badge: str
    lines: list[str]
    select: Patch | None


class CardsPart(Declared, tag_field="kind", tag="cards"):
    """Cards below each other."""

    cards: list[Card]


class NameCells(Declared):
    """A column of names: short labels, and colours of the families; full names are in `texts`."""

    labels: list[str]
    colours: list[str]


class TablePart(Declared, tag_field="kind", tag="table"):
    """A table: `heads` are key, text and unit; its numbers are in the columns ``PART.KEY``."""

    title: str
    call: str
    labels: list[int] | None
    heads: list[tuple[str, str, Unit]]
    texts: dict[str, list[str]]
    names: dict[str, NameCells]
    bars: list[str]
    size: int
    rows: int
    select: list[Patch | None] | None


class SourcePart(TablePart, tag_field="kind", tag="source"):
    """Source code: a table in the order of the file, whose column `trend` has `steps` numbers per row."""

    file: str
    steps: int
    folded: bool


class TreePart(TablePart, tag_field="kind", tag="tree"):
    """A table whose rows open and close; its columns `parent` and `depth` define the tree.

    Its columns `more` and `more_weight` have the number of children left out of each row, and their sum of
    `weight`; `more_roots` is the number of roots left out.
    """

    weight: str
    more_roots: tuple[float, float]


class StackPart(TablePart, tag_field="kind", tag="stack"):
    """A path of calls, the outermost first, beside the part above it."""


class PicturePart(Declared, tag_field="kind", tag="picture"):
    """A Bokeh document with one root; the legend has texts and their colours."""

    title: str
    legend: list[tuple[str, str]]
    document: str


Part = NotePart | FactsPart | CardsPart | TablePart | SourcePart | TreePart | StackPart | PicturePart


class PanelColumns(Columns):
    """Numbers of the tables, by part and key."""


class PanelAnswer(Declared):
    """A tab; `under` are the dimensions of the selection that it follows (none with `whole`).

    With `follows_own` it also follows a selection made in it.
    """

    data = PanelColumns
    name: str
    title: str
    under: Dimensions
    follows_own: bool
    parts: list[Part]
    whole: bool | UnsetType = UNSET


class NoPanel(Declared):
    """A sentence that says why a tab is empty."""

    name: str
    absent: str


class RecordingColumns(Columns):
    """UTF-8 of the JSON that a report contains as ``ReportData``."""

    json: U1


class RecordingAnswer(Declared):
    """The recording as a report packs it."""

    data = RecordingColumns
    slices: int


class NoRecording(Declared):
    """Too many slices for a page: the kernel continues to answer."""

    too_many: int
