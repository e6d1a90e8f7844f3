"""Figures with their data as parts of a panel."""

from __future__ import annotations

from ..figures.drawn import Drawn
from .base import Picture


def pictures(*drawn: Drawn | None) -> tuple[Picture, ...]:
    """Pictures of what could be drawn, in this order."""
    return tuple(Picture(one.figure, one.title, one.legend) for one in drawn if one is not None)
