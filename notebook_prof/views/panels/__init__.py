"""The tabs of the dashboard: each a pure function of a trace and a selection.

`PANELS` is the rail, from top to bottom; ``answers/panel.py`` sends a panel to the page, `models` makes Bokeh
models of one.
"""

from __future__ import annotations

from typing import Final

from .advice import advice
from .base import Absent, Card, Cards, Fact, Facts, Note, Panel, Picture, Tab, Table

PANELS: Final[dict[str, Tab]] = {
    "advice": Tab("Advice", advice),
}
"""Tabs by name; the operator table is the page's own and not among them."""

__all__ = [
    "PANELS",
    "Absent",
    "Card",
    "Cards",
    "Fact",
    "Facts",
    "Note",
    "Panel",
    "Picture",
    "Tab",
    "Table",
]
