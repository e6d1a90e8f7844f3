"""The answer of the page of many ranks."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from ..base import Declared

BokehObject = Annotated[dict[str, Any], Meta(extra={"ts": "BokehObject"})]


class RankTable(Declared):
    """The table of the ranks; so many more are not in it."""

    heads: list[str]
    ranks: list[int]
    rows: list[list[str]]
    more: int


class RankPanelAnswer(Declared):
    """A figure of the ranks: columns by source, ranges, texts under the pointer and what clicks select.

    `colours` are lowest and highest value, `scale` their texts.
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
