"""The page's style, which comes on top of the dashboard's."""

from __future__ import annotations

from functools import cache

from ...views.bundle import PAGE


@cache
def style() -> str:
    """Return the CSS of the ranks' page."""
    return (PAGE / "ranks.css").read_text(encoding="utf-8")
