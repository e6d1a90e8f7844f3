"""One function a question: ``(store, state, request) -> Answer``; nothing here knows Jupyter."""

from .counters import counters
from .detail import detail
from .find import find, neighbour, search
from .memory import memory
from .meta import doubts, meta, names
from .panel import panel
from .phases import phases
from .table import table, table_is_slow
from .timeline import MAX_ROWS, lod, strip

QUESTIONS = (
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
