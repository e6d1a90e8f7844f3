"""The tabs of the dashboard: one file each, with its ``TAB``.

A tab is only its declaration: the rail, the report, ``p.plot`` and the table of `docs/views.md` are made from
it. A new file here with a ``TAB`` adds a tab, and so does an entry point ``notebook_prof.tabs`` of a package.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

from ... import extensions
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
    SourceTable,
    StackTable,
    Tab,
    Table,
    TreeTable,
)


def _declared() -> dict[str, Tab]:
    modules = {info.name: import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)}
    tabs = {name: module.TAB for name, module in modules.items() if hasattr(module, "TAB")}
    tabs = {name: extensions.load("tabs", name) for name in extensions.names("tabs")} | tabs
    return dict(sorted(tabs.items(), key=lambda item: item[1].place))


TABS: dict[str, Tab]
"""Tabs by name, in the order of the rail; the operator table is the page's own and not among them."""


def __getattr__(name: str) -> Any:
    # on request: a package's module with a tab imports this one
    if name != "TABS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _declared())


__all__ = [
    "TABS", "Absent", "Card", "Cards", "Choice", "Fact", "Facts", "Note", "Panel", "Picture", "SourceTable",
    "StackTable", "Tab", "Table", "TreeTable",
]  # fmt: skip
