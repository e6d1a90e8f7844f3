"""Answers, one function per question: ``(store, state, request) -> Answer``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..packing import Answer
from ..store import ViewStore
from .account import account, phases
from .find import calls, detail, find, neighbour, search
from .meta import doubts, legend, meta, names
from .path import path, what_if, why
from .table import table
from .timeline import MAX_ROWS, counters, memory, selected, strip, timeline_picture

Ask = Callable[[ViewStore, Mapping[str, Any], Mapping[str, Any]], Answer]

QUESTIONS: Final[Mapping[str, Ask]] = {
    "timeline": timeline_picture,
    **{
        ask.__name__: ask
        for ask in (
            *(account, calls, counters, detail, doubts, find, legend, memory, meta, names, neighbour, path),
            *(phases, search, selected, strip, table, what_if, why),
        )
    },
}
"""The questions of a page, and the functions that answer them."""

__all__ = [
    "MAX_ROWS", "QUESTIONS", "Ask", "account", "legend", "memory", "meta", "names", "path", "phases",
    "selected", "table", "timeline_picture",
]  # fmt: skip
