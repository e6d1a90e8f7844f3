"""The page's code and style, which come on top of the dashboard's."""

from __future__ import annotations

from functools import cache
from typing import Final

from ...views.bundle import STATIC

PARTS: Final = ("ranks/page", "ranks/panel")
"""Files of ``js/src`` that only this page needs."""


@cache
def style() -> str:
    """The CSS of the ranks' page."""
    return (STATIC / "ranks.css").read_text(encoding="utf-8")
