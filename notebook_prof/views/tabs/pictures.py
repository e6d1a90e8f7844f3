"""Figures with their data as parts of a panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import Picture

if TYPE_CHECKING:
    from ..figures.drawn import Drawn


def pictures(*drawn: Drawn | None) -> tuple[Picture, ...]:
    """Pictures of what could be drawn, in this order."""
    return tuple(Picture(one.figure, one.title, one.legend) for one in drawn if one is not None)
