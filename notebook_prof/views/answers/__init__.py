"""One function a question: ``(store, state, request) -> Answer``; nothing here knows Jupyter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..packing import Answer
from ..store import ViewStore
from .account import account
from .counters import counters
from .detail import detail
from .find import find, neighbour, search
from .memory import memory
from .meta import doubts, meta, names
from .phases import phases
from .table import table, table_is_slow
from .timeline import MAX_ROWS, lod, strip


def panel(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """A tab: as `tabs.panel`, which needs Bokeh's models; so it is imported after the first picture."""
    from .tabs import panel as made

    return made(store, state, request)


QUESTIONS = (
    "account",
    "counters",
    "detail",
    "doubts",
    "find",
    "lod",
    "memory",
    "meta",
    "names",
    "neighbour",
    "panel",
    "phases",
    "search",
    "strip",
    "table",
)
"""What a page may ask."""

__all__ = [
    "MAX_ROWS",
    "QUESTIONS",
    "account",
    "counters",
    "detail",
    "doubts",
    "find",
    "lod",
    "memory",
    "meta",
    "names",
    "neighbour",
    "panel",
    "phases",
    "search",
    "strip",
    "table",
    "table_is_slow",
]
