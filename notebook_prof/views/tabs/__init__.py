"""The tabs of the dashboard: a file each, with its ``TAB``.

The rail, the report, ``p.plot`` and the table in the guide are made from this declaration alone: a new file
here
with a ``TAB`` is a new tab.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Final

from .base import (
    Absent,
    Card,
    Cards,
    Choice,
    Fact,
    Facts,
    Note,
    Panel,
    Picture,
    Source,
    Stack,
    Tab,
    Table,
    Tree,
)


def _declared() -> dict[str, Tab]:
    modules = {info.name: import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)}
    tabs = {name: module.TAB for name, module in modules.items() if hasattr(module, "TAB")}
    return dict(sorted(tabs.items(), key=lambda item: item[1].place))


TABS: Final[dict[str, Tab]] = _declared()
"""Tabs by name, in the order of the rail, without the operator table, which belongs to the page."""

__all__ = [
    "TABS",
    "Absent",
    "Card",
    "Cards",
    "Choice",
    "Fact",
    "Facts",
    "Note",
    "Panel",
    "Picture",
    "Source",
    "Stack",
    "Tab",
    "Table",
    "Tree",
]
