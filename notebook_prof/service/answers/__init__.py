"""One function a question: ``(store, state, request) -> Answer``; nothing here knows Jupyter."""

from __future__ import annotations

from .account import account
from .curves import counters, memory
from .detail import detail
from .find import find, neighbour, search
from .meta import doubts, meta, names
from .phases import phases
from .table import table, table_is_slow
from .timeline import MAX_ROWS, lod, strip

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
    "phases",
    "search",
    "strip",
    "table",
    "table_is_slow",
]
